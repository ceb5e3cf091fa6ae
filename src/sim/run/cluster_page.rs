//! The cluster's objects, as the page of kube-state-metrics reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::sim::api_server::{ApiServer, Call, Observer, Resource, Write, resources};
use crate::sim::prometheus::Cluster;

/// What the page tells of.
const TOLD: [&Resource; 6] = [
    resources::NODES,
    resources::PODS,
    resources::DEPLOYMENTS,
    resources::STATEFUL_SETS,
    resources::JOBS,
    resources::POD_DISRUPTION_BUDGETS,
];

/// Reads the API server.
pub(super) struct Objects {
    api: ApiServer,
    revision: Arc<AtomicU64>,
}

/// Counts the changes of what the page tells of: a Lease is renewed every other second, and is none of it.
struct Counting(Arc<AtomicU64>);

impl Objects {
    pub(super) fn of(api: &ApiServer) -> Arc<Self> {
        let revision = Arc::new(AtomicU64::new(1));
        api.observe(Box::new(Counting(revision.clone())));
        Arc::new(Self {
            api: api.clone(),
            revision,
        })
    }
}

impl Observer for Counting {
    fn called(&mut self, _: &Call) {}

    fn wrote(&mut self, write: &Write) {
        if TOLD.contains(&write.resource) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Cluster for Objects {
    fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    fn list(&self, plural: &str) -> Vec<Arc<Value>> {
        let resource = TOLD.iter().find(|r| r.plural == plural);
        resource.map_or_else(Vec::new, |r| self.api.store("kube-state-metrics").list(r))
    }
}
