//! Promise 2: one fault, one object. Promise 3, in part: what was counted is never counted again.

use super::Findings;
use super::cluster::{Cluster, Fault, Step};
use crate::api::fault_status::Outcome;

/// What makes two faults the same one.
fn same(a: &Fault, b: &Fault) -> bool {
    let (a, b) = (&a.object.spec, &b.object.spec);
    let fingerprints = a.fingerprint.is_some() && a.fingerprint == b.fingerprint;
    let about = a.rule_ref.is_some()
        && a.rule_ref == b.rule_ref
        && a.node_name == b.node_name
        && a.node_uid == b.node_uid
        && a.gpu == b.gpu
        && a.xid == b.xid;
    fingerprints || about
}

pub(super) fn wrote(step: &Step<'_>, cluster: &Cluster, found: &mut Findings) {
    let Some((before, Some(after))) = &step.fault else {
        return;
    };
    let at = step.write.at;
    let opens = before.as_ref().is_none_or(|b| b.status.phase.is_over());
    if opens && !after.status.phase.is_over() {
        let twin = cluster.faults_on(after.node()).find(|other| {
            other.name != after.name && !other.status.phase.is_over() && same(other, after)
        });
        found.check(2, at, twin.is_none(), || {
            let twin = twin.map(|t| t.name.clone()).unwrap_or_default();
            format!("{} is opened although {twin} is open", after.name)
        });
    }
    let Some(before) = before else { return };
    let (old, new) = (&before.status, &after.status);
    found.check(
        3,
        at,
        new.occurrence >= old.occurrence && new.round >= old.round,
        || {
            format!(
                "{} forgets: occurrence {} to {}, round {} to {}",
                after.name, old.occurrence, new.occurrence, old.round, new.round
            )
        },
    );
    for attempt in &old.attempts {
        let now = new.attempts.iter().find(|a| a.number == attempt.number);
        let again = attempt.outcome != Outcome::Running
            && now.is_some_and(|a| a.outcome == Outcome::Running);
        found.check(3, at, !again, || {
            format!(
                "{}: attempt {} runs again after its end",
                after.name, attempt.number
            )
        });
    }
}
