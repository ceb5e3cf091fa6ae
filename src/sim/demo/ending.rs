//! How a story ended: the objects as they stand, the times, and the whole as one document.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::expectation::Expectation;
use super::happening::Happening;
use super::history::Event;
use super::scenario::Scenario;
use crate::api::GpuFault;
use crate::api::fault_status::RescheduleOutcome;

/// What of a cluster is simulated in a story, and what is the product itself.
pub const SIMULATED: &str = "the Kubernetes API server, scheduler, workload controllers and kubelets, the GPUs with \
                             their driver and kernel log, Prometheus with its scrapes, and the network between them. \
                             The exporter's, the controller's and the clients' code is the product's own";

/// The end of a story.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Which story.
    pub scenario: Scenario,
    /// All that happened.
    pub events: Vec<Event>,
    /// When the driver wrote the Xid to the kernel log.
    pub fault_at: Option<Timestamp>,
    /// Simulated time at its beginning.
    pub began: Timestamp,
    /// Simulated time at its end.
    pub ended: Timestamp,
    /// How long it took to tell.
    pub took: Duration,
    /// The faults, as the API has them.
    pub faults: Vec<Arc<Value>>,
    /// What was expected.
    pub expectations: Vec<Expectation>,
}

/// Recovery times, counted from the line in the kernel log, in seconds. `null`: it did not come to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryTimes {
    /// Until the node was isolated.
    pub fault_to_isolated_seconds: Option<f64>,
    /// Until every displaced pod's replacement was Ready.
    pub fault_to_workload_recovered_seconds: Option<f64>,
    /// Until the node was schedulable again.
    pub fault_to_node_back_seconds: Option<f64>,
}

/// What became of the displaced pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reschedules {
    /// Pods that were evicted.
    pub displaced: usize,
    /// Of these, how many have a replacement that is Ready on another node.
    pub rescheduled: usize,
    /// Of these, how many have none in time.
    pub failed: usize,
}

/// A story as one document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    scenario: Scenario,
    summary: &'static str,
    outcome: &'static str,
    expectations: &'a [Expectation],
    recovery_times: RecoveryTimes,
    reschedules: Reschedules,
    faults: Vec<&'a Value>,
    events: Vec<ToldEvent<'a>>,
    simulation: Simulation,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToldEvent<'a> {
    time: Timestamp,
    /// Negative before the fault; `null` where there was none.
    since_fault_seconds: Option<f64>,
    text: String,
    #[serde(flatten)]
    happening: &'a Happening,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Simulation {
    simulated: &'static str,
    began: Timestamp,
    ended: Timestamp,
    simulated_seconds: f64,
    wall_seconds: f64,
    clock_acceleration: f64,
}

impl Ending {
    /// It ended as the scenario says.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        !self.expectations.is_empty() && self.expectations.iter().all(|e| e.holds)
    }

    /// The recovery times of the story's fault.
    #[must_use]
    pub fn recovery_times(&self) -> RecoveryTimes {
        let status = self.read_faults().next().and_then(|fault| fault.status);
        let (Some(status), Some(from)) = (status, self.fault_at) else {
            return RecoveryTimes::default();
        };
        let seconds = |at: Option<Timestamp>| Some(at?.duration_since(from).as_secs_f64());
        RecoveryTimes {
            fault_to_isolated_seconds: seconds(status.timeline.isolated_at),
            fault_to_workload_recovered_seconds: seconds(status.timeline.workload_recovered_at),
            fault_to_node_back_seconds: seconds(status.timeline.node_back_at),
        }
    }

    /// What became of the displaced pods of all faults.
    #[must_use]
    pub fn reschedules(&self) -> Reschedules {
        let statuses = self.read_faults().filter_map(|fault| fault.status);
        let displaced: Vec<_> = statuses
            .flat_map(|status| status.displaced_pods)
            .filter(|pod| pod.evicted_at.is_some())
            .collect();
        let count = |outcome| displaced.iter().filter(|d| d.outcome == outcome).count();
        Reschedules {
            displaced: displaced.len(),
            rescheduled: count(RescheduleOutcome::Rescheduled),
            failed: count(RescheduleOutcome::Failed),
        }
    }

    /// How much simulated time the story covers.
    #[must_use]
    pub fn simulated(&self) -> SignedDuration {
        self.ended.duration_since(self.began)
    }

    /// How many times as fast as the wall clock the simulated one ran.
    #[must_use]
    pub fn acceleration(&self) -> f64 {
        self.simulated().as_secs_f64() / self.took.as_secs_f64().max(0.001)
    }

    /// The whole story as one JSON document.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn document(&self) -> Result<String, serde_json::Error> {
        let events = self.events.iter().map(|event| ToldEvent {
            time: event.at,
            since_fault_seconds: self
                .fault_at
                .map(|from| event.at.duration_since(from).as_secs_f64()),
            text: event.happening.text(),
            happening: &event.happening,
        });
        let document = Document {
            scenario: self.scenario,
            summary: self.scenario.summary(),
            outcome: if self.is_as_expected() {
                "AsExpected"
            } else {
                "NotAsExpected"
            },
            expectations: &self.expectations,
            recovery_times: self.recovery_times(),
            reschedules: self.reschedules(),
            faults: self.faults.iter().map(AsRef::as_ref).collect(),
            events: events.collect(),
            simulation: Simulation {
                simulated: SIMULATED,
                began: self.began,
                ended: self.ended,
                simulated_seconds: self.simulated().as_secs_f64(),
                wall_seconds: self.took.as_secs_f64(),
                clock_acceleration: self.acceleration(),
            },
        };
        serde_json::to_string_pretty(&document)
    }

    fn read_faults(&self) -> impl Iterator<Item = GpuFault> {
        self.faults
            .iter()
            .filter_map(|fault| serde_json::from_value(fault.as_ref().clone()).ok())
    }
}
