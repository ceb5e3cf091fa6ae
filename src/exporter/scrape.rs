//! The metric families, written from the state at each scrape. A GPU that is not in the state has no series.

use super::collectors::Collector;
use super::families::{Page, log};
use super::state::State;
use crate::kmsg::Counters;
use jiff::Timestamp;
use prometheus_client::collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Writes everything that the node process knows.
#[derive(Debug)]
pub(super) struct NodeCollector {
    pub(super) node: String,
    pub(super) state: Arc<Mutex<State>>,
    pub(super) log: Arc<Counters>,
}

impl collector::Collector for NodeCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        super::sampler::lock(&self.state).no_later_than(Timestamp::now());
        self.encode_at(encoder, Instant::now())
    }
}

impl NodeCollector {
    /// Whether the log was tried and cannot be read.
    fn has_failed(&self) -> bool {
        self.log.tried.load(Ordering::Acquire) && !self.log.open.load(Ordering::Relaxed)
    }

    /// Writes everything as it is at a moment.
    pub(super) fn encode_at(
        &self,
        mut encoder: DescriptorEncoder<'_>,
        now: Instant,
    ) -> fmt::Result {
        let state = super::sampler::lock(&self.state).clone();
        let on = |collector| state.collectors.is_on(collector);
        let page = Page::new(&self.node, &state, now);
        if on(Collector::Nvml) {
            page.driver(&mut encoder)?;
        }
        page.presence(&mut encoder)?;
        page.health(&mut encoder)?;
        page.memory(&mut encoder)?;
        page.thermal(&mut encoder)?;
        page.load(&mut encoder)?;
        page.links(&mut encoder)?;
        page.instances(&mut encoder)?;
        let history_is_read = self.log.caught_up.load(Ordering::Acquire);
        // Before that a 0 would be a guess, and history, once it is counted, would look like an increase. Where the log is not
        // to be read or cannot be, there is no history, and the driver's events alone count.
        let caught_up = match on(Collector::KernelLog) {
            true => history_is_read || self.has_failed(),
            false => on(Collector::NvmlEvents),
        };
        page.xids(&mut encoder, caught_up)?;
        page.pods(&mut encoder)?;
        page.collection(&mut encoder, self.log.open.load(Ordering::Relaxed))?;
        page.switches(&mut encoder, on(Collector::KernelLog) && history_is_read)?;
        if on(Collector::KernelLog) {
            log::write_all(&mut encoder, &page.row, &self.log)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::exporter::Collectors;
    use crate::exporter::state::tests::{A, healthy, identity};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use std::time::Duration;

    /// A page of the state, now, beside a log of which nothing is known.
    fn page(state: State) -> String {
        page_beside(state, Arc::default())
    }

    fn page_beside(state: State, log: Arc<Counters>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(NodeCollector {
            node: "a".to_owned(),
            state: Arc::new(Mutex::new(state)),
            log,
        }));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn where_the_log_cannot_be_read_the_counts_of_the_drivers_events_start_at_0() {
        let zeros = |tried: bool, open: bool| {
            let log = Arc::new(Counters::default());
            log.tried.store(tried, Ordering::Release);
            log.open.store(open, Ordering::Relaxed);
            let page = page_beside(healthy().0, log);
            page.contains("gpu_xid_errors_total{")
        };
        assert!(!zeros(false, false), "it was not tried yet");
        assert!(!zeros(true, true), "its history is being read");
        assert!(zeros(true, false));
    }

    #[test]
    fn an_xid_has_no_series_before_its_gpu_has_a_name() {
        let mut state = State::new(Collectors::default(), Duration::from_secs(5));
        state.ledger.xid(A.parse().unwrap(), 79, None);
        let of_xid = |state: &State| -> Vec<String> {
            let page = page(state.clone());
            let lines = page.lines().map(str::to_owned);
            lines.filter(|line| line.contains(r#"xid="79""#)).collect()
        };
        assert!(of_xid(&state).is_empty());
        state.driver_answered("570.1".to_owned(), 1);
        assert!(of_xid(&state).is_empty());
        state.gpu_identified(identity(0, "GPU-a", A));
        let lines = of_xid(&state);
        assert!(lines[0].contains(r#"UUID="GPU-a""#), "{lines:?}");
    }

    #[test]
    fn no_page_tells_of_the_future() {
        let mut state = State::new(Collectors::default(), Duration::from_secs(5));
        let ahead = Timestamp::now() + Duration::from_secs(3600);
        let pci = "0000:3b:00".parse().unwrap();
        state.driver_answered("570.1".to_owned(), 0);
        state.ledger.xid(pci, 79, Some(ahead));
        let page = page(state);
        let family = "gpu_xid_last_timestamp_seconds{";
        let line = page.lines().find(|line| line.starts_with(family));
        let value: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(value < ahead.as_duration().as_secs_f64() - 1800.0);
    }
}
