//! Giving the node back: health is proven, then our isolation is undone. Nothing here asks a guard or a budget.

use jiff::{SignedDuration, Timestamp};

use super::decide::holds_mark;
use super::decision::{Decision, Effect, Next, Observation};
use super::draft::Draft;
use super::proof;
use super::world::{Fault, NodeFacts, World};
use crate::api::conditions;
use crate::api::fault_status::{Action, Outcome, Phase, RescheduleOutcome};
use crate::slo::matching;

/// How long an ended fault is kept where its policy is gone: a week.
pub const DEFAULT_RETENTION: SignedDuration = SignedDuration::from_secs(7 * 24 * 3600);

/// How long a replacement may take where the policy is gone: ten minutes.
const DEFAULT_DEADLINE: SignedDuration = SignedDuration::from_secs(600);

/// Proves health and undoes the isolation.
pub(super) fn prove(
    fault: &Fault,
    world: &World,
    node: &NodeFacts,
    mut draft: Draft,
    now: Timestamp,
) -> Decision {
    let uncordoning = draft.running(Action::Uncordon, None);
    if let Some(attempt) = uncordoning
        && !holds_mark(fault, node)
    {
        draft.finish(
            attempt,
            Outcome::Succeeded,
            "Our mark is gone from the node",
        );
        return recovered(node, draft, now);
    }
    draft.status.phase = Phase::Recovering;
    let Some(policy) = &world.policy else {
        let message = "The policy is gone, and with it the proof of health; create it again, or delete this fault";
        draft.reason("PolicyNotFound", message);
        return draft.after(proof::LONGEST_POLL);
    };
    let Some(finding) = &world.health else {
        draft.reason("ProvingHealth", "The health query has not been asked yet");
        return draft.perform_then(None, Next::Now);
    };
    let since = proof::since(draft.status.healthy_since, finding, now);
    draft.status.healthy_since = since;
    let (word, sentence) = match finding.holds {
        Some(true) => (
            "ProvingHealth",
            format!(
                "The health query holds; it must hold for {}",
                policy.recovery.healthy.hold
            ),
        ),
        Some(false) => (
            "Unhealthy",
            "The health query does not hold yet".to_string(),
        ),
        None => (
            "HealthUnknown",
            format!("The health query has no answer: {}", finding.detail),
        ),
    };
    draft.condition(conditions::HEALTHY, finding.holds, word, &sentence);
    draft.reason(word, sentence);
    let hold = policy.recovery.healthy.hold.as_signed();
    if !proof::is_complete(since, hold, finding) {
        let waiting_since = draft.status.timeline.handled_at;
        return draft.after(proof::next_look(waiting_since, since, hold, now));
    }
    let message = format!(
        "Health has been proven for {}",
        policy.recovery.healthy.hold
    );
    draft.reason("HealthProven", message.clone());
    if uncordoning.is_some() {
        // Its first try was lost. The proof that it was begun with may have grown old since; this one has not.
        return draft.perform(Effect::Uncordon);
    }
    draft.notice(false, "HealthProven", message);
    if !holds_mark(fault, node) {
        return recovered(node, draft, now);
    }
    draft.begin(Action::Uncordon, None);
    draft.perform(Effect::Uncordon)
}

fn recovered(node: &NodeFacts, mut draft: Draft, now: Timestamp) -> Decision {
    if draft.status.isolation.is_some() {
        draft.condition(
            conditions::ISOLATED,
            Some(false),
            "Recovered",
            "The isolation is undone",
        );
        if !node.unschedulable {
            draft.status.timeline.node_back_at = Some(now);
            draft.observe(Observation::NodeBack(draft.since_active()));
        }
    }
    let message = match (draft.status.isolation.is_some(), node.unschedulable) {
        (true, true) => {
            "Health is proven; the node stays cordoned for another fault, or by whoever cordoned it"
        }
        (true, false) => "Health is proven and the node is back",
        (false, _) => "Health is proven",
    };
    draft.end(Phase::Recovered, "Recovered", message);
    draft.on_change()
}

/// Follows the displaced pods until each has a verdict, whatever the phase.
pub(super) fn follow_displaced(fault: &Fault, world: &World, draft: &mut Draft, now: Timestamp) {
    if !super::drain::awaits_replacements(&draft.status) {
        return;
    }
    let Some(candidates) = &world.candidates else {
        return;
    };
    let deadline = world.policy.as_ref().map_or(DEFAULT_DEADLINE, |p| {
        p.recovery.reschedule_deadline.as_signed()
    });
    let search = matching::Search {
        candidates,
        taken: &world.taken,
        owners: &world.owners,
        faulty_node: &fault.spec.node_name,
        deadline,
        now,
    };
    for verdict in matching::follow(&mut draft.status.displaced_pods, &search) {
        draft.observe(Observation::Rescheduled(verdict));
    }
    if super::drain::awaits_replacements(&draft.status)
        || draft.status.timeline.workload_recovered_at.is_some()
    {
        return;
    }
    let displaced = draft.status.displaced_pods.iter();
    let last_ready = displaced
        .filter_map(|d| d.replacement.as_ref()?.ready_at)
        .max();
    let failed = draft
        .status
        .displaced_pods
        .iter()
        .any(|d| d.outcome == RescheduleOutcome::Failed);
    let complete = draft
        .status
        .displaced_pods
        .iter()
        .all(|d| d.evicted_at.is_some());
    if let (Some(ready), false, true) = (last_ready, failed, complete) {
        draft.status.timeline.workload_recovered_at = Some(ready);
        let start = draft.status.active_at.unwrap_or(ready);
        draft.observe(Observation::WorkloadRecovered(
            ready.duration_since(start).max(SignedDuration::ZERO),
        ));
        draft.notice(
            false,
            "WorkloadRecovered",
            "Every displaced pod's replacement is Ready on another node",
        );
    }
}
