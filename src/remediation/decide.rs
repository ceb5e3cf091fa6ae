//! The phase machine.

use jiff::{SignedDuration, Timestamp};

use super::decision::{Decision, Effect, Next, Observation};
use super::draft::Draft;
use super::world::{Fault, NodeFacts, RuleFacts, World};
use super::{admission, drain, mark, proof, recovery, steps};
use crate::api::conditions::{self, HoldReason};
use crate::api::fault_status::{Action, Attempt, Outcome, Phase, Timeline};

/// How often a fault that waits for an answer of Prometheus looks again.
pub const POLL: SignedDuration = SignedDuration::from_secs(1);

/// How often a fault that waits for the budget looks again; the end of another fault nudges it as well.
pub const BUDGET_POLL: SignedDuration = SignedDuration::from_secs(5);

/// Decides what is to be done next about one fault.
pub fn decide(fault: &Fault, world: &World, now: Timestamp) -> Decision {
    let mut decision = next_of(fault, world, now);
    let phase = decision.status.as_ref().unwrap_or(&fault.status).phase;
    // A wish that was obeyed, or that came when nothing had failed, must not be kept for the next failure.
    if fault.retry_requested && phase != Phase::Failed && decision.effect.is_none() {
        decision.effect = Some(Effect::ClearRetry);
    }
    decision
}

fn next_of(fault: &Fault, world: &World, now: Timestamp) -> Decision {
    let mut draft = Draft::new(fault, now);
    if fault.deleting {
        return delete(fault, world, draft);
    }
    if draft.status.occurrence == 0 {
        first_visit(fault, world, &mut draft);
    }
    if world.rule_was_silent && draft.status.timeline.rule_silent_at.is_none() {
        draft.status.timeline.rule_silent_at = Some(now);
    }
    recovery::follow_displaced(fault, world, &mut draft, now);
    if draft.status.phase.is_over() {
        return ended(fault, world, draft, now);
    }
    let Some(node) = &world.node else {
        return node_missing(fault, draft);
    };
    if !is_its_node(&draft, node) {
        let message = format!(
            "Node {:?} was deleted and made again: it is another node",
            node.name
        );
        draft.end(Phase::Cancelled, "NodeReplaced", message);
        return draft.on_change();
    }
    draft
        .status
        .node_uid
        .get_or_insert_with(|| node.uid.clone());
    if uncordoned_by_person(fault, &draft, node) {
        let message = format!(
            "Node {:?} was uncordoned by somebody: nothing more is done about this fault",
            node.name
        );
        draft.end(Phase::Cancelled, "UncordonedByPerson", message);
        let effect = holds_mark(fault, node).then_some(Effect::Uncordon);
        return draft.perform_then(effect, Next::Now);
    }
    match draft.status.phase {
        Phase::Pending => pending(fault, world, node, draft, now),
        Phase::Processing => steps::advance(fault, world, node, draft, now),
        Phase::Handled | Phase::Recovering => recovery::prove(fault, world, node, draft, now),
        Phase::Failed => failed(fault, draft),
        Phase::Recovered | Phase::Cancelled => draft.on_change(),
    }
}

fn first_visit(fault: &Fault, world: &World, draft: &mut Draft) {
    let status = &mut draft.status;
    status.occurrence = 1;
    status.round = 1;
    status.active_at = Some(fault.spec.fault_time.unwrap_or(fault.created));
    status.node_uid = fault
        .spec
        .node_uid
        .clone()
        .or_else(|| world.node.as_ref().map(|n| n.uid.clone()));
    status.timeline = Timeline::default();
    draft.condition(
        conditions::ADMITTED,
        Some(false),
        HoldReason::New.as_str(),
        "The fault has just been seen",
    );
    draft.condition(conditions::SUCCEEDED, None, "Open", "The fault is open");
    draft.phase(
        Phase::Pending,
        HoldReason::New.as_str(),
        "The fault has just been seen",
    );
    draft.notice(true, "FaultOpened", opened_message(fault));
}

fn opened_message(fault: &Fault) -> String {
    let mut message = format!("Fault on node {:?}", fault.spec.node_name);
    if let Some(xid) = fault.spec.xid {
        message.push_str(&format!(", Xid {xid}"));
    }
    if !fault.spec.message.is_empty() {
        message.push_str(": ");
        message.push_str(&fault.spec.message);
    }
    message
}

/// A fault whose node was never there is a mistake of whoever made it; a node that has gone takes its fault along.
fn node_missing(fault: &Fault, mut draft: Draft) -> Decision {
    let name = &fault.spec.node_name;
    if draft.status.phase == Phase::Failed && draft.status.reason == "NodeNotFound" {
        return draft.on_change();
    }
    if draft.status.node_uid.is_none() {
        let message = format!("There is no node {name:?}; nothing was touched. Delete this fault");
        draft.end(Phase::Failed, "NodeNotFound", message);
    } else {
        draft.end(
            Phase::Cancelled,
            "NodeGone",
            format!("Node {name:?} is gone"),
        );
    }
    draft.on_change()
}

