//! Which GPU pods go, in which order, and who is displaced. Only pods that hold a GPU are ever looked at.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::world::PodFacts;
use crate::api::GpuFaultStatus;
use crate::api::fault_status::{Attempt, DisplacedPod, Outcome, Phase, PodRef, RescheduleOutcome};

/// How many pods a sentence names before it counts.
const NAMED: usize = 10;

/// What can be done now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrainPlan {
    /// Pods to ask the eviction of.
    pub evict: Vec<PodRef>,
    /// Pods that a PodDisruptionBudget keeps: the pod and the budget.
    pub blocked: Vec<(PodRef, String)>,
    /// When a pod whose eviction the API server refused may be asked for again.
    pub retry_in: Option<SignedDuration>,
}

/// The pod must be gone before the node counts as drained. A pod that is Terminating still holds its GPU.
pub fn holds_gpu(pod: &PodFacts) -> bool {
    pod.stays.is_none() && !pod.finished
}

/// Plans the evictions of this moment: each pod that is not yet ending, as far as its PodDisruptionBudget allows. A
/// budget is spent here as the API server will spend it, so that no call is made only to be refused.
pub fn plan(targets: &[&PodFacts], allowed: &BTreeMap<String, i32>, now: Timestamp) -> DrainPlan {
    let mut allowed = allowed.clone();
    let mut plan = DrainPlan::default();
    let earliest = |wait: SignedDuration, retry: &mut Option<SignedDuration>| {
        *retry = Some(retry.map_or(wait, |r: SignedDuration| r.min(wait)));
    };
    for pod in targets.iter().filter(|p| !p.terminating) {
        if let Some(wait) = pod
            .retry_after
            .map(|t| t.duration_since(now))
            .filter(|w| *w > SignedDuration::ZERO)
        {
            let budget = pod
                .budgets
                .first()
                .cloned()
                .unwrap_or_else(|| "of its namespace".into());
            plan.blocked.push((pod.pod.clone(), budget));
            earliest(wait, &mut plan.retry_in);
            continue;
        }
        // A budget counts only Ready pods; with two budgets the API server refuses for good, and must be heard.
        if let ([budget], true) = (pod.budgets.as_slice(), pod.ready)
            && let Some(left) = allowed.get_mut(budget)
        {
            if *left < 1 {
                plan.blocked.push((pod.pod.clone(), budget.clone()));
                continue;
            }
            *left -= 1;
        }
        plan.evict.push(pod.pod.clone());
    }
    plan
}

/// The pods whose eviction the API server has not accepted yet. Until the watch shows that they are ending, another call
/// would only repeat the first.
pub fn not_yet_evicted<'a>(status: &GpuFaultStatus, targets: &[&'a PodFacts]) -> Vec<&'a PodFacts> {
    let evicted: BTreeSet<_> = status
        .displaced_pods
        .iter()
        .filter(|d| d.evicted_at.is_some())
        .map(|d| d.pod.uid.as_str())
        .collect();
    let waits = |t: &&&PodFacts| !evicted.contains(t.pod.uid.as_str());
    targets.iter().filter(waits).copied().collect()
}

/// Writes down which pods the attempt is about, before any eviction is asked for. A pod that somebody else is ending
/// already is waited for, but not displaced by us.
pub fn intend(status: &mut GpuFaultStatus, attempt: usize, targets: &[&PodFacts]) {
    for target in targets.iter().filter(|t| !t.terminating) {
        let listed = &mut status.attempts[attempt].pods;
        if !listed.contains(&target.pod) {
            listed.push(target.pod.clone());
        }
        if !status
            .displaced_pods
            .iter()
            .any(|d| d.pod.uid == target.pod.uid)
        {
            status.displaced_pods.push(DisplacedPod {
                pod: target.pod.clone(),
                owner: target.owner.clone(),
                slot: target.slot.clone(),
                evicted_at: None,
                evicted_after: None,
                replacement: None,
                outcome: RescheduleOutcome::Awaited,
                failure_reason: None,
            });
        }
    }
}

/// A pod whose eviction was intended and that is ending or gone was displaced, also when the process died before it
/// could write the answer down.
pub fn note_gone(status: &mut GpuFaultStatus, pods: &[PodFacts], now: Timestamp) {
    for displaced in status
        .displaced_pods
        .iter_mut()
        .filter(|d| d.evicted_at.is_none())
    {
        let uid = &displaced.pod.uid;
        let there = pods.iter().find(|p| p.pod.uid == *uid);
        if there.is_none_or(|p| p.terminating) {
            let intends = |a: &&Attempt| a.pods.iter().any(|p| p.uid == *uid);
            let attempt = status.attempts.iter().rev().find(intends);
            displaced.evicted_after = attempt.map(|a| a.started_at);
            displaced.evicted_at = Some(now);
        }
    }
}

/// Writes down which evictions the API server accepted.
pub fn note_evicted(status: &mut GpuFaultStatus, accepted: &[PodRef], now: Timestamp) {
    for displaced in &mut status.displaced_pods {
        if accepted.iter().any(|p| p.uid == displaced.pod.uid) {
            displaced.evicted_at.get_or_insert(now);
        }
    }
}

/// Pods that were never evicted are nobody's loss.
pub fn forget_unevicted(status: &mut GpuFaultStatus) {
    status.displaced_pods.retain(|d| d.evicted_at.is_some());
}

/// At least one pod has been displaced.
pub fn has_displaced(status: &GpuFaultStatus) -> bool {
    status.displaced_pods.iter().any(|d| d.evicted_at.is_some())
}

/// A displaced pod's replacement is still awaited.
pub fn awaits_replacements(status: &GpuFaultStatus) -> bool {
    status
        .displaced_pods
        .iter()
        .any(|d| d.evicted_at.is_some() && d.outcome == RescheduleOutcome::Awaited)
}

/// The pods that the last failed drain left behind.
pub fn stayed(status: &GpuFaultStatus) -> &[PodRef] {
    let failed = status
        .attempts
        .iter()
        .rev()
        .find(|a| a.outcome == Outcome::Failed)
        .filter(|_| status.phase == Phase::Failed);
    failed.map(|a| a.stayed.as_slice()).unwrap_or_default()
}

/// The pods by name, the first ten of them.
pub fn names(pods: &[&PodFacts]) -> String {
    let mut names: Vec<_> = pods.iter().take(NAMED).map(|p| p.pod.to_string()).collect();
    if pods.len() > NAMED {
        names.push(format!("and {} more", pods.len() - NAMED));
    }
    names.join(", ")
}
