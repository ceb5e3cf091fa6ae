//! Whose turn it is to evict.

use serde_json::{Value, json};

use super::*;
use crate::controller::reconcile::fault;

fn object(name: &str, node: &str, status: Value) -> Arc<GpuFault> {
    let mut all = json!({
        "phase": "Processing", "round": 1,
        "plan": [{"cordon": {}}, {"evictPods": {}}],
        "attempts": [{"number": 1, "action": "Cordon", "step": 0, "round": 1, "outcome": "Succeeded",
            "startedAt": "2026-01-01T00:00:00Z"}],
        "timeline": {"admittedAt": "2026-01-01T00:00:00Z"},
    });
    json_patch::merge(&mut all, &status);
    let object = json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1", "kind": "GpuFault",
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": node, "policyRef": {"name": "p"}},
        "status": all,
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn waits(name: &str, all: &[Arc<GpuFault>]) -> Option<String> {
    let ours = all.iter().find(|f| f.name_any() == name).unwrap();
    drained_for(&fault(ours), all)
}

#[test]
fn of_the_faults_of_a_node_one_evicts() {
    let begun = json!([
        {"number": 1, "action": "Cordon", "step": 0, "round": 1, "outcome": "Succeeded",
            "startedAt": "2026-01-01T00:00:00Z"},
        {"number": 2, "action": "EvictPods", "step": 1, "round": 1, "outcome": "Running",
            "startedAt": "2026-01-01T00:00:00Z"},
    ]);
    let later = json!({"timeline": {"admittedAt": "2026-01-01T00:00:01Z"}});
    let mut all = vec![
        object("b", "gpu-1", json!({})),
        object("a", "gpu-1", later),
        object("c", "gpu-1", json!({})),
        object("elsewhere", "gpu-2", json!({})),
    ];
    assert_eq!(waits("b", &all), None, "it was admitted first");
    assert_eq!(waits("a", &all).as_deref(), Some("b"));
    assert_eq!(waits("c", &all).as_deref(), Some("b"));
    assert_eq!(waits("elsewhere", &all), None);
    // Whoever has begun goes on.
    all[2] = object("c", "gpu-1", json!({"attempts": begun}));
    assert_eq!(waits("c", &all), None);
    assert_eq!(waits("b", &all).as_deref(), Some("c"));
}

#[test]
fn a_fault_that_does_not_evict_makes_nobody_wait() {
    let held = json!({"conditions": [{"type": "Paused", "status": "True", "reason": "PausedByGuard",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    for other in [
        json!({"phase": "Failed"}),
        json!({"phase": "Pending"}),
        json!({"attempts": []}),
        json!({"plan": [{"cordon": {}}]}),
        held,
    ] {
        let all = [
            object("a", "gpu-1", other.clone()),
            object("b", "gpu-1", json!({})),
        ];
        assert_eq!(waits("b", &all), None, "{other}");
    }
}
