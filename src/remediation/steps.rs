//! The steps of an admitted fault, one after the other.

use std::ops::ControlFlow::{self, Break, Continue};

use jiff::{SignedDuration, Timestamp};

use super::decide::{POLL, holds_mark};
use super::decision::{Decision, Effect, Next, Observation};
use super::draft::Draft;
use super::world::{Fault, NodeFacts, PodFacts, World};
use super::{admission, drain, proof, recovery};
use crate::api::conditions::{self, HoldReason};
use crate::api::fault_status::{Action, Attempt, DisplacedPod, Isolation, Outcome, Phase};
use crate::api::policy::{EvictPods, Step, Verify};

/// Goes on with the first step that is not done in this round.
pub(super) fn advance(
    fault: &Fault,
    world: &World,
    node: &NodeFacts,
    mut draft: Draft,
    now: Timestamp,
) -> Decision {
    let plan = draft.status.plan.clone();
    for (index, step) in plan.iter().enumerate() {
        let index = index as u32; // a policy has at most 16 steps
        if is_done(&draft, index) {
            continue;
        }
        let stepped = match step {
            Step::Cordon(_) => cordon(fault, world, node, draft, index, now),
            Step::EvictPods(parameters) => evict(world, draft, index, parameters, now),
            Step::Verify(parameters) => verify(world, draft, index, parameters, now),
        };
        draft = match stepped {
            Continue(draft) => draft,
            Break(decision) => return decision,
        };
    }
    draft.status.timeline.handled_at.get_or_insert(now);
    draft.phase(Phase::Handled, "StepsDone", "All steps are done");
    draft.notice(
        false,
        "Handled",
        "All steps are done; health must be proven now",
    );
    recovery::prove(fault, world, node, draft, now)
}

fn is_done(draft: &Draft, step: u32) -> bool {
    let round = draft.status.round;
    draft
        .status
        .attempts
        .iter()
        .any(|a| a.round == round && a.step == Some(step) && a.outcome == Outcome::Succeeded)
}

/// A step is either done, and the next one's turn has come, or this is what must be done now.
type Stepped = ControlFlow<Decision, Draft>;

fn cordon(
    fault: &Fault,
    world: &World,
    node: &NodeFacts,
    mut draft: Draft,
    step: u32,
    now: Timestamp,
) -> Stepped {
    let attempt = draft.running(Action::Cordon, Some(step));
    if node.unschedulable && holds_mark(fault, node) {
        let attempt = attempt.unwrap_or_else(|| draft.begin(Action::Cordon, Some(step)));
        resume(&mut draft, attempt, now);
        let owned = node.mark.as_ref().is_some_and(|m| m.owned);
        let message = if owned {
            format!("Node {:?} is cordoned", node.name)
        } else {
            format!(
                "Node {:?} had been cordoned by somebody else, and stays so after recovery",
                node.name
            )
        };
        draft.finish(attempt, Outcome::Succeeded, message.clone());
        if draft.status.isolation.is_none() {
            draft.status.isolation = Some(Isolation {
                cordon_owned: owned,
                cordoned_at: now,
            });
            draft.status.timeline.isolated_at = Some(now);
            draft.observe(Observation::Isolated(draft.since_active()));
        }
        draft.condition(conditions::ISOLATED, Some(true), "Cordoned", &message);
        draft.reason("Cordoned", message.clone());
        draft.notice(false, "Cordoned", message);
        return Continue(draft);
    }
    if let Err(hold) = admission::guards(world) {
        return Break(held(draft, attempt, hold, now));
    }
    let attempt = attempt.unwrap_or_else(|| draft.begin(Action::Cordon, Some(step)));
    resume(&mut draft, attempt, now);
    Break(draft.perform(Effect::Cordon))
}

