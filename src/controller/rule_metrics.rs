//! Metrics of the evaluation of rules. The label values are bounded by the rules that exist.

use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::rules::answer::UnknownReason;

/// The policy that the rule names does not exist.
pub const POLICY_NOT_FOUND: &str = "PolicyNotFound";
/// A firing alert names no node.
pub const NO_NODE_LABEL: &str = "NoNodeLabel";
/// A fault could not be created.
pub const OPEN_FAILED: &str = "OpenFailed";

/// Why a rule can open nothing although its answer can be trusted, or although it could.
const COMPLAINTS: [&str; 4] = [
    POLICY_NOT_FOUND,
    NO_NODE_LABEL,
    OPEN_FAILED,
    UnknownReason::TemplateFailed.as_str(),
];

/// The labels of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RuleLabels {
    /// The name of the GpuFaultRule.
    pub rule: String,
    /// The name of the group.
    pub group: String,
    /// The name of the alert.
    pub alert: String,
}

/// The labels of what is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct FailureLabels {
    /// The name of the GpuFaultRule.
    pub rule: String,
    /// The name of the group.
    pub group: String,
    /// The name of the alert.
    pub alert: String,
    /// Why, out of a closed list.
    pub reason: &'static str,
}

/// Metrics of the evaluation of rules.
#[derive(Clone, Debug, Default)]
pub struct RuleMetrics {
    evaluations: Family<RuleLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    degraded: Family<FailureLabels, Gauge>,
    last_evaluation: Family<RuleLabels, Gauge<f64, AtomicU64>>,
    missed: Counter,
    /// Absent until the first query: a replica that never asks must not look like one without a Prometheus.
    prometheus_up: Family<[(&'static str, &'static str); 0], Gauge>,
}

impl RuleMetrics {
    /// The metrics, registered under names that begin with `gpu_remediator_`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "gpu_remediator_rule_evaluations",
            "Evaluations of a rule, failed ones included",
            metrics.evaluations.clone(),
        );
        registry.register(
            "gpu_remediator_rule_evaluation_failures",
            "Evaluations of a rule that had no trustworthy answer, by reason",
            metrics.failures.clone(),
        );
        registry.register(
            "gpu_remediator_rule_degraded",
            "1 while a rule can open nothing although its answer can be trusted, by reason",
            metrics.degraded.clone(),
        );
        registry.register(
            "gpu_remediator_rule_last_evaluation_timestamp_seconds",
            "Time of the last evaluation of a rule that had a trustworthy answer",
            metrics.last_evaluation.clone(),
        );
        registry.register(
            "gpu_remediator_rule_group_iterations_missed",
            "Evaluations of rule groups that were skipped because the one before took too long",
            metrics.missed.clone(),
        );
        registry.register(
            "gpu_remediator_prometheus_up",
            "Whether Prometheus answered the last query of a rule",
            metrics.prometheus_up.clone(),
        );
        metrics
    }

    /// A rule begins to be evaluated: its counters start at 0.
    pub fn start(&self, labels: &RuleLabels) {
        let _ = self.evaluations.get_or_create(labels);
        for reason in UnknownReason::ALL {
            let _ = self.failures.get_or_create(&failure(labels, reason));
        }
    }

    /// A rule is gone.
    pub fn stop(&self, labels: &RuleLabels) {
        self.evaluations.remove(labels);
        self.last_evaluation.remove(labels);
        for reason in UnknownReason::ALL {
            self.failures.remove(&failure(labels, reason));
        }
        for reason in COMPLAINTS {
            self.degraded.remove(&with_reason(labels, reason));
        }
    }

    /// Why a rule whose answer can be trusted can open nothing, if that is so; one of [`COMPLAINTS`].
    pub fn degraded(&self, labels: &RuleLabels, now: Option<&'static str>) {
        for reason in COMPLAINTS {
            if now != Some(reason) {
                self.degraded.remove(&with_reason(labels, reason));
            }
        }
        if let Some(reason) = now {
            self.degraded
                .get_or_create(&with_reason(labels, reason))
                .set(1);
        }
    }

    /// A rule was evaluated at `at`; `failed` is why there was no trustworthy answer.
    pub fn evaluated(&self, labels: &RuleLabels, at: Timestamp, failed: Option<UnknownReason>) {
        self.evaluations.get_or_create(labels).inc();
        match failed {
            Some(reason) => {
                self.failures.get_or_create(&failure(labels, reason)).inc();
            }
            None => {
                #[allow(clippy::cast_precision_loss)]
                let seconds = at.as_millisecond() as f64 / 1000.0;
                self.last_evaluation.get_or_create(labels).set(seconds);
            }
        }
    }

    /// Evaluations were skipped.
    pub fn missed(&self, count: u64) {
        self.missed.inc_by(count);
    }

    /// Whether Prometheus answered.
    pub fn prometheus_up(&self, up: bool) {
        self.prometheus_up.get_or_create(&[]).set(i64::from(up));
    }
}

fn failure(labels: &RuleLabels, reason: UnknownReason) -> FailureLabels {
    with_reason(labels, reason.as_str())
}

fn with_reason(labels: &RuleLabels, reason: &'static str) -> FailureLabels {
    FailureLabels {
        rule: labels.rule.clone(),
        group: labels.group.clone(),
        alert: labels.alert.clone(),
        reason,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_never_asked_does_not_say_that_prometheus_is_down() {
        let mut registry = Registry::default();
        let metrics = RuleMetrics::register(&mut registry);
        let text = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::prometheus_text::encode(&mut text, registry).unwrap();
            text
        };
        assert!(!text(&registry).contains("\ngpu_remediator_prometheus_up"));
        metrics.prometheus_up(false);
        assert!(
            text(&registry).contains("\ngpu_remediator_prometheus_up 0\n"),
            "{}",
            text(&registry)
        );
    }
}
