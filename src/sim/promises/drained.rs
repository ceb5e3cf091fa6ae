//! Promise 10: a failed step is Failed, and a drained node is drained.

use super::cluster::{Cluster, Fault, Step};
use super::{Findings, PromisesConfig};
use crate::api::Phase;
use crate::api::fault_status::{Action, Attempt, Outcome};

/// The fault's attempt of that number.
fn before_of<'a>(before: &'a Fault, attempt: &Attempt) -> Option<&'a Attempt> {
    before
        .status
        .attempts
        .iter()
        .find(|a| a.number == attempt.number)
}

pub(super) fn wrote(
    step: &Step<'_>,
    config: &PromisesConfig,
    cluster: &Cluster,
    found: &mut Findings,
) {
    let Some((Some(before), Some(after))) = &step.fault else {
        return;
    };
    let (at, status) = (step.write.at, &after.status);
    let ended = status.attempts.iter().filter(|a| {
        a.outcome != Outcome::Running
            && before_of(before, a).is_none_or(|b| b.outcome == Outcome::Running)
    });
    for attempt in ended {
        let failed = attempt.outcome == Outcome::Failed;
        found.check(10, at, !failed || status.phase == Phase::Failed, || {
            format!(
                "attempt {} of {} failed, and the fault is {:?}",
                attempt.number, after.name, status.phase
            )
        });
        if attempt.action == Action::EvictPods && attempt.outcome == Outcome::Succeeded {
            let mut left = cluster
                .pods_on(after.node())
                .filter(|((namespace, _), pod)| {
                    let protected = config.protected_namespaces.contains(namespace);
                    let stays = pod.daemon_set || pod.mirror || pod.finished || protected;
                    pod.extended && !stays && at.duration_since(pod.since) > config.latency
                });
            let left = left.next();
            found.check(10, at, left.is_none(), || {
                format!(
                    "{} counts as drained although {:?} holds a GPU",
                    after.name,
                    left.map(|(k, _)| k)
                )
            });
        }
    }
    let done = matches!(status.phase, Phase::Handled | Phase::Recovering);
    if done && before.status.phase == Phase::Processing {
        let all = (0..status.plan.len()).all(|step| {
            status.attempts.iter().any(|a| {
                a.round == status.round
                    && a.step.is_some_and(|s| s as usize == step)
                    && a.outcome == Outcome::Succeeded
            })
        });
        found.check(10, at, all, || {
            format!(
                "{} is {:?}, and not all steps are done",
                after.name, status.phase
            )
        });
    }
}
