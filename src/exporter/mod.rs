//! The node process: the driver and the kernel log in, `/metrics` out. It judges nothing.

mod bus;

mod collectors;
mod config;
mod families;
mod kernel_log;
mod kubelet;
mod ledger;
mod listener;
mod outcome;
#[cfg(feature = "sim")]
pub mod passive;
mod pod_info;
mod presence;
mod release;
mod sampler;
mod schedule;
mod scrape;
mod series;
mod state;
mod switches;
mod told;
mod verdicts;
mod worker;

use crate::http::{self, Exposition, Limits, Parts, Router, Server, StatusCode, WebConfig};
use crate::kmsg::Counters;
use crate::kubernetes::pod_resources::PodResources;
use crate::nvml::PciBus;
use crate::telemetry;
pub use collectors::{Collector, Collectors};
pub use config::{Config, ExporterError, ReleaseListener};

use kernel_log::Logs;
use kubelet::Kubelet;
use prometheus_client::registry::Registry;
use sampler::{Pace, Shared, lock};
use scrape::NodeCollector;
use state::State;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long the threads have to end the driver session before the process ends without.
const SHUTDOWN: Duration = Duration::from_secs(2);
/// How long the history of the kernel log may keep the process from being ready.
const HISTORY: Duration = Duration::from_secs(60);

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
    let collectors = config.collectors;
    let on = |collector| collectors.is_on(collector);
    // Where nobody asks the driver, there is nothing to let go.
    let release_server = match config.release.filter(|_| on(Collector::Nvml)) {
        Some(listener) => bind_release(listener).await?,
        None => None,
    };
    let mut state = State::new(collectors.clone(), config.call_deadline);
    state.presence.configure(config.expected_gpus);
    let state = Arc::new(Mutex::new(state));
    let log = Arc::new(Counters::default());
    let pace = Pace {
        collectors: collectors.clone(),
        deadline: config.call_deadline,
    };
    let shared = Shared::new(Arc::clone(&state), Arc::clone(&log), pace);
    let driver = on(Collector::Nvml)
        .then(|| sampler::start(Arc::clone(&shared), config.driver))
        .transpose()
        .map_err(|source| no_thread("driver", source))?;
    if let Some(sysfs) = config.sysfs.filter(|_| on(Collector::PciBus)) {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("pci-bus".to_owned())
            .spawn(move || bus::watch(&shared, &PciBus::new(&sysfs)))
            .map_err(|source| no_thread("PCI bus", source))?;
    }
    if let Some(server) = release_server {
        let routes = release::routes(Arc::clone(&shared));
        tokio::spawn(server.serve(routes, stop.clone()));
    }
    tokio::spawn(release_on_signal(Arc::clone(&shared)));
    if on(Collector::KernelLog) {
        let logs = Logs {
            path: config.kernel_log,
            simulated: config.simulated_log,
        };
        kernel_log::start(logs, &state, &log, &stop)
            .map_err(|source| no_thread("kernel log", source))?;
    }
    let kubelet = config.pod_resources.filter(|_| on(Collector::PodResources));
    if let Some(socket) = kubelet {
        let interval = collectors.interval(Collector::PodResources);
        let deadline = config.call_deadline;
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
        .serve(routes(Exposition::new(registry), readiness), stop)
        .await;

    shared.stop();
    let ended_by = Instant::now() + SHUTDOWN;
    while driver.as_ref().is_some_and(|driver| !driver.is_finished()) && Instant::now() < ended_by {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn no_thread(name: &'static str, source: io::Error) -> ExporterError {
    ExporterError::Thread { name, source }
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
        let (asks, reads, asked) = {
            let state = lock(&self.state);
            let on = |collector| state.collectors.is_on(collector);
            (
                on(Collector::Nvml),
                on(Collector::KernelLog),
                state.driver.tried,
            )
        };
        if asks && !asked && now < self.driver_by {
            return Some("the driver has not been asked yet\n");
        }
        if reads && !self.log.tried.load(Ordering::Acquire) && now < self.log_by {
            return Some("the history of the kernel log is still being read\n");
        }
        None
    }
}

fn routes(metrics: Exposition, readiness: Readiness) -> Router {
    Router::new()
        .get("/metrics", move |parts: Parts| {
            let metrics = metrics.clone();
            async move { metrics.answer(&parts.headers).await }
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
        let second = Duration::from_secs(1);
        let state = Arc::new(Mutex::new(State::new(Collectors::default(), 5 * second)));
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
