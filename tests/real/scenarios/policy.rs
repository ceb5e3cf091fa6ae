//! The policy that the scenarios use, as an SRE would write it but with times
//! that a test can wait for.

use serde_json::{Value, json};

/// Name of the policy that the shipped rules refer to.
pub(crate) const DRAIN_NODE: &str = "drain-node";

/// PromQL that is true when every GPU of the fault's node answers.
const ALL_UP: &str = r#"min by (node) (gpu_up{node="{{ .node }}"}) == 1"#;

/// The policy, built up by what a test wants to be different.
pub(crate) struct Policy {
    name: String,
    budget: Value,
    steps: Vec<Value>,
}

impl Policy {
    /// Cordon, evict the GPU pods, prove the repair.
    pub(crate) fn drain_node() -> Self {
        Self {
            name: DRAIN_NODE.to_owned(),
            budget: json!({"maxUnavailable": "50%", "maxConcurrent": 1}),
            steps: vec![
                json!({"cordon": {}}),
                json!({"evictPods": {"timeout": "60s"}}),
                json!({"verify": {"expr": ALL_UP, "for": "2s", "timeout": "5m"}}),
            ],
        }
    }

    /// Lets `max_unavailable` of the nodes be out, and `max_concurrent` be in
    /// the middle of their steps.
    pub(crate) fn budget(mut self, max_unavailable: &str, max_concurrent: u32) -> Self {
        self.budget = json!({"maxUnavailable": max_unavailable, "maxConcurrent": max_concurrent});
        self
    }

    /// Eviction fails after `timeout`.
    pub(crate) fn eviction_timeout(mut self, timeout: &str) -> Self {
        for step in &mut self.steps {
            if let Some(parameters) = step.get_mut("evictPods") {
                parameters["timeout"] = json!(timeout);
            }
        }
        self
    }

    /// Between the cordon and the first eviction the policy waits until the
    /// test's own metric `gate` is 1, which makes the moment as long as a test
    /// needs it.
    pub(crate) fn gate_after_cordon(mut self) -> Self {
        self.steps.insert(
            1,
            json!({"verify": {"expr": "gate == 1", "for": "1s", "timeout": "5m"}}),
        );
        self
    }

    /// The object.
    pub(crate) fn object(&self) -> Value {
        json!({
            "apiVersion": "gpu-remediator.dev/v1alpha1",
            "kind": "RemediationPolicy",
            "metadata": {"name": self.name},
            "spec": {
                "mode": "Enforce",
                "nodeSelector": {"matchLabels": {"nvidia.com/gpu.present": "true"}},
                "guards": {
                    "pauseIf": [{"name": "error-rate", "expr": "app_error_ratio > 0.05"}],
                    "stopIf": [{"name": "capacity-floor", "expr": "app_replicas_available < 1"}],
                },
                "budget": self.budget,
                "steps": self.steps,
                "recovery": {
                    "healthy": {"expr": ALL_UP, "for": "2s"},
                    "rescheduleDeadline": "60s",
                },
            },
        })
    }
}
