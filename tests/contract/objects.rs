//! The product's own objects, good ones; a case changes what it is about.

use serde_json::{Value, json};

use super::ground::Ground;

/// A fault.
pub fn fault(ground: &Ground, name: &str) -> Value {
    json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1",
        "kind": "GpuFault",
        "metadata": {"name": ground.unique(name)},
        "spec": {"nodeName": "gpu-a", "xid": 79, "policyRef": {"name": "drain-node"}},
    })
}

/// A policy.
pub fn policy(ground: &Ground, name: &str) -> Value {
    json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1",
        "kind": "RemediationPolicy",
        "metadata": {"name": ground.unique(name)},
        "spec": {
            "guards": {"pauseIf": [{"name": "errors", "expr": "errors > 1"}]},
            "budget": {"maxUnavailable": "10%", "maxConcurrent": 1},
            "steps": [{"cordon": {}}, {"evictPods": {"timeout": "15m"}}],
            "recovery": {"healthy": {"expr": "gpu_up == 1", "for": "10m"}},
        },
    })
}

/// A rule.
pub fn rule(ground: &Ground, name: &str) -> Value {
    json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1",
        "kind": "GpuFaultRule",
        "metadata": {"name": ground.unique(name)},
        "spec": {"groups": [{"name": "probe", "interval": "5s", "rules": [{
            "alert": "Probe",
            "expr": "gpu_up == 0",
            "remediation": {"policy": "drain-node"},
        }]}]},
    })
}
