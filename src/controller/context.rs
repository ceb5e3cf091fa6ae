//! What every reconciliation shares.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::caches::Caches;
use super::guard_book::GuardBook;
use super::metrics::Metrics;
use super::nudges::Nudges;
use super::pod_watches::PodWatches;
use crate::api::fault_status::OwnerRef;
use crate::clock::Clock;
use crate::kubernetes::budgets::Spent;
use crate::kubernetes::clients::Clients;
use crate::kubernetes::events::Events;
use crate::kubernetes::lease::Leadership;
use crate::prometheus::client::Client as Prometheus;
use crate::prometheus::condition::Conditions;
use crate::remediation::proof::Watched;
use crate::remediation::world::RuleFacts;
use crate::slo::matching::OwnerState;

/// Shared by all reconciliations.
pub struct Context {
    /// The wall time.
    pub clock: Clock,
    /// Clients of the API server.
    pub clients: Clients,
    /// Whether we may act.
    pub leadership: Leadership,
    /// What is known of the cluster.
    pub caches: Arc<Caches>,
    /// Watches on pods, where a fault needs them.
    pub pods: PodWatches,
    /// The judge.
    pub prometheus: Prometheus,
    /// Proofs that have been taken apart.
    pub conditions: Conditions,
    /// What guards said lately.
    pub guards: GuardBook,
    /// Events.
    pub events: Events,
    /// Metrics.
    pub metrics: Metrics,
    /// Reasons to look again.
    pub nudges: Nudges,
    /// Namespaces whose pods are never evicted.
    pub protected_namespaces: Vec<String>,
    /// The interval of rule groups that name none.
    pub evaluation_interval: std::time::Duration,
    /// One admission at a time: the budget is counted and used in one go.
    pub admission: tokio::sync::Mutex<()>,
    /// A policy has changed: a person may have resumed it.
    pub policy_changed: tokio::sync::Notify,
    /// A rule has changed: the evaluator follows.
    pub rules_changed: Arc<tokio::sync::Notify>,
    /// What was learned on the way and may be learned again.
    pub memory: Memory,
}

/// Things learned on the way. Losing them costs a question, never correctness.
#[derive(Default)]
pub struct Memory {
    /// PodDisruptionBudgets: what we have spent since they last changed.
    pub spent: Spent,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    watched: HashMap<(String, &'static str), Watched>,
    retry_after: HashMap<String, Timestamp>,
    refused: HashMap<String, String>,
    failures: HashMap<String, u32>,
    roots: HashMap<String, OwnerRef>,
    owners: HashMap<String, (OwnerState, Timestamp)>,
    claims: HashMap<(String, String), bool>,
    rules: HashMap<String, RuleFacts>,
    silent: HashSet<String>,
}

/// More owners than this are not remembered; looking one up again costs a request.
const MOST_OWNERS: usize = 10_000;

/// The longest wait between two tries after failures.
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_secs(30);

impl Memory {
    /// A term of leadership begins. What was learned in an earlier one may be hours old: another has led since.
    pub fn begin_term(&self) {
        self.with(|m| *m = Inner::default());
    }

    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A question about a fault was answered; answers since when each look has said that it holds.
    pub fn looked(
        &self,
        fault_uid: &str,
        question: &'static str,
        query: &str,
        holds: Option<bool>,
        at: Timestamp,
    ) -> Option<Timestamp> {
        self.with(|m| {
            let key = (fault_uid.to_string(), question);
            let watched = Watched::after(m.watched.get(&key), query, holds, at);
            let since = watched.unbroken_since;
            m.watched.insert(key, watched);
            since
        })
    }

    /// The pod's eviction was refused for now.
    pub fn retry_after(&self, pod_uid: &str, at: Timestamp) {
        self.with(|m| m.retry_after.insert(pod_uid.to_string(), at));
    }

    /// Since when the pod may be asked for again.
    pub fn retry_at(&self, pod_uid: &str) -> Option<Timestamp> {
        self.with(|m| m.retry_after.get(pod_uid).copied())
    }

    /// Every pod may be asked for again: a PodDisruptionBudget has changed.
    pub fn retry_all(&self) {
        self.with(|m| {
            m.retry_after.clear();
            m.refused.clear();
        });
    }