fn evict(
    world: &World,
    mut draft: Draft,
    step: u32,
    parameters: &EvictPods,
    now: Timestamp,
) -> Stepped {
    let attempt = draft.running(Action::EvictPods, Some(step));
    let Some(pods) = &world.pods else {
        return Break(draft.on_change());
    };
    if let Some(other) = &world.drained_for
        && pods.iter().any(drain::holds_gpu)
    {
        // Two that evict the same pods would both count them, and only one would find their replacements.
        let message = format!("Fault {other:?} of the same node evicts its GPU pods");
        let reason = HoldReason::DrainedForAnotherFault;
        draft.hold(conditions::DRAINED, false, reason, message);
        return Break(draft.after(POLL));
    }
    drain::note_gone(&mut draft.status, pods, now);
    let targets: Vec<_> = pods.iter().filter(|p| drain::holds_gpu(p)).collect();
    if targets.is_empty() {
        let attempt = attempt.unwrap_or_else(|| draft.begin(Action::EvictPods, Some(step)));
        resume(&mut draft, attempt, now);
        let evicted = |d: &&DisplacedPod| d.evicted_at.is_some();
        let count = draft.status.displaced_pods.iter().filter(evicted).count();
        let message = format!("{count} GPU pods were evicted and are gone");
        draft.finish(attempt, Outcome::Succeeded, message.clone());
        drain::forget_unevicted(&mut draft.status);
        draft.status.timeline.drained_at = Some(now);
        draft.condition(conditions::DRAINED, Some(true), "GpuPodsGone", &message);
        draft.reason("Drained", message.clone());
        draft.notice(false, "Drained", message);
        return Continue(draft);
    }
    if let Some(index) = attempt {
        let (elapsed, timeout) = (
            elapsed(&draft.status.attempts[index], now),
            parameters.timeout.as_signed(),
        );
        if elapsed >= timeout {
            let stayed = drain::names(&targets);
            let message = format!(
                "After {} these GPU pods are still there: {stayed}",
                parameters.timeout
            );
            draft.status.attempts[index].stayed = targets.iter().map(|p| p.pod.clone()).collect();
            drain::forget_unevicted(&mut draft.status);
            draft.condition(
                conditions::DRAINED,
                Some(false),
                "EvictionTimedOut",
                &message,
            );
            draft.end(Phase::Failed, "EvictionTimedOut", message);
            return Break(draft.on_change());
        }
    }
    if let Some((pod, why)) = targets
        .iter()
        .find_map(|p| Some((&p.pod, p.refused.as_ref()?)))
    {
        let stayed = drain::names(&targets);
        let message =
            format!("Pod {pod} cannot be evicted: {why} These GPU pods are still there: {stayed}");
        if let Some(index) = attempt {
            draft.status.attempts[index].stayed = targets.iter().map(|p| p.pod.clone()).collect();
        }
        drain::forget_unevicted(&mut draft.status);
        draft.condition(
            conditions::DRAINED,
            Some(false),
            "EvictionRefused",
            &message,
        );
        draft.end(Phase::Failed, "EvictionRefused", message);
        return Break(draft.on_change());
    }
    let isolation = draft.status.isolation.clone();
    let (late, targets): (Vec<&PodFacts>, Vec<&PodFacts>) = targets
        .into_iter()
        .partition(|p| drain::ignores_cordon(p, isolation.as_ref()));
    if targets.is_empty() && late.iter().all(|p| p.terminating) {
        return Break(draft.after(POLL));
    }
    if targets.is_empty() {
        let attempt = attempt.unwrap_or_else(|| draft.begin(Action::EvictPods, Some(step)));
        draft.status.attempts[attempt].stayed = late.iter().map(|p| p.pod.clone()).collect();
        let stayed = drain::names(&late);
        let message = format!(
            "These GPU pods were created on the node after its cordon, which they ignore: {stayed}"
        );
        drain::forget_unevicted(&mut draft.status);
        draft.condition(
            conditions::DRAINED,
            Some(false),
            "PodsIgnoreCordon",
            &message,
        );
        draft.end(Phase::Failed, "PodsIgnoreCordon", message);
        return Break(draft.on_change());
    }
    if let Err(hold) = admission::guards(world) {
        return Break(held(draft, attempt, hold, now));
    }
    let attempt = attempt.unwrap_or_else(|| draft.begin(Action::EvictPods, Some(step)));
    resume(&mut draft, attempt, now);
    drain::intend(&mut draft.status, attempt, &targets);
    let plan = drain::plan(
        &drain::not_yet_evicted(&draft.status, &targets),
        &world.disruptions_allowed,
        now,
    );
    if !plan.evict.is_empty() {
        draft.reason(
            "Evicting",
            format!(
                "{} GPU pods are left: {}",
                targets.len(),
                drain::names(&targets)
            ),
        );
        return Break(draft.perform_then(Some(Effect::Evict(plan.evict)), Next::Now));
    }
    if let Some((pod, budget)) = plan.blocked.first() {
        let others = plan.blocked.len() - 1;
        let more = if others > 0 {
            format!(", and {others} more pods wait")
        } else {
            String::new()
        };
        let message = format!("PodDisruptionBudget {budget} lets pod {pod} not go yet{more}");
        draft.hold(
            conditions::DRAINED,
            false,
            HoldReason::BlockedByDisruptionBudget,
            message,
        );
    } else {
        let message = format!(
            "{} GPU pods are ending: {}",
            targets.len(),
            drain::names(&targets)
        );
        draft.condition(
            conditions::DRAINED,
            Some(false),
            "PodsTerminating",
            &message,
        );
        draft.reason("PodsTerminating", message);
    }
    let left = parameters.timeout.as_signed() - elapsed(&draft.status.attempts[attempt], now);
    let next = plan.retry_in.map_or(left, |retry| retry.min(left));
    Break(draft.after(next.clamp(
        SignedDuration::from_millis(20),
        SignedDuration::from_secs(30),
    )))
}

