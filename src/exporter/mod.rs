//! The node process: the driver and the kernel log in, `/metrics` out. It judges nothing.

mod collector;
mod families;
mod kernel_log;
mod kubelet;
mod ledger;
mod listener;
#[cfg(feature = "sim")]
pub mod passive;
mod pod_info;
mod presence;
mod release;
mod sampler;
mod series;
mod state;
mod switches;
mod told;

use crate::http::{
    self, BindError, Limits, Parts, Router, Server, StatusCode, WebConfig, WebConfigError,
};
use crate::kmsg::Counters;
use crate::kubernetes::pod_resources::PodResources;
use crate::nvml::{DriverSource, PciBus, ScenarioLog};
use crate::telemetry;
use collector::NodeCollector;
use kernel_log::Logs;
use kubelet::Kubelet;
use prometheus_client::registry::Registry;
use sampler::{Pace, Shared, lock};
use state::State;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long the threads have to end the driver session before the process ends without.
const SHUTDOWN: Duration = Duration::from_secs(2);
/// How often it is looked what the kernel sees on the bus.
const BUS_INTERVAL: Duration = Duration::from_secs(10);
/// How long the history of the kernel log may keep the process from being ready.
const HISTORY: Duration = Duration::from_secs(60);

/// What the node process needs to know.
pub struct Config {
    /// Where `/metrics` is served.
    pub listen: SocketAddr,
    /// A file that asks for TLS or basic authentication there.
    pub web_config: Option<PathBuf>,
    /// The node's name, for the label `node`.
    pub node: String,
    /// The kernel log: `/dev/kmsg` or a file; `None` where the simulated one takes its place.
    pub kernel_log: Option<PathBuf>,
    /// The kernel log of simulated GPUs, which is read beside the other.
    pub simulated_log: Option<ScenarioLog>,
    /// Where the driver comes from.
    pub driver: Box<dyn DriverSource>,
    /// Between two askings of a GPU.
    pub interval: Duration,
    /// A driver call that takes longer hangs; the kubelet's answer is waited for as long.
    pub call_deadline: Duration,
    /// How many GPUs there should be, where the operator knows.
    pub expected_gpus: Option<u32>,
    /// Where the kernel shows its devices; `None` where the GPUs are not this machine's.
    pub sysfs: Option<PathBuf>,
    /// Where `/release` is served.
    pub release: Option<ReleaseListener>,
    /// The kubelet's PodResources socket; `None` to leave the kubelet alone.
    pub pod_resources: Option<PathBuf>,
    /// Between two askings of the kubelet.
    pub pod_resources_interval: Duration,
}

/// The listener for requests of this machine alone.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseListener {
    /// An address that only this machine can reach.
    pub address: SocketAddr,
    /// Whether the process is to go on without it where the address is taken.
    pub optional: bool,
}

