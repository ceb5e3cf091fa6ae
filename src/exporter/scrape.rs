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
        // Before that a 0 would be a guess, and history, once it is counted, would look like an increase. Where the log is not
        // to be read, there is no history, and the driver's events alone count.
        let caught_up = match on(Collector::KernelLog) {
            true => self.log.caught_up.load(Ordering::Acquire),
            false => on(Collector::NvmlEvents),
        };
        page.xids(&mut encoder, caught_up)?;
        page.pods(&mut encoder)?;
        page.collection(&mut encoder, self.log.open.load(Ordering::Relaxed))?;
        page.switches(&mut encoder)?;
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
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use std::time::Duration;

    /// A page of the state, now.
    fn page(state: State) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(NodeCollector {
            node: "a".to_owned(),
            state: Arc::new(Mutex::new(state)),
            log: Arc::default(),
        }));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
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
