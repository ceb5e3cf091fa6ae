//! The metric families, written from the state at each scrape. A GPU that is not in the state has no series.

use super::families::{Page, log};
use super::state::State;
use crate::kmsg::Counters;
use prometheus_client::collector::Collector;
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

impl Collector for NodeCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
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
        let page = Page::new(&self.node, &state, now);
        page.driver(&mut encoder)?;
        page.presence(&mut encoder)?;
        page.health(&mut encoder)?;
        page.memory(&mut encoder)?;
        page.thermal(&mut encoder)?;
        page.load(&mut encoder)?;
        page.links(&mut encoder)?;
        page.instances(&mut encoder)?;
        // Before that a 0 would be a guess, and history, once it is counted, would look like an increase.
        let caught_up = self.log.caught_up.load(Ordering::Acquire);
        page.xids(&mut encoder, caught_up)?;
        page.pods(&mut encoder)?;
        page.collection(&mut encoder)?;
        page.switches(&mut encoder)?;
        log::write_all(&mut encoder, &page.row, &self.log)
    }
}