fn verify(
    world: &World,
    mut draft: Draft,
    step: u32,
    parameters: &Verify,
    now: Timestamp,
) -> Stepped {
    let attempt = draft
        .running(Action::Verify, Some(step))
        .unwrap_or_else(|| draft.begin(Action::Verify, Some(step)));
    let Some(finding) = &world.verify else {
        draft.reason("Verifying", "The verification query has not been asked yet");
        return Break(draft.after(POLL));
    };
    let since = proof::since(draft.status.attempts[attempt].proven_since, finding, now);
    draft.status.attempts[attempt].proven_since = since;
    if finding.holds.is_some() {
        resume(&mut draft, attempt, now);
    } else {
        // Time without an answer says nothing about the repair: it does not count against the deadline.
        draft.status.attempts[attempt].held_since.get_or_insert(now);
    }
    if proof::is_complete(since, parameters.hold.as_signed(), finding) {
        let message = format!("The verification query has held for {}", parameters.hold);
        draft.finish(attempt, Outcome::Succeeded, message.clone());
        draft.reason("Verified", message.clone());
        draft.notice(false, "Verified", message);
        return Continue(draft);
    }
    if elapsed(&draft.status.attempts[attempt], now) >= parameters.timeout.as_signed() {
        let message = format!(
            "Not verified within {}: {}",
            parameters.timeout, finding.detail
        );
        draft.end(Phase::Failed, "VerifyTimedOut", message);
        return Break(draft.on_change());
    }
    let state = match finding.holds {
        Some(true) => "The verification query holds; it must go on".to_string(),
        Some(false) => "The verification query does not hold yet".to_string(),
        None => format!("The verification query has no answer: {}", finding.detail),
    };
    draft.reason("Verifying", state);
    let waiting_since = Some(draft.status.attempts[attempt].started_at);
    let hold = parameters.hold.as_signed();
    let left = parameters.timeout.as_signed() - elapsed(&draft.status.attempts[attempt], now);
    let next = proof::next_look(waiting_since, since, hold, now);
    Break(draft.after(next.min(left.max(proof::SHORTEST_POLL))))
}

/// A guard holds an admitted fault. A stop guard undoes what has displaced no pod yet.
fn held(
    mut draft: Draft,
    attempt: Option<usize>,
    (reason, message): admission::Hold,
    now: Timestamp,
) -> Decision {
    let stopped = reason == HoldReason::StoppedByGuard;
    if stopped && !drain::has_displaced(&draft.status) {
        for i in 0..draft.status.attempts.len() {
            if draft.status.attempts[i].outcome == Outcome::Running {
                draft.finish(i, Outcome::Cancelled, message.clone());
            }
        }
        draft.status.round += 1;
        draft.status.isolation = None;
        draft.status.displaced_pods.clear();
        draft.condition(conditions::STOPPED, Some(true), reason.as_str(), &message);
        draft.condition(
            conditions::ISOLATED,
            Some(false),
            reason.as_str(),
            "The isolation is undone",
        );
        draft.phase(Phase::Pending, reason.as_str(), message.clone());
        draft.hold(conditions::ADMITTED, false, reason, message);
        return draft.perform_then(Some(Effect::Uncordon), Next::Now);
    }
    if let Some(index) = attempt {
        draft.status.attempts[index].held_since.get_or_insert(now);
    }
    let condition = if stopped {
        conditions::STOPPED
    } else {
        conditions::PAUSED
    };
    draft.hold(condition, true, reason, message);
    let since = attempt.and_then(|index| draft.status.attempts[index].held_since);
    draft.after(proof::next_poll(since, now))
}

/// Nothing holds the attempt any more: the time of the hold does not count against its deadline.
fn resume(draft: &mut Draft, attempt: usize, now: Timestamp) {
    let attempt = &mut draft.status.attempts[attempt];
    if let Some(since) = attempt.held_since.take() {
        attempt.held_millis += u64::try_from(now.duration_since(since).as_millis()).unwrap_or(0);
    }
    draft.release("Released", "No guard holds any more");
}

/// How long the attempt has run, without the time that guards held it.
fn elapsed(attempt: &Attempt, now: Timestamp) -> SignedDuration {
    let held = i64::try_from(attempt.held_millis).unwrap_or(i64::MAX);
    let until = attempt.held_since.unwrap_or(now);
    until.duration_since(attempt.started_at) - SignedDuration::from_millis(held)
}
