//! The page of a node's exporter, written by the product's own code from simulated hardware.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Page;
use crate::exporter::passive::PassiveExporter;
use crate::nvml::{Driver, DriverError};

/// The exporter's default between two askings of a GPU.
const INTERVAL: Duration = Duration::from_secs(1);
/// The exporter's default for a call that hangs.
const CALL_DEADLINE: Duration = Duration::from_secs(5);

/// What an exporter finds on its node.
pub trait NodeHardware: Send + Sync {
    /// Grows with each change of anything below.
    fn version(&self) -> u64;

    /// Why nobody answers a scrape; `None` while the exporter runs on a node that has power.
    fn unreachable(&self) -> Option<String>;

    /// How often the exporter was started. A new one knows nothing, and reads the kernel log from its beginning.
    fn starts(&self) -> u64;

    /// The driver.
    ///
    /// # Errors
    ///
    /// There is none now.
    fn driver(&self) -> Result<Arc<dyn Driver>, DriverError>;

    /// Whether calls for the GPU at an index do not return.
    fn hangs(&self, index: u32) -> bool;

    /// The lines of the kernel log after the first so many since the node was booted, and when each was written.
    fn log_after(&self, lines: usize) -> Vec<(Timestamp, String)>;
}

struct Running {
    starts: u64,
    exporter: PassiveExporter,
    lines: usize,
}

#[derive(Default)]
struct Seen {
    running: Option<Running>,
    /// The version that was last scraped, and since when it is known.
    version: Option<(u64, Instant)>,
}

/// The page of one node.
pub struct ExporterPage {
    node: String,
    hardware: Arc<dyn NodeHardware>,
    seen: Mutex<Seen>,
}

impl ExporterPage {
    /// The page of a node with this hardware.
    #[must_use]
    pub fn new(node: &str, hardware: Arc<dyn NodeHardware>) -> Self {
        let (node, seen) = (node.to_owned(), Mutex::default());
        Self {
            node,
            hardware,
            seen,
        }
    }
}

impl Page for ExporterPage {
    fn version(&self) -> Option<u64> {
        let version = self.hardware.version();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, since) = seen.version?;
        let settles = (seen.running.as_ref())
            .map_or(Duration::ZERO, |running| running.exporter.settles_within());
        // Only what was looked at again after it had settled stays as it is.
        (known == version && since.elapsed() > settles).then_some(version)
    }

    fn scrape(&self, at: Timestamp) -> Result<String, String> {
        let now = Instant::now();
        let version = self.hardware.version();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = &mut *seen;
        if seen.version.is_none_or(|(known, _)| known != version) {
            seen.version = Some((version, now));
        }
        if let Some(why) = self.hardware.unreachable() {
            seen.running = None;
            return Err(why);
        }
        let starts = self.hardware.starts();
        let moment = now.into_std();
        let running = match &mut seen.running {
            Some(running) if running.starts == starts => running,
            running => running.insert(Running {
                starts,
                exporter: PassiveExporter::new(&self.node, INTERVAL, CALL_DEADLINE, moment),
                lines: 0,
            }),
        };
        for (at, line) in self.hardware.log_after(running.lines) {
            running.exporter.log(&line, at);
            running.lines += 1;
        }
        let hangs = |index| self.hardware.hangs(index);
        match self.hardware.driver() {
            Ok(driver) => running.exporter.ask(Ok(driver.as_ref()), hangs, moment, at),
            Err(error) => running.exporter.ask(Err(error), hangs, moment, at),
        }
        Ok(running.exporter.page(moment))
    }

    fn follows_time(&self, metric: &str, value: f64, now: Timestamp) -> bool {
        // While a GPU answers, it was last asked at most one interval ago.
        metric == "gpu_exporter_collector_last_success_timestamp_seconds"
            && (now.as_duration().as_secs_f64() - value).abs() < INTERVAL.as_secs_f64()
    }
}

#[cfg(test)]
#[path = "exporter_page_tests.rs"]
mod tests;