/// Our own cordon and uncordon change the node and the mark together. A schedulable node that still carries our mark was
/// thus uncordoned by somebody else, also where we have not yet seen our own cordon, or are about to undo it. Only a
/// mark that a former occurrence or a stopped round has left on a Pending fault says nothing: it is removed.
fn uncordoned_by_person(fault: &Fault, draft: &Draft, node: &NodeFacts) -> bool {
    let marked = holds_mark(fault, node);
    let ours_came_through = !marked && draft.running(Action::Uncordon, None).is_some();
    let acts = draft.status.phase != Phase::Pending;
    let isolated = (marked && acts) || draft.status.isolation.is_some();
    isolated && mark::uncordoned_by_person(node) && !ours_came_through
}

/// The node is the one that the fault is about, and not another of the same name.
fn is_its_node(draft: &Draft, node: &NodeFacts) -> bool {
    let known = draft.status.node_uid.as_deref();
    known.is_none_or(|uid| uid == node.uid)
}

pub(super) fn holds_mark(fault: &Fault, node: &NodeFacts) -> bool {
    node.mark
        .as_ref()
        .is_some_and(|m| m.holds(&fault.name, &fault.uid))
}

fn pending(
    fault: &Fault,
    world: &World,
    node: &NodeFacts,
    mut draft: Draft,
    now: Timestamp,
) -> Decision {
    if world.rule == RuleFacts::Gone && draft.status.isolation.is_none() && !holds_mark(fault, node)
    {
        let message = "The rule was deleted before anything was done about the fault";
        draft.end(Phase::Cancelled, "RuleDeleted", message);
        return draft.perform_then(None, Next::Now);
    }
    if fault.spec.rule_ref.is_some() && world.rule == RuleFacts::Silent {
        if is_healthy(world, &mut draft) {
            return healthy_before_admission(draft);
        }
    } else {
        draft.status.healthy_since = None;
    }
    if draft.status.isolation.is_none() && holds_mark(fault, node) {
        // A stop guard undid the isolation, or the cordon came through although its attempt was given up.
        return draft.perform(Effect::Uncordon);
    }
    if let Err((reason, message)) = admission::ask(fault, world) {
        let stopped = reason == HoldReason::StoppedByGuard;
        draft.hold(conditions::ADMITTED, false, reason, message.clone());
        if stopped || conditions::is_true(&draft.status.conditions, conditions::STOPPED) {
            draft.condition(
                conditions::STOPPED,
                Some(stopped),
                reason.as_str(),
                &message,
            );
        }
        return wait(draft, world, reason);
    }
    let plan = world
        .policy
        .as_ref()
        .map(|p| p.steps.clone())
        .unwrap_or_default();
    let message = "Guards and budget allow it to act";
    draft.status.plan = plan;
    draft.status.timeline.admitted_at.get_or_insert(now);
    draft.condition(conditions::ADMITTED, Some(true), "Admitted", message);
    if conditions::get(&draft.status.conditions, conditions::STOPPED).is_some() {
        draft.condition(
            conditions::STOPPED,
            Some(false),
            "Resumed",
            "The policy was resumed",
        );
    }
    draft.notice(false, "Admitted", message);
    draft.phase(Phase::Processing, "Admitted", message);
    steps::advance(fault, world, node, draft, now)
}

/// How long a held fault waits: what only the change of an object can lift waits for that, and a nudge comes with it.
fn wait(draft: Draft, world: &World, reason: HoldReason) -> Decision {
    let proves_health = world.rule == RuleFacts::Silent && world.policy.is_some();
    match reason {
        HoldReason::PolicyNotFound
        | HoldReason::ObserveOnly
        | HoldReason::NodeNotSelected
        | HoldReason::RuleNotFiring
            if !proves_health =>
        {
            draft.on_change()
        }
        HoldReason::BudgetMaxUnavailable | HoldReason::BudgetMaxConcurrent => {
            draft.after(BUDGET_POLL)
        }
        _ => {
            let (since, now) = (draft.status.active_at, draft.now());
            let next = match &world.policy {
                Some(policy) if proves_health => {
                    let hold = policy.recovery.healthy.hold.as_signed();
                    proof::next_look(since, draft.status.healthy_since, hold, now)
                }
                _ => proof::next_poll(since, now),
            };
            draft.after(next)
        }
    }
}

