//! The node process without its threads, its clock and its sockets, for a cluster that is simulated: it does something only
//! when it is told to, and is told what time it is. What it writes comes from the same code.

use super::collectors::{Collector, Collectors};
use super::sampler::lock;
use super::schedule::fresh;
use super::scrape::NodeCollector;
use super::state::State;
use crate::kmsg::Counters;
use crate::nvml::{Driver, DriverError};
use crate::xid::{self, Parser};
use jiff::Timestamp;
use prometheus_client::collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A node process that is driven from outside. It has read the history of the kernel log when it begins.
#[derive(Debug)]
pub struct PassiveExporter {
    state: Arc<Mutex<State>>,
    log: Arc<Counters>,
    parser: Parser,
    registry: Registry,
    now: Arc<Mutex<Instant>>,
    fresh: Duration,
}

/// The collector, at a moment that is told.
#[derive(Debug)]
struct Told {
    collector: NodeCollector,
    now: Arc<Mutex<Instant>>,
}

impl collector::Collector for Told {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = *lock(&self.now);
        self.collector.encode_at(encoder, now)
    }
}

impl PassiveExporter {
    /// The exporter of a node; `interval` and `call_deadline` as in [`super::Config`].
    #[must_use]
    pub fn new(node: &str, interval: Duration, call_deadline: Duration, now: Instant) -> Self {
        let state = Arc::new(Mutex::new(State::new(
            Collectors::default().every(Collector::Nvml, interval),
            call_deadline,
        )));
        let log = Arc::new(Counters::default());
        log.open.store(true, Ordering::Relaxed);
        log.tried.store(true, Ordering::Release);
        log.caught_up.store(true, Ordering::Release);
        let now = Arc::new(Mutex::new(now));
        let mut registry = Registry::default();
        crate::telemetry::register_build_info(&mut registry);
        registry.register_collector(Box::new(Told {
            collector: NodeCollector {
                node: node.to_owned(),
                state: Arc::clone(&state),
                log: Arc::clone(&log),
            },
            now: Arc::clone(&now),
        }));
        Self {
            state,
            log,
            parser: Parser::default(),
            registry,
            now,
            fresh: fresh(interval, call_deadline),
        }
    }

    /// How long after a change the page may still change by itself: a call turns out to hang, a sample becomes too old.
    #[must_use]
    pub fn settles_within(&self) -> Duration {
        self.fresh
    }

    /// Asks the driver for everything. A GPU whose calls hang, as `hangs` says by its index, is asked once and then left alone
    /// until they do not.
    pub fn ask(
        &mut self,
        driver: Result<&dyn Driver, DriverError>,
        hangs: impl Fn(u32) -> bool,
        now: Instant,
        at: Timestamp,
    ) {
        let mut state = lock(&self.state);
        state.driver_asked(now);
        let answered = driver.and_then(|driver| {
            let count = driver.gpu_count()?;
            Ok((driver, driver.version()?, count))
        });
        let (driver, count) = match answered {
            Ok((driver, version, count)) => {
                state.driver_answered(version, count);
                (driver, count)
            }
            Err(error) => {
                state.driver_failed(&error);
                return;
            }
        };
        for index in 0..count {
            if hangs(index) {
                state.gpu_asked_once(index, now);
                continue;
            }
            state.gpu_asked(index, now);
            let result = driver.identity(index).and_then(|identity| {
                state.gpu_identified(identity);
                driver.sample(index)
            });
            state.gpu_answered(index, result, now, at);
        }
    }

    /// Reads one line of the kernel log, that was written at a time.
    pub fn log(&mut self, line: &str, at: Timestamp) {
        self.log.lines.fetch_add(1, Ordering::Relaxed);
        if !xid::may_be_message(line.as_bytes()) {
            return;
        }
        for message in self.parser.parse(line) {
            lock(&self.state).observe(message, Some(at));
        }
    }

    /// The page of metrics, in the text format 0.0.4.
    #[must_use]
    pub fn page(&self, now: Instant) -> String {
        *lock(&self.now) = now;
        let mut page = String::with_capacity(16 * 1024);
        // Writing into a string fails only where a collector fails, and ours fail only where writing does.
        let _ = prometheus_text::encode(&mut page, &self.registry);
        page
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::nvml::SimulatedGpus;

    #[test]
    fn the_page_says_what_the_driver_and_the_log_said_and_what_hangs() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let mut exporter = PassiveExporter::new("node-1", second, 5 * second, start);
        let driver = SimulatedGpus::new(2, "node-1");
        exporter.ask(Ok(&driver), |_| false, start, at);
        exporter.log(
            "NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', name=<unknown>",
            at,
        );
        let count = |page: &str, family: &str, value: &str| {
            let ours = |line: &&str| line.starts_with(family) && line.ends_with(value);
            page.lines().filter(ours).count()
        };
        let page = exporter.page(start);
        assert_eq!(
            count(&page, "gpu_up{", " 1.0") + count(&page, "gpu_up{", " 1"),
            2,
            "{page}"
        );
        assert_eq!(count(&page, "gpu_xid_last_timestamp_seconds{", ""), 1);
        assert_eq!(
            count(&page, "gpu_collect_hung{", " 1.0") + count(&page, "gpu_collect_hung{", " 1"),
            0
        );
        for seconds in 1..10 {
            exporter.ask(
                Ok(&driver),
                |index| index == 1,
                start + seconds * second,
                at,
            );
        }
        let page = exporter.page(start + 10 * second);
        assert_eq!(
            count(&page, "gpu_collect_hung{", " 1.0") + count(&page, "gpu_collect_hung{", " 1"),
            1,
            "{page}"
        );
        assert_eq!(
            count(&page, "gpu_up{", " 0.0") + count(&page, "gpu_up{", " 0"),
            1
        );
        exporter.ask(
            Err(DriverError::Load("gone".to_owned())),
            |_| false,
            start + 11 * second,
            at,
        );
        let page = exporter.page(start + 11 * second);
        assert!(
            page.contains("gpu_driver_error{node=\"node-1\",code=\"library_not_found\"} 1"),
            "{page}"
        );
    }
}
