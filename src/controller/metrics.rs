//! The controller's own metrics. Label values are bounded, and each known one starts at 0; no counter carries the name
//! of a node or a pod.

use jiff::SignedDuration;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api::conditions::HoldReason;
use crate::api::fault_status::Action;
use crate::remediation::Observation;

/// Reasons why a displaced pod did not come back (design §5).
const RESCHEDULE_FAILURES: [&str; 7] = [
    "no_replacement",
    "unschedulable",
    "gated",
    "start_failure",
    "same_node",
    "not_ready",
    "owner_failed",
];

/// Answers of the Eviction API.
pub const EVICTION_ANSWERS: [&str; 5] = ["accepted", "gone", "blocked", "refused", "unclear"];

/// Recovery takes from seconds (a cordon) to hours (a reboot, a person): one set of buckets for all three times, so
/// that they can be compared.
const RECOVERY_BUCKETS: [f64; 16] = [
    0.5, 1.0, 2.0, 3.0, 6.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0,
    86400.0,
];

/// One label, `reason`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    /// The reason.
    pub reason: String,
}

/// One label, `action`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ActionLabel {
    /// The action.
    pub action: &'static str,
}

/// One label, `answer`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AnswerLabel {
    /// The answer.
    pub answer: &'static str,
}

/// The labels of a guard.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct GuardLabels {
    /// The policy.
    pub policy: String,
    /// The guard's name.
    pub guard: String,
    /// `pauseIf` or `stopIf`.
    pub kind: &'static str,
}

/// Counters, gauges and histograms of the controller.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// 1 while this process is the leader.
    pub leader: Gauge,
    /// Holds that began, by reason.
    pub holds: Family<ReasonLabel, Counter>,
    /// Actions that ended.
    pub actions: Family<ActionLabel, Counter>,
    /// Of them, those that failed.
    pub action_failures: Family<ActionLabel, Counter>,
    /// Calls of the Eviction API by its answer.
    pub eviction_calls: Family<AnswerLabel, Counter>,
    /// Pods displaced.
    pub pods_displaced: Counter,
    /// Displaced pods that reached a verdict.
    pub pod_reschedules: Counter,
    /// Of them, those that did not come back, by reason.
    pub pod_reschedule_failures: Family<ReasonLabel, Counter>,
    /// First crossing to isolation.
    pub fault_to_isolated: Histogram,
    /// First crossing to the last replacement's Ready.
    pub fault_to_workload_recovered: Histogram,
    /// First crossing to the node's return.
    pub fault_to_node_back: Histogram,
    /// Guards: 1 holds, 0 does not, -1 unknown.
    pub guard_state: Family<GuardLabels, Gauge>,
    /// Reconciliations that failed and are tried again.
    pub reconcile_failures: Counter,
}

