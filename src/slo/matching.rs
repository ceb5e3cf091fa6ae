//! Which pod replaces which displaced pod, and what became of each.
//!
//! A replacement is another pod (by UID) under the same root owner, and in the same slot where the owner has slots,
//! created after the eviction. It counts once it is Ready on another node. Pods of an owner without slots are matched
//! one to one, the oldest first.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::api::fault_status::{DisplacedPod, OwnerRef, Replacement, RescheduleOutcome};

/// Creation times have the resolution of a second; a replacement may thus look a little older than the eviction.
const SKEW: SignedDuration = SignedDuration::from_secs(2);

/// A pod that may be a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Its root owner.
    pub owner: Option<OwnerRef>,
    /// Its slot under that owner.
    pub slot: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// The node that it was bound to.
    pub node: Option<String>,
    /// Since when it is Ready.
    pub ready_since: Option<Timestamp>,
    /// It is being deleted, or has ended.
    pub ending: bool,
    /// A scheduling gate holds it back.
    pub gated: bool,
    /// The scheduler finds no node for it.
    pub unschedulable: bool,
    /// A container cannot start: its image or its command fails.
    pub start_failure: bool,
}

/// What is known of a root owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It wants its pods.
    Active,
    /// It is gone, finished, suspended or scaled down: it wants no replacement.
    Done,
    /// It has failed for good.
    Failed,
}

/// Where replacements are looked for.
#[derive(Debug)]
pub struct Search<'a> {
    /// Pods in the namespaces of the displaced ones.
    pub candidates: &'a [Candidate],
    /// UIDs that already count as replacements elsewhere.
    pub taken: &'a BTreeSet<String>,
    /// Root owners by UID.
    pub owners: &'a BTreeMap<String, OwnerState>,
    /// The node that the pods were displaced from.
    pub faulty_node: &'a str,
    /// How long a replacement may take.
    pub deadline: SignedDuration,
    /// Now.
    pub now: Timestamp,
}

/// Updates each displaced pod that is still awaited. Returns the verdicts that were reached: `None` for a success, the
/// reason for a failure.
pub fn follow(displaced: &mut [DisplacedPod], search: &Search<'_>) -> Vec<Option<String>> {
    let mut verdicts = Vec::new();
    let mut taken: BTreeSet<String> = search.taken.clone();
    taken.extend(displaced.iter().map(|d| d.pod.uid.clone()));
    taken.extend(
        displaced
            .iter()
            .filter_map(|d| d.replacement.as_ref())
            .map(|r| r.uid.clone()),
    );
    for pod in displaced.iter_mut() {
        let Some(evicted_at) = pod
            .evicted_at
            .filter(|_| pod.outcome == RescheduleOutcome::Awaited)
        else {
            continue;
        };
        let Some(owner) = pod.owner.clone() else {
            pod.outcome = RescheduleOutcome::Unmanaged;
            continue;
        };
        let known = pod
            .replacement
            .as_ref()
            .and_then(|r| search.candidates.iter().find(|c| c.uid == r.uid));
        let found = match known.filter(|c| !c.ending) {
            Some(candidate) => Some(candidate),
            None => {
                let earliest = pod.evicted_after.unwrap_or(evicted_at);
                best(pod, &owner, earliest, search, &taken)
            }
        };
        let seen = found.map(|c| Replacement {
            name: c.name.clone(),
            uid: c.uid.clone(),
            node: c.node.clone(),
            ready_at: c.ready_since,
        });
        // That the same pod is bound and starts is not worth a write of the object; who it is and how it ends is.
        let is_other = pod.replacement.as_ref().map(|r| &r.uid) != seen.as_ref().map(|r| &r.uid);
        let is_late = search.now.duration_since(evicted_at) >= search.deadline;
        if is_other || is_late || found.is_some_and(|c| c.ready_since.is_some()) {
            pod.replacement = seen;
        }
        if let Some(candidate) = found {
            taken.insert(candidate.uid.clone());
            let elsewhere = candidate
                .node
                .as_deref()
                .is_some_and(|n| n != search.faulty_node);
            if candidate.ready_since.is_some() && elsewhere {
                pod.outcome = RescheduleOutcome::Rescheduled;
                verdicts.push(None);
                continue;
            }
        }
        match search.owners.get(&owner.uid) {
            Some(OwnerState::Done) if found.is_none() => {
                pod.outcome = RescheduleOutcome::Excluded;
                continue;
            }
            Some(OwnerState::Failed) => {
                verdicts.push(Some(fail(pod, "owner_failed")));
                continue;
            }
            _ => {}
        }
        if is_late {
            verdicts.push(Some(fail(pod, failure(found, search.faulty_node))));
        }
    }
    verdicts
}

fn fail(pod: &mut DisplacedPod, reason: &str) -> String {
    pod.outcome = RescheduleOutcome::Failed;
    pod.failure_reason = Some(reason.to_string());
    reason.to_string()
}

fn best<'a>(
    pod: &DisplacedPod,
    owner: &OwnerRef,
    earliest: Timestamp,
    search: &Search<'a>,
    taken: &BTreeSet<String>,
) -> Option<&'a Candidate> {
    search
        .candidates
        .iter()
        .filter(|c| {
            c.namespace == pod.pod.namespace
                && c.owner.as_ref().is_some_and(|o| o.uid == owner.uid)
                && c.slot == pod.slot
                && c.created + SKEW >= earliest
                && !c.ending
                && !taken.contains(&c.uid)
        })
        .min_by_key(|c| (c.created, c.name.clone()))
}

fn failure(found: Option<&Candidate>, faulty_node: &str) -> &'static str {
    match found {
        None => "no_replacement",
        Some(c) if c.gated => "gated",
        Some(c) if c.unschedulable => "unschedulable",
        Some(c) if c.node.as_deref() == Some(faulty_node) => "same_node",
        Some(c) if c.start_failure => "start_failure",
        Some(_) => "not_ready",
    }
}