    /// The pod's eviction was refused for good.
    pub fn refuse(&self, pod_uid: &str, why: String) {
        self.with(|m| m.refused.insert(pod_uid.to_string(), why));
    }

    /// Why the pod's eviction was refused for good.
    pub fn refusal(&self, pod_uid: &str) -> Option<String> {
        self.with(|m| m.refused.get(pod_uid).cloned())
    }

    /// A person asked for another try: what was refused may be asked for again.
    pub fn forgive(&self) {
        self.with(|m| m.refused.clear());
    }

    /// How long to wait after yet another failure of this object.
    pub fn backoff(&self, object: &str) -> SignedDuration {
        self.with(|m| {
            let failures = m.failures.entry(object.to_string()).or_default();
            *failures = failures.saturating_add(1);
            let wait = SignedDuration::from_millis(250) * 2_i32.pow((*failures - 1).min(10));
            wait.min(LONGEST_BACKOFF)
        })
    }

    /// The object went well.
    pub fn went_well(&self, object: &str) {
        self.with(|m| m.failures.remove(object));
    }

    /// The root owner of an owner, if it was looked up.
    pub fn root(&self, owner_uid: &str) -> Option<OwnerRef> {
        self.with(|m| m.roots.get(owner_uid).cloned())
    }

    /// Remembers a root owner.
    pub fn remember_root(&self, owner_uid: &str, root: OwnerRef) {
        self.with(|m| m.roots.insert(owner_uid.to_string(), root));
    }

    /// The state of a root owner, unless it was looked up too long ago.
    pub fn owner(&self, uid: &str, now: Timestamp, fresh: SignedDuration) -> Option<OwnerState> {
        self.with(|m| {
            m.owners
                .get(uid)
                .filter(|(_, at)| now.duration_since(*at) < fresh)
                .map(|(state, _)| *state)
        })
    }

    /// Remembers the state of a root owner.
    pub fn remember_owner(&self, uid: &str, state: OwnerState, now: Timestamp) {
        self.with(|m| m.owners.insert(uid.to_string(), (state, now)));
    }

    /// Whether a claim holds a GPU, for this pod.
    pub fn claim(&self, pod_uid: &str, claim: &str) -> Option<bool> {
        self.with(|m| {
            m.claims
                .get(&(pod_uid.to_string(), claim.to_string()))
                .copied()
        })
    }

    /// Remembers whether a claim holds a GPU. The allocation of a running pod's claim does not change.
    pub fn remember_claim(&self, pod_uid: &str, claim: &str, holds: bool) {
        self.with(|m| {
            m.claims
                .insert((pod_uid.to_string(), claim.to_string()), holds)
        });
    }

    /// What the rule of a fault says.
    pub fn rule(&self, fault: &str) -> RuleFacts {
        self.with(|m| m.rules.get(fault).copied().unwrap_or_default())
    }

    /// Remembers what the rule of a fault says; answers whether that is news.
    pub fn remember_rule(&self, fault: &str, facts: RuleFacts) -> bool {
        self.with(|m| {
            if facts == RuleFacts::Silent {
                m.silent.insert(fault.to_string());
            }
            m.rules.insert(fault.to_string(), facts) != Some(facts)
        })
    }

    /// The rule of a fault has been silent since its activation began.
    pub fn rule_was_silent(&self, fault: &str) -> bool {
        self.with(|m| m.silent.contains(fault))
    }

    /// The rule of a fault has begun to fire anew.
    pub fn rule_fires_anew(&self, fault: &str) {
        self.with(|m| {
            m.silent.remove(fault);
            m.rules.insert(fault.to_string(), RuleFacts::Firing);
        });
    }

    /// Forgets all that belongs to a fault and its pods, and what has piled up about owners.
    pub fn forget(&self, fault: &str, fault_uid: &str, pods: &[&str]) {
        self.with(|m| {
            m.watched.retain(|(uid, _), _| uid != fault_uid);
            m.failures.remove(fault);
            m.rules.remove(fault);
            m.silent.remove(fault);
            for pod in pods {
                m.failures.remove(*pod);
                m.retry_after.remove(*pod);
                m.refused.remove(*pod);
                m.claims.retain(|(uid, _), _| uid != pod);
            }
            if m.roots.len() > MOST_OWNERS {
                m.roots.clear();
            }
            if m.owners.len() > MOST_OWNERS {
                m.owners.clear();
            }
        });
    }
}
