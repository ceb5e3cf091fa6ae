//! The node process: the driver and the kernel log in, `/metrics` out. It judges nothing.

mod collector;
mod ledger;
mod sampler;
mod series;
mod state;

use crate::http::{self, BindError, Limits, Parts, Router, Server, StatusCode};
use crate::kmsg::{Counters, Entry, KernelLog};
use crate::nvml::DriverSource;
use crate::telemetry;
use crate::xid::{self, Parser};
use collector::NodeCollector;
use prometheus_client::registry::Registry;
use sampler::{Pace, Shared, lock};
use state::State;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long the threads have to end the driver session before the process ends without.
const SHUTDOWN: Duration = Duration::from_secs(2);

/// What the node process needs to know.
pub struct Config {
    /// Where `/metrics` is served.
    pub listen: SocketAddr,
    /// The node's name, for the label `node`.
    pub node: String,
    /// The kernel log: `/dev/kmsg` or a file.
    pub kernel_log: PathBuf,
    /// Where the driver comes from.
    pub driver: Box<dyn DriverSource>,
    /// Between two askings of a GPU.
    pub interval: Duration,
    /// A driver call that takes longer hangs.
    pub call_deadline: Duration,
}

/// Why the node process cannot run. A missing driver or kernel log is no reason.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system has no thread left.
    #[error("cannot start the {name} thread")]
    Thread {
        /// What the thread was for.
        name: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Runs the node process until the token is cancelled.
///
/// # Errors
///
/// See [`ExporterError`].
pub async fn run(config: Config, stop: CancellationToken) -> Result<(), ExporterError> {
    let server = Server::bind(config.listen, Limits::default()).await?;
    let state = Arc::new(Mutex::new(State::new(
        config.interval,
        config.call_deadline,
    )));
    let log = Arc::new(Counters::default());
    let pace = Pace {
        interval: config.interval,
        deadline: config.call_deadline,
    };
    let shared = Shared::new(Arc::clone(&state), pace);
    let driver = sampler::start(Arc::clone(&shared), config.driver).map_err(|source| {
        ExporterError::Thread {
            name: "driver",
            source,
        }
    })?;
    // This thread is not waited for: it holds nothing that must be given back.
    read_log(
        config.kernel_log,
        Arc::clone(&state),
        Arc::clone(&log),
        stop.clone(),
    )
    .map_err(|source| ExporterError::Thread {
        name: "kernel log",
        source,
    })?;

    let mut registry = Registry::default();
    telemetry::register_build_info(&mut registry);
    registry.register_collector(Box::new(NodeCollector {
        node: config.node,
        state: Arc::clone(&state),
        log,
    }));
    if let Ok(address) = server.local_address() {
        tracing::info!(%address, "listening");
    }
    let ready_by = Instant::now() + config.call_deadline;
    server
        .serve(routes(Arc::new(registry), state, ready_by), stop)
        .await;

    shared.stop();
    let ended_by = Instant::now() + SHUTDOWN;
    while !driver.is_finished() && Instant::now() < ended_by {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn routes(registry: Arc<Registry>, state: Arc<Mutex<State>>, ready_by: Instant) -> Router {
    Router::new()
        .get("/metrics", move |parts: Parts| {
            let registry = Arc::clone(&registry);
            async move { http::metrics(&registry, &parts.headers) }
        })
        // The process lives, whatever the driver does: a restart cures no driver.
        .get("/healthz", |_| async { http::text(StatusCode::OK, "ok\n") })
        .get("/readyz", move |_| {
            // Ready when the driver was asked once, so that a first scrape is not empty; or when it takes too long.
            let ready = lock(&state).driver.tried || Instant::now() >= ready_by;
            async move {
                if ready {
                    http::text(StatusCode::OK, "ok\n")
                } else {
                    http::text(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "the driver has not been asked yet\n",
                    )
                }
            }
        })
        .get("/", |_| async {
            http::text(
                StatusCode::OK,
                "gpu-remediator exporter\n\n/metrics\n/healthz\n/readyz\n",
            )
        })
}

fn read_log(
    path: PathBuf,
    state: Arc<Mutex<State>>,
    counters: Arc<Counters>,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut parser = Parser::default();
    let each = move |entry: Entry<'_>| {
        if !xid::may_be_message(entry.line.bytes()) {
            return;
        }
        if let Some(message) = parser.parse(&entry.line.text()) {
            let at = entry.time();
            tracing::debug!(?message, ?at, "the driver logged");
            lock(&state).observe(message, at);
        }
    };
    std::thread::Builder::new()
        .name("kernel-log".to_owned())
        .spawn(move || KernelLog::new(path).follow(&counters, || stop.is_cancelled(), each))?;
    Ok(())
}
