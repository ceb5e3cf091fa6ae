//! What a simulation is made of, and why one cannot begin or does not come to its end.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{GpuFaultRule, RemediationPolicy};
use crate::prometheus::client::ClientError;
use crate::sim::api_server::Refusal;
use crate::sim::faults::{OneShot, Spell};
use crate::sim::world::WorldPlan;

use super::simulation::BEGINNING;

/// What a simulation is made of.
pub struct Setup {
    /// Nodes, workloads and budgets.
    pub world: WorldPlan,
    /// Chooses what is left to chance in the world.
    pub seed: u64,
    /// Rules.
    pub rules: Vec<GpuFaultRule>,
    /// Policies.
    pub policies: Vec<RemediationPolicy>,
    /// The wall time at the beginning.
    pub origin: Timestamp,
    /// How often controllers ask what guards and proofs ask, and rules without an interval of their own.
    pub evaluation_interval: Duration,
    /// Faults on the line.
    pub spells: Vec<Spell>,
    /// Faults of single calls.
    pub one_shots: Vec<OneShot>,
    /// How often Prometheus scrapes.
    pub scrape_interval: Duration,
    /// How long the Lease holds, how long its owner may act without a renewal, how often it is renewed.
    pub lease: [Duration; 3],
    /// Whether the promises are watched over.
    pub watched: bool,
}

impl Setup {
    /// The product's own settings and no faults on the line.
    #[must_use]
    pub fn new(world: WorldPlan, rules: GpuFaultRule, policy: RemediationPolicy) -> Self {
        Self {
            world,
            seed: 0,
            rules: vec![rules],
            policies: vec![policy],
            origin: Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH),
            evaluation_interval: Duration::from_secs(5),
            spells: Vec::new(),
            one_shots: Vec::new(),
            scrape_interval: Duration::from_secs(1),
            lease: [15, 10, 2].map(Duration::from_secs),
            watched: true,
        }
    }
}

/// A simulation cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A rule or a policy is no JSON.
    #[error("an object cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The API server refuses a rule or a policy.
    #[error("the API server refuses {0}")]
    Refused(String, #[source] Refusal),
    /// The product's Prometheus client cannot be made.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// What was waited for did not happen.
#[derive(Debug, thiserror::Error)]
#[error("{what}: not within {limit:?} of simulated time")]
pub struct TooLate {
    /// What was waited for.
    pub what: String,
    /// For how long.
    pub limit: Duration,
}