fn is_healthy(world: &World, draft: &mut Draft) -> bool {
    let (Some(policy), Some(finding)) = (&world.policy, &world.health) else {
        return false;
    };
    draft.status.healthy_since = proof::since(draft.status.healthy_since, finding, draft.now());
    let hold = policy.recovery.healthy.hold.as_signed();
    proof::is_complete(draft.status.healthy_since, hold, finding)
}

/// A fault that waits to act, whose rule has fallen silent and whose GPU is proven healthy, has ended. Silence alone is
/// no evidence. Where an earlier round has isolated the node, our mark is still on it, and is removed next.
fn healthy_before_admission(mut draft: Draft) -> Decision {
    let message = if draft.status.isolation.is_some() {
        "The rule fell silent and health is proven before the steps were run again; the node is given back"
    } else {
        "The rule fell silent and health is proven; nothing was done"
    };
    if draft.status.isolation.is_some() {
        draft.condition(
            conditions::ISOLATED,
            Some(false),
            "Recovered",
            "The isolation is undone",
        );
    }
    draft.end(Phase::Recovered, "HealthyWithoutAction", message);
    draft.perform_then(None, Next::Now)
}

fn failed(fault: &Fault, mut draft: Draft) -> Decision {
    if !fault.retry_requested {
        return draft.on_change();
    }
    draft.status.round += 1;
    draft.status.timeline.ended_at = None;
    draft.status.timeline.drained_at = None;
    draft.condition(
        conditions::SUCCEEDED,
        None,
        "Open",
        "The steps are run again",
    );
    draft.condition(
        conditions::ADMITTED,
        Some(false),
        HoldReason::New.as_str(),
        "A person asked for another try",
    );
    draft.notice(false, "Retried", "A person asked for another try");
    draft.phase(
        Phase::Pending,
        HoldReason::New.as_str(),
        "A person asked for another try",
    );
    draft.perform(Effect::ClearRetry)
}

/// A fault that is over: clean what a crash may have left, watch for its return, delete it after its retention.
fn ended(fault: &Fault, world: &World, mut draft: Draft, now: Timestamp) -> Decision {
    let node = world.node.as_ref();
    if node.is_some_and(|n| is_its_node(&draft, n) && holds_mark(fault, n)) {
        return draft.perform(Effect::Uncordon);
    }
    let returned = draft.status.phase == Phase::Recovered
        && world.rule == RuleFacts::Firing
        && !world.node_has_open_fault
        && world
            .health
            .as_ref()
            .is_some_and(|h| h.holds == Some(false));
    if returned {
        draft.reopen(now, "The rule still fires and health is disproved again");
        return draft.perform_then(None, Next::Now);
    }
    let retention = world
        .policy
        .as_ref()
        .map_or(recovery::DEFAULT_RETENTION, |p| {
            p.recovery.retention.as_signed()
        });
    let Some(ended_at) = draft.status.timeline.ended_at else {
        return draft.on_change();
    };
    let left = retention - now.duration_since(ended_at);
    let awaited = drain::awaits_replacements(&draft.status);
    // While its rule fires, a deleted fault would only be opened again from the same activation.
    let silent =
        matches!(world.rule, RuleFacts::Silent | RuleFacts::Gone) || fault.spec.rule_ref.is_none();
    if left <= SignedDuration::ZERO && silent && !awaited {
        return draft.perform(Effect::Delete);
    }
    draft.after(if awaited {
        POLL
    } else if world.rule == RuleFacts::Firing {
        proof::next_poll(Some(ended_at), now)
    } else {
        left.clamp(POLL, SignedDuration::from_secs(600))
    })
}

fn delete(fault: &Fault, world: &World, mut draft: Draft) -> Decision {
    let node = world.node.as_ref().filter(|n| is_its_node(&draft, n));
    let cordoning = |a: &Attempt| a.action == Action::Cordon && a.outcome == Outcome::Running;
    // A cordon whose answer we have not seen may stand on the node although our view of it does not show it yet.
    let may_be_marked = draft.status.attempts.iter().any(cordoning);
    let Some(node) = node.filter(|n| holds_mark(fault, n) || may_be_marked) else {
        return draft.perform(Effect::RemoveFinalizer);
    };
    if draft.running(Action::Uncordon, None).is_none() {
        for i in 0..draft.status.attempts.len() {
            if draft.status.attempts[i].outcome == Outcome::Running {
                draft.finish(i, Outcome::Cancelled, "The fault is being deleted");
            }
        }
        draft.begin(Action::Uncordon, None);
        draft.reason(
            "Deleting",
            format!("The isolation of node {:?} is being undone", node.name),
        );
        draft.observe(Observation::ActionEnded(Action::Uncordon, false));
    }
    draft.perform(Effect::Uncordon)
}