/// Why the node process cannot run. A missing driver or kernel log is no reason.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The web configuration cannot be used.
    #[error(transparent)]
    WebConfig(#[from] WebConfigError),
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
    let web_config = config.web_config.map(WebConfig::open).transpose()?;
    let server = Server::bind(config.listen, Limits::default())
        .await?
        .with_web_config(web_config);
    let release_server = match config.release {
        Some(listener) => bind_release(listener).await?,
        None => None,
    };
    let mut state = State::new(config.interval, config.call_deadline);
    state.presence.configure(config.expected_gpus);
    let state = Arc::new(Mutex::new(state));
    let log = Arc::new(Counters::default());
    let pace = Pace {
        interval: config.interval,
        deadline: config.call_deadline,
    };
    let shared = Shared::new(Arc::clone(&state), Arc::clone(&log), pace);
    let driver = sampler::start(Arc::clone(&shared), config.driver).map_err(|source| {
        ExporterError::Thread {
            name: "driver",
            source,
        }
    })?;
    if let Some(sysfs) = config.sysfs {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("pci-bus".to_owned())
            .spawn(move || watch_bus(&shared, &PciBus::new(&sysfs)))
            .map_err(|source| ExporterError::Thread {
                name: "PCI bus",
                source,
            })?;
    }
    if let Some(server) = release_server {
        let routes = release::routes(Arc::clone(&shared));
        tokio::spawn(server.serve(routes, stop.clone()));
    }
    tokio::spawn(release_on_signal(Arc::clone(&shared)));
    let logs = Logs {
        path: config.kernel_log,
        simulated: config.simulated_log,
    };
    kernel_log::start(logs, &state, &log, &stop).map_err(|source| ExporterError::Thread {
        name: "kernel log",
        source,
    })?;

    if let Some(socket) = config.pod_resources {
        let (interval, deadline) = (config.pod_resources_interval, config.call_deadline);
        lock(&state).kubelet = Some(Kubelet::new(interval, deadline));
        let asked = PodResources { socket, deadline };
        tokio::spawn(kubelet::ask(
            asked,
            interval,
            Arc::clone(&state),
            stop.clone(),
        ));
    }

    let mut registry = Registry::default();
    telemetry::register_build_info(&mut registry);
    if let Some(success) = server.web_config_reload_success() {
        let node = ("node".into(), config.node.clone().into());
        registry.sub_registry_with_label(node).register(
            "gpu_exporter_web_config_reload_success",
            "Whether the web configuration was good when it was last looked at; 0 means that an older one is still used",
            success,
        );
    }
    registry.register_collector(Box::new(NodeCollector {
        node: config.node,
        state: Arc::clone(&state),
        log: Arc::clone(&log),
    }));
    if let Ok(address) = server.local_address() {
        tracing::info!(%address, "listening");
    }
    let readiness = Readiness {
        state,
        log,
        driver_by: Instant::now() + config.call_deadline,
        log_by: Instant::now() + HISTORY,
    };
    server
        .serve(routes(Arc::new(registry), readiness), stop)
        .await;

    shared.stop();
    let ended_by = Instant::now() + SHUTDOWN;
    while !driver.is_finished() && Instant::now() < ended_by {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn bind_release(listener: ReleaseListener) -> Result<Option<Server>, ExporterError> {
    match Server::bind(listener.address, Limits::default()).await {
        Ok(server) => {
            if let Ok(address) = server.local_address() {
                tracing::info!(%address, "listening for /release");
            }
            Ok(Some(server))
        }
        Err(error) if listener.optional => {
            tracing::warn!(%error, "no /release; SIGUSR1 lets the driver go as well");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

async fn release_on_signal(shared: Arc<Shared>) {
    match signal(SignalKind::user_defined1()) {
        Ok(mut asked) => {
            while asked.recv().await.is_some() {
                release::release(&shared, release::DEFAULT);
            }
        }
        Err(error) => tracing::warn!(%error, "cannot listen for SIGUSR1"),
    }
}

/// Looks at what the kernel sees, for as long as the process lives.
fn watch_bus(shared: &Shared, bus: &PciBus) {
    let mut said = false;
    loop {
        let gpus = bus.gpus();
        if let Err(error) = &gpus
            && !said
        {
            said = true;
            tracing::info!(%error, "the kernel does not show its PCI devices; a GPU that the driver never had is not seen");
        }
        lock(shared.state_mutex()).presence.kernel_sees(gpus.ok());
        if !shared.wait(BUS_INTERVAL) {
            return;
        }
    }
}

/// Ready is who has looked once everywhere, so that a first scrape is neither empty nor half of the history. What takes too
/// long or cannot be had is not waited for.
struct Readiness {
    state: Arc<Mutex<State>>,
    log: Arc<Counters>,
    driver_by: Instant,
    log_by: Instant,
}

impl Readiness {
    /// What is still waited for at a moment.
    fn missing(&self, now: Instant) -> Option<&'static str> {
        if !lock(&self.state).driver.tried && now < self.driver_by {
            return Some("the driver has not been asked yet\n");
        }
        if !self.log.tried.load(Ordering::Acquire) && now < self.log_by {
            return Some("the history of the kernel log is still being read\n");
        }
        None
    }
}

fn routes(registry: Arc<Registry>, readiness: Readiness) -> Router {
    Router::new()
        .get("/metrics", move |parts: Parts| {
            let registry = Arc::clone(&registry);
            async move { http::metrics(&registry, &parts.headers) }
        })
        // The process lives, whatever the driver does: a restart cures no driver.
        .get("/healthz", |_| async { http::text(StatusCode::OK, "ok\n") })
        .get("/readyz", move |_| {
            let missing = readiness.missing(Instant::now());
            async move {
                match missing {
                    None => http::text(StatusCode::OK, "ok\n"),
                    Some(what) => http::text(StatusCode::SERVICE_UNAVAILABLE, what),
                }
            }
        })
        .get("/", |_| async {
            http::landing(
                "gpu-remediator exporter",
                &[
                    ("/metrics", "the GPUs and the kernel log of this node"),
                    ("/healthz", "whether this process lives"),
                    ("/readyz", "whether it has looked everywhere once"),
                ],
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvml::{DriverError, Identity};
    use prometheus_client::encoding::text::encode;

    fn parts() -> (Arc<Mutex<State>>, Arc<Counters>) {
        let (second, five) = (Duration::from_secs(1), Duration::from_secs(5));
        let state = Arc::new(Mutex::new(State::new(second, five)));
        (state, Arc::new(Counters::default()))
    }

    #[test]
    fn ready_is_who_has_asked_the_driver_and_read_the_history_or_waited_long_enough() {
        let (state, log) = parts();
        let start = Instant::now();
        let readiness = Readiness {
            state: Arc::clone(&state),
            log: Arc::clone(&log),
            driver_by: start + Duration::from_secs(5),
            log_by: start + HISTORY,
        };
        let missing = |at| readiness.missing(at).unwrap_or_default();
        assert!(missing(start).contains("driver"));
        assert!(missing(start + Duration::from_secs(5)).contains("kernel log"));
        lock(&state).driver_failed(&DriverError::GpuLost);
        assert!(missing(start).contains("kernel log"));
        assert_eq!(readiness.missing(start + HISTORY), None);
        log.tried.store(true, Ordering::Release);
        assert_eq!(readiness.missing(start), None);
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn no_count_is_0_before_the_history_is_read() {
        let (state, log) = parts();
        lock(&state).driver_answered("570.1".to_owned(), 1);
        lock(&state).gpu_identified(Identity {
            index: 0,
            uuid: "GPU-a".to_owned(),
            pci: "0000:3b:00".parse().unwrap(),
            minor: 0,
            model: "Test GPU".to_owned(),
            serial: None,
            vbios: None,
        });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(NodeCollector {
            node: "a".to_owned(),
            state,
            log: Arc::clone(&log),
        }));
        let counts = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text.matches("gpu_xid_errors_total{").count()
        };
        assert_eq!(counts(), 0);
        log.caught_up.store(true, Ordering::Release);
        assert!(counts() > 0);
    }
}
