//! The promises of the product, as checks over the history of a simulated cluster.
//!
//! Each promise looks at every accepted write and every request, knows the cluster as it was just before, and costs the
//! same however long the run is. What the API does not show (what Prometheus answered, what the hardware is really like,
//! when a controller died) is told by whoever runs the simulation.

mod budget;
mod cluster;
mod drained;
mod effects;
mod evidence;
mod identity;
mod leadership;
mod notes;
mod ownership;
mod reasons;
mod settled;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::api_server::{Call, Observer, Write};
use cluster::Cluster;
pub use notes::{Answer, Series};

/// What the checks must know of the run.
#[derive(Clone, Debug)]
pub struct PromisesConfig {
    /// Actors whose name begins with this are our controllers.
    pub controller_prefix: String,
    /// Namespaces whose pods stay.
    pub protected_namespaces: Vec<String>,
    /// Namespace of the controllers' Lease.
    pub lease_namespace: String,
    /// Name of the controllers' Lease.
    pub lease_name: String,
    /// How long a controller may act on what it has seen before: watches and answers may be late by this much.
    pub latency: SignedDuration,
    /// How much the clock of a controller may differ from the server's.
    pub clock_skew: SignedDuration,
    /// Every exchange with Prometheus is told through [`Promises::evidence`]; without, what depends on it is not checked.
    pub evidence: bool,
    /// No Event gets lost in this run, so that each one that is missing is a broken promise.
    pub events_arrive: bool,
}

impl Default for PromisesConfig {
    fn default() -> Self {
        Self {
            controller_prefix: "controller".to_owned(),
            protected_namespaces: vec!["kube-system".to_owned()],
            lease_namespace: "gpu-remediator".to_owned(),
            lease_name: "gpu-remediator".to_owned(),
            latency: SignedDuration::from_secs(15),
            clock_skew: SignedDuration::from_secs(1),
            evidence: false,
            events_arrive: false,
        }
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub promise: u8,
    /// When it was broken.
    pub at: Timestamp,
    /// What happened.
    pub what: String,
}

/// What the checks have found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    violations: Vec<Violation>,
    checked: u64,
}

impl Findings {
    /// One check: it holds, or it is a violation.
    pub(crate) fn check(
        &mut self,
        promise: u8,
        at: Timestamp,
        holds: bool,
        what: impl FnOnce() -> String,
    ) {
        self.checked += 1;
        if !holds {
            self.violations.push(Violation {
                promise,
                at,
                what: what(),
            });
        }
    }
}

/// Watches over the promises 1 to 12.
#[derive(Debug)]
pub struct Promises {
    config: PromisesConfig,
    cluster: Cluster,
    notes: notes::Notes,
    effects: effects::Effects,
    ownership: ownership::Ownership,
    leadership: leadership::Leadership,
    reasons: reasons::Reasons,
    found: Findings,
}

impl Promises {
    /// Begins with an empty cluster.
    #[must_use]
    pub fn new(config: PromisesConfig) -> Self {
        Self {
            config,
            cluster: Cluster::default(),
            notes: notes::Notes::default(),
            effects: effects::Effects::default(),
            ownership: ownership::Ownership::default(),
            leadership: leadership::Leadership::default(),
            reasons: reasons::Reasons::default(),
            found: Findings::default(),
        }
    }

    /// Every promise broken so far, in order.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.found.violations
    }

    /// How many checks were made.
    #[must_use]
    pub fn checked(&self) -> u64 {
        self.found.checked
    }

    /// A controller was answered by Prometheus: an instant query, as text, and what it came back with.
    pub fn evidence(&mut self, at: Timestamp, actor: &str, query: &str, answer: Answer) {
        self.notes.evidence(at, actor, query, answer);
    }

    /// The GPUs that a node has now, and whether each is healthy, as their metrics will show once they are scraped.
    pub fn hardware(&mut self, at: Timestamp, node: &str, gpus: &[(String, bool)]) {
        self.notes.hardware(at, node, gpus);
    }

    /// Whether the checks believe that a GPU of the node is broken.
    #[cfg(test)]
    pub(crate) fn believes_broken(&self, now: Timestamp, node: &str) -> bool {
        let later = now + SignedDuration::from_secs(1);
        self.notes.broken_since(node, later).is_some()
    }

    /// A controller was started; `identity` is what it writes into the Lease.
    pub fn controller_started(&mut self, actor: &str, identity: &str) {
        self.leadership.started(actor, identity);
    }

    /// A controller died: what it had queued is lost.
    pub fn controller_crashed(&mut self, actor: &str) {
        self.reasons.crashed(actor);
    }

    /// What must hold once the cluster has come to rest, beyond what was checked on the way.
    #[must_use]
    pub fn settled(&self, now: Timestamp) -> Vec<Violation> {
        settled::settled(self, now)
    }

    fn is_controller(&self, actor: &str) -> bool {
        actor.starts_with(&self.config.controller_prefix)
    }
}

impl Observer for Promises {
    fn called(&mut self, call: &Call) {
        if call.dry_run || !self.is_controller(&call.actor) {
            return;
        }
        let Self {
            config,
            cluster,
            notes,
            effects,
            ownership,
            found,
            ..
        } = self;
        effects.called(call, config, cluster, found);
        evidence::called(call, config, cluster, notes, found);
        ownership.called(call, config, cluster, found);
    }

    fn wrote(&mut self, write: &Write) {
        let ours = self.is_controller(&write.actor);
        let Self {
            config,
            cluster,
            notes,
            effects,
            ownership,
            leadership,
            reasons,
            found,
        } = self;
        let step = cluster.step(write);
        leadership.wrote(write, ours, config, found);
        ownership.wrote(&step, ours, cluster, found);
        if ours {
            evidence::wrote(&step, config, cluster, notes, found);
            identity::wrote(&step, cluster, found);
            effects.wrote(&step, config, cluster, found);
            budget::wrote(&step, config, cluster, found);
            drained::wrote(&step, config, cluster, found);
        }
        reasons.wrote(&step, ours, config, found);
        cluster.apply(&step);
    }
}

/// Promises that are watched over from several places: the API server's observer and the runner.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Promises>>);

impl Shared {
    /// Shares them.
    #[must_use]
    pub fn new(config: PromisesConfig) -> Self {
        Self(Arc::new(Mutex::new(Promises::new(config))))
    }

    /// Reads or tells something.
    pub fn with<T>(&self, act: impl FnOnce(&mut Promises) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Shared {
    fn called(&mut self, call: &Call) {
        self.with(|p| p.called(call));
    }

    fn wrote(&mut self, write: &Write) {
        self.with(|p| p.wrote(write));
    }
}
