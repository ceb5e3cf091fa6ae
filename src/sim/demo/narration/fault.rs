//! How a `GpuFault` goes on.

use serde_json::Value;

use super::super::happening::Happening;
use crate::api::GpuFault;
use crate::api::fault_status::{GpuFaultStatus, RescheduleOutcome};

/// What the change of a fault means.
pub(super) fn told(
    name: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    actor: &str,
) -> Vec<Happening> {
    let Some(after) = after.and_then(read) else {
        return vec![Happening::FaultDeleted {
            fault: name.to_owned(),
        }];
    };
    let mut told = Vec::new();
    if before.is_none() {
        told.push(Happening::FaultOpened {
            fault: name.to_owned(),
            node: after.spec.node_name.clone(),
            message: after.spec.message.clone(),
            by: actor.to_owned(),
        });
    }
    let before = before.and_then(read).and_then(|fault| fault.status);
    let Some(after) = after.status else {
        return told;
    };
    let before = before.unwrap_or_default();
    attempts(name, &before, &after, &mut told);
    replacements(name, &before, &after, &mut told);
    if has_moved(&before, &after) {
        told.push(Happening::FaultMoved {
            fault: name.to_owned(),
            phase: after.phase,
            reason: after.reason.clone(),
            message: after.message.clone(),
        });
    }
    told
}

/// Another phase or reason. The sentence alone may change with each look at a guard; only the progress of a proof has no
/// reason of its own.
fn has_moved(before: &GpuFaultStatus, after: &GpuFaultStatus) -> bool {
    let reason = before.phase != after.phase || before.reason != after.reason;
    let proof = after.reason == "Verifying" && before.message != after.message;
    !after.reason.is_empty() && (reason || proof)
}

fn attempts(
    name: &str,
    before: &GpuFaultStatus,
    after: &GpuFaultStatus,
    told: &mut Vec<Happening>,
) {
    let last = before.attempts.iter().map(|a| a.number).max().unwrap_or(0);
    for attempt in after.attempts.iter().filter(|a| a.number > last) {
        told.push(Happening::AttemptBegun {
            fault: name.to_owned(),
            number: attempt.number,
            action: attempt.action,
            pods: attempt.pods.iter().map(ToString::to_string).collect(),
        });
    }
}

fn replacements(
    name: &str,
    before: &GpuFaultStatus,
    after: &GpuFaultStatus,
    told: &mut Vec<Happening>,
) {
    for displaced in &after.displaced_pods {
        let was = before
            .displaced_pods
            .iter()
            .find(|d| d.pod.uid == displaced.pod.uid)
            .map(|d| d.outcome)
            .unwrap_or_default();
        if was == displaced.outcome || displaced.outcome == RescheduleOutcome::Awaited {
            continue;
        }
        let replacement = displaced.replacement.as_ref();
        told.push(Happening::ReplacementJudged {
            fault: name.to_owned(),
            pod: displaced.pod.to_string(),
            replacement: replacement.map(|r| r.name.clone()),
            node: replacement.and_then(|r| r.node.clone()),
            outcome: displaced.outcome,
            failure_reason: displaced.failure_reason.clone(),
        });
    }
}

fn read(object: &Value) -> Option<GpuFault> {
    serde_json::from_value(object.clone()).ok()
}
