//! Promises 3, 4 and 12: the intent stands in the status before the effect, no effect is repeated for ever, and only
//! GPU pods that may go are touched.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::{Cluster, Fault, Pod, Step, word};
use super::{Findings, PromisesConfig};
use crate::api::Phase;
use crate::api::fault_status::{Action, Attempt, Outcome};
use crate::remediation::mark::CordonMark;
use crate::sim::api_server::resources::PODS;
use crate::sim::api_server::{Call, Verb};

/// An answer may get lost, and then an eviction is asked for again; more often than this is a loop.
const MOST_EVICTIONS: u32 = 3;

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Effects {
    accepted: BTreeMap<String, u32>,
    /// Pods whose eviction was refused for good.
    pub refused: BTreeSet<String>,
}

/// The attempt of that action that runs now.
fn running(fault: &Fault, action: Action) -> Option<&Attempt> {
    let status = &fault.status;
    status
        .attempts
        .iter()
        .rev()
        .find(|a| a.round == status.round && a.action == action && a.outcome == Outcome::Running)
}

/// Which fault intends to evict this pod.
pub(super) fn intends<'a>(cluster: &'a Cluster, node: &str, uid: &str) -> Option<&'a Fault> {
    cluster.faults_on(node).find(|f| {
        f.status.phase == Phase::Processing
            && running(f, Action::EvictPods).is_some_and(|a| a.pods.iter().any(|p| p.uid == uid))
    })
}

/// The pod that an eviction is about, by its name and, where the call says so, its UID.
pub(super) fn evicted<'a>(call: &Call, cluster: &'a Cluster) -> Option<(&'a Pod, String)> {
    if call.resource != Some(PODS) || call.subresource.as_deref() != Some("eviction") {
        return None;
    }
    let body = call.body.as_deref();
    let uid = body.map(|b| word(&b["deleteOptions"]["preconditions"]["uid"]));
    let key = (call.namespace.clone()?, call.name.clone()?);
    Some((cluster.pods.get(&key)?, uid.unwrap_or_default()))
}

impl Effects {
    pub fn called(
        &mut self,
        call: &Call,
        config: &PromisesConfig,
        cluster: &Cluster,
        found: &mut Findings,
    ) {
        let at = call.at;
        let name = || call.name.clone().unwrap_or_default();
        if call.resource == Some(PODS) && call.subresource.as_deref() == Some("eviction") {
            let body = call.body.as_deref();
            let uid = body.map_or_else(String::new, |b| {
                word(&b["deleteOptions"]["preconditions"]["uid"])
            });
            found.check(4, at, !uid.is_empty(), || {
                format!("the eviction of {} names no UID", name())
            });
            if call.code == 500 {
                self.refused.insert(uid.clone());
            }
            if (200..300).contains(&call.code) {
                let times = self.accepted.entry(uid.clone()).or_default();
                *times += 1;
                found.check(3, at, *times <= MOST_EVICTIONS, || {
                    format!("pod {} ({uid}) was evicted {times} times", name())
                });
            }
        }
        let deletes = call.resource == Some(PODS) && call.verb == Verb::Delete;
        found.check(12, at, !deletes, || {
            format!("pod {} was deleted, not evicted", name())
        });
        // What is asked for is judged, whether or not it was granted.
        let Some((pod, uid)) = evicted(call, cluster) else {
            return;
        };
        if pod.uid == uid && !(200..300).contains(&call.code) {
            self.judge(
                call.at,
                &name(),
                call.namespace.as_deref(),
                pod,
                config,
                cluster,
                found,
            );
        }
    }

    pub fn wrote(
        &mut self,
        step: &Step<'_>,
        config: &PromisesConfig,
        cluster: &Cluster,
        found: &mut Findings,
    ) {
        let write = step.write;
        if write.resource == PODS {
            let evicts = write.subresource == Some("eviction");
            found.check(12, write.at, evicts, || {
                format!(
                    "pod {} was changed otherwise than by an eviction",
                    write.name
                )
            });
            let key = (
                write.namespace.clone().unwrap_or_default(),
                write.name.clone(),
            );
            if let Some(pod) = cluster.pods.get(&key) {
                let namespace = write.namespace.as_deref();
                self.judge(
                    write.at,
                    &write.name,
                    namespace,
                    pod,
                    config,
                    cluster,
                    found,
                );
            }
        }
        let Some((Some(before), Some(after))) = &step.node else {
            return;
        };
        let empty = BTreeMap::new();
        let entries = |m: &Option<CordonMark>| m.as_ref().map(|m| m.faults.clone());
        let old = entries(&before.mark).unwrap_or_else(|| empty.clone());
        let new = entries(&after.mark).unwrap_or(empty);
        for (name, uid) in new.iter().filter(|(n, u)| old.get(*n) != Some(*u)) {
            let fault = cluster.faults.get(name).filter(|f| f.uid == *uid);
            let intended = fault.is_some_and(|f| {
                f.status.phase == Phase::Processing && running(f, Action::Cordon).is_some()
            });
            found.check(4, write.at, intended, || {
                format!(
                    "node {} was cordoned for {name} without an attempt",
                    write.name
                )
            });
        }
        for (name, uid) in old.iter().filter(|(n, u)| new.get(*n) != Some(*u)) {
            let fault = cluster.faults.get(name).filter(|f| f.uid == *uid);
            let intended = fault.is_some_and(|f| {
                let gives_up = f.status.phase.is_over()
                    || (f.status.phase == Phase::Pending && f.status.isolation.is_none());
                gives_up || running(f, Action::Uncordon).is_some()
            });
            found.check(4, write.at, intended, || {
                format!(
                    "the mark of {name} was removed from node {} without an attempt",
                    write.name
                )
            });
        }
        let cordons = !before.unschedulable && after.unschedulable;
        found.check(4, write.at, !cordons || new.len() > old.len(), || {
            format!("node {} was cordoned without a mark", write.name)
        });
    }

    #[allow(clippy::too_many_arguments)]
    fn judge(
        &self,
        at: jiff::Timestamp,
        name: &str,
        namespace: Option<&str>,
        pod: &Pod,
        config: &PromisesConfig,
        cluster: &Cluster,
        found: &mut Findings,
    ) {
        let node = pod.node.as_deref().unwrap_or_default();
        let intended = intends(cluster, node, &pod.uid).is_some();
        found.check(4, at, intended, || {
            format!(
                "pod {name} ({}) is evicted from {node:?} without an intent",
                pod.uid
            )
        });
        let protected = config.protected_namespaces.iter();
        let protected = protected.map(String::as_str).any(|p| Some(p) == namespace);
        let may_go = (pod.extended || pod.claims) && !pod.daemon_set && !pod.mirror && !protected;
        found.check(12, at, may_go, || {
            format!("pod {name} is evicted, and is none of those that may be: {pod:?}")
        });
    }
}
