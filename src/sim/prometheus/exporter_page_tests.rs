#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::super::{Prometheus, Value};
use super::*;
use crate::clock::Clock;
use crate::nvml::{Identity, Sample, SimulatedGpus};
use std::collections::BTreeSet;

#[derive(Default)]
struct Broken {
    lost: BTreeSet<u32>,
    hung: BTreeSet<u32>,
    missing: u32,
    no_driver: bool,
    off: bool,
    starts: u64,
    log: Vec<(Timestamp, String)>,
    version: u64,
}

/// A node of four GPUs that can be broken.
#[derive(Default)]
struct Node {
    state: Mutex<Broken>,
}

struct Session {
    gpus: SimulatedGpus,
    lost: BTreeSet<u32>,
    missing: u32,
}

impl Driver for Session {
    fn version(&self) -> Result<String, DriverError> {
        self.gpus.version()
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        Ok(self.gpus.gpu_count()? - self.missing)
    }

    fn identity(&self, index: u32) -> Result<Identity, DriverError> {
        self.gpus.identity(index)
    }

    fn sample(&self, index: u32) -> Result<Sample, DriverError> {
        if self.lost.contains(&index) {
            Err(DriverError::GpuLost)
        } else {
            self.gpus.sample(index)
        }
    }
}

impl Node {
    fn change(&self, change: impl FnOnce(&mut Broken)) {
        let mut state = self.state.lock().unwrap();
        change(&mut state);
        state.version += 1;
    }
}

impl NodeHardware for Node {
    fn version(&self) -> u64 {
        self.state.lock().unwrap().version
    }

    fn unreachable(&self) -> Option<String> {
        self.state
            .lock()
            .unwrap()
            .off
            .then(|| "no route to host".to_owned())
    }

    fn starts(&self) -> u64 {
        self.state.lock().unwrap().starts
    }

    fn driver(&self) -> Result<Arc<dyn Driver>, DriverError> {
        let state = self.state.lock().unwrap();
        if state.no_driver {
            return Err(DriverError::Load("no such file".to_owned()));
        }
        let gpus = SimulatedGpus::new(4, "node-1");
        Ok(Arc::new(Session {
            gpus,
            lost: state.lost.clone(),
            missing: state.missing,
        }))
    }

    fn hangs(&self, index: u32) -> bool {
        self.state.lock().unwrap().hung.contains(&index)
    }

    fn log_after(&self, lines: usize) -> Vec<(Timestamp, String)> {
        self.state
            .lock()
            .unwrap()
            .log
            .iter()
            .skip(lines)
            .cloned()
            .collect()
    }
}

const SCRAPE: Duration = Duration::from_secs(15);

fn start() -> (Arc<Node>, Arc<ExporterPage>, Prometheus, Clock) {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let prometheus = Prometheus::new(clock.clone(), SCRAPE);
    let node = Arc::new(Node::default());
    let page = Arc::new(ExporterPage::new(
        "node-1",
        Arc::clone(&node) as Arc<dyn NodeHardware>,
    ));
    prometheus.add_target(
        "gpu-exporter",
        "node-1:9400",
        Arc::clone(&page) as Arc<dyn Page>,
    );
    (node, page, prometheus, clock)
}

fn number(prometheus: &Prometheus, expr: &str) -> f64 {
    match prometheus.instant(&format!("scalar({expr})")).unwrap() {
        Value::Scalar(point) => point.value,
        other => panic!("{other:?}"),
    }
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_secs(count * 60)).await;
}

const HEALTHY: &str = "count(gpu_up{node=\"node-1\"} == 1 and on (node, UUID) gpu_recovery_action == 0 \
    and on (node) min by (node) (gpu_present) >= max by (node) (max_over_time(gpu_present[7d])))";

#[tokio::test(start_paused = true)]
async fn an_xid_is_seen_and_quiet_days_are_free() {
    let (node, page, prometheus, clock) = start();
    minutes(24 * 60).await;
    assert_eq!(number(&prometheus, HEALTHY), 4.0);
    assert!(page.version().is_some());
    let expr = "count(time() - gpu_xid_last_timestamp_seconds{xid=\"79\"} < 300)";
    assert!(number(&prometheus, expr).is_nan());
    let line = "NVRM: Xid (PCI:0000:12:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
    node.change(|state| state.log.push((clock.now(), line.to_owned())));
    minutes(1).await;
    assert_eq!(number(&prometheus, expr), 1.0);
    let increase = "sum(increase(gpu_xid_errors_total{xid=\"79\",gpu=\"2\"}[5m]))";
    assert!(number(&prometheus, increase) > 0.9);
    let last = "max(time() - gpu_exporter_collector_last_success_timestamp_seconds)";
    assert!(
        number(&prometheus, last) <= 15.0,
        "a time that is always now goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn lost_hung_and_vanished_gpus_show_and_so_does_their_repair() {
    let (node, page, prometheus, _) = start();
    minutes(1).await;
    node.change(|state| {
        state.lost.insert(1);
        state.hung.insert(2);
    });
    minutes(1).await;
    assert_eq!(number(&prometheus, "gpu_lost{gpu=\"1\"}"), 1.0);
    assert_eq!(number(&prometheus, "gpu_collect_hung{gpu=\"2\"}"), 1.0);
    assert_eq!(number(&prometheus, "count(gpu_up == 0)"), 2.0);
    assert!(
        page.version().is_some(),
        "what hangs goes on hanging by itself"
    );
    node.change(|state| {
        *state = Broken {
            missing: 1,
            starts: 1,
            version: state.version,
            ..Broken::default()
        }
    });
    minutes(1).await;
    assert_eq!(number(&prometheus, "gpu_present"), 3.0);
    assert_eq!(number(&prometheus, "count(gpu_up == 1)"), 3.0);
    assert!(number(&prometheus, HEALTHY).is_nan(), "a GPU is missing");
    node.change(|state| state.missing = 0);
    minutes(1).await;
    assert_eq!(number(&prometheus, HEALTHY), 4.0);
}

#[tokio::test(start_paused = true)]
async fn a_gpu_that_vanishes_under_a_running_exporter_is_down_once_its_sample_is_old() {
    let (node, _, prometheus, _) = start();
    minutes(1).await;
    node.change(|state| state.missing = 1);
    minutes(1).await;
    assert_eq!(number(&prometheus, "count(gpu_up == 0)"), 1.0);
    assert_eq!(number(&prometheus, "gpu_present"), 3.0);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_power_and_one_without_a_driver_are_told_apart() {
    let (node, _, prometheus, _) = start();
    minutes(1).await;
    node.change(|state| state.no_driver = true);
    minutes(1).await;
    assert_eq!(number(&prometheus, "gpu_driver_up"), 0.0);
    assert_eq!(
        number(
            &prometheus,
            "count(gpu_driver_error{code=\"library_not_found\"})"
        ),
        1.0
    );
    node.change(|state| state.off = true);
    minutes(1).await;
    assert_eq!(number(&prometheus, "up"), 0.0);
    assert!(number(&prometheus, "count(gpu_driver_up)").is_nan());
    node.change(|state| {
        *state = Broken {
            version: state.version,
            starts: 1,
            ..Broken::default()
        }
    });
    minutes(1).await;
    assert_eq!(number(&prometheus, HEALTHY), 4.0);
}