impl Metrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        let buckets = || Histogram::new(RECOVERY_BUCKETS);
        let metrics = Self {
            leader: Gauge::default(),
            holds: Family::default(),
            actions: Family::default(),
            action_failures: Family::default(),
            eviction_calls: Family::default(),
            pods_displaced: Counter::default(),
            pod_reschedules: Counter::default(),
            pod_reschedule_failures: Family::default(),
            fault_to_isolated: buckets(),
            fault_to_workload_recovered: buckets(),
            fault_to_node_back: buckets(),
            guard_state: Family::default(),
            reconcile_failures: Counter::default(),
        };
        metrics.zero();
        let r = registry;
        r.register(
            "gpu_remediator_leader",
            "1 while this process is the leader",
            metrics.leader.clone(),
        );
        r.register(
            "gpu_remediator_holds",
            "Holds that began, by reason",
            metrics.holds.clone(),
        );
        r.register(
            "gpu_remediator_actions",
            "Actions that ended",
            metrics.actions.clone(),
        );
        r.register(
            "gpu_remediator_action_failures",
            "Actions that failed",
            metrics.action_failures.clone(),
        );
        r.register(
            "gpu_remediator_eviction_calls",
            "Calls of the Eviction API by its answer",
            metrics.eviction_calls.clone(),
        );
        r.register(
            "gpu_remediator_pods_displaced",
            "GPU pods evicted",
            metrics.pods_displaced.clone(),
        );
        r.register(
            "gpu_remediator_pod_reschedules",
            "Displaced pods that reached a verdict",
            metrics.pod_reschedules.clone(),
        );
        r.register(
            "gpu_remediator_pod_reschedule_failures",
            "Displaced pods whose replacement did not become Ready on another node in time",
            metrics.pod_reschedule_failures.clone(),
        );
        r.register(
            "gpu_remediator_fault_to_isolated_seconds",
            "From the first crossing of the rule to the isolation of the node",
            metrics.fault_to_isolated.clone(),
        );
        r.register(
            "gpu_remediator_fault_to_workload_recovered_seconds",
            "From the first crossing of the rule to the last replacement being Ready",
            metrics.fault_to_workload_recovered.clone(),
        );
        r.register(
            "gpu_remediator_fault_to_node_back_seconds",
            "From the first crossing of the rule to the node being schedulable again",
            metrics.fault_to_node_back.clone(),
        );
        r.register(
            "gpu_remediator_guard_state",
            "Guards as last asked: 1 holds, 0 does not hold, -1 unknown",
            metrics.guard_state.clone(),
        );
        r.register(
            "gpu_remediator_reconcile_failures",
            "Reconciliations that failed and are tried again",
            metrics.reconcile_failures.clone(),
        );
        metrics
    }

    /// Known label values start at 0, so that their first event counts in `increase()`.
    fn zero(&self) {
        for reason in HoldReason::ALL {
            let _ = self.holds.get_or_create(&ReasonLabel {
                reason: reason.as_str().into(),
            });
        }
        for action in Action::ALL {
            let label = ActionLabel {
                action: action.as_str(),
            };
            let _ = self.actions.get_or_create(&label);
            let _ = self.action_failures.get_or_create(&label);
        }
        for answer in EVICTION_ANSWERS {
            let _ = self.eviction_calls.get_or_create(&AnswerLabel { answer });
        }
        for reason in RESCHEDULE_FAILURES {
            let _ = self.pod_reschedule_failures.get_or_create(&ReasonLabel {
                reason: reason.into(),
            });
        }
    }

    /// Records one observation of a decision whose status has been written.
    pub fn observe(&self, observation: &Observation) {
        match observation {
            Observation::Held(reason) => {
                self.holds
                    .get_or_create(&ReasonLabel {
                        reason: reason.as_str().into(),
                    })
                    .inc();
            }
            Observation::Isolated(time) => self.fault_to_isolated.observe(seconds(*time)),
            Observation::WorkloadRecovered(time) => {
                self.fault_to_workload_recovered.observe(seconds(*time))
            }
            Observation::NodeBack(time) => self.fault_to_node_back.observe(seconds(*time)),
            Observation::Rescheduled(failure) => {
                self.pod_reschedules.inc();
                if let Some(reason) = failure {
                    self.pod_reschedule_failures
                        .get_or_create(&ReasonLabel {
                            reason: reason.clone(),
                        })
                        .inc();
                }
            }
            Observation::ActionEnded(action, failed) => {
                let label = ActionLabel {
                    action: action.as_str(),
                };
                self.actions.get_or_create(&label).inc();
                if *failed {
                    self.action_failures.get_or_create(&label).inc();
                }
            }
        }
    }
}

fn seconds(time: SignedDuration) -> f64 {
    time.as_secs_f64()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn known_label_values_start_at_zero() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.observe(&Observation::Held(HoldReason::GuardUnknown));
        let mut text = String::new();
        prometheus_client::encoding::prometheus_text::encode(&mut text, &registry).unwrap();
        for line in [
            "gpu_remediator_holds_total{reason=\"GuardUnknown\"} 1",
            "gpu_remediator_holds_total{reason=\"PausedByGuard\"} 0",
            "gpu_remediator_pod_reschedule_failures_total{reason=\"unschedulable\"} 0",
            "gpu_remediator_fault_to_isolated_seconds_count 0",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
