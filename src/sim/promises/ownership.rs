//! Promises 5 and 11: we undo only what we did, obey who uncordons, and delete neither nodes nor evidence.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::{Cluster, Fault, Step};
use super::{Findings, PromisesConfig, effects};
use crate::api::Phase;
use crate::api::names::CORDON_ANNOTATION;
use crate::remediation::recovery::DEFAULT_RETENTION;
use crate::sim::api_server::resources::{GPU_FAULTS, NODES};
use crate::sim::api_server::{Call, Verb};

/// What persons decided.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    /// Fault by UID and occurrence whose node a person has uncordoned, and when.
    released: BTreeMap<(String, u32), Timestamp>,
}

/// The node without what a controller may change.
fn rest(node: &Value) -> Value {
    let mut rest = node.clone();
    if let Some(spec) = rest["spec"].as_object_mut() {
        spec.remove("unschedulable");
        // The server keeps this taint together with the cordon.
        if let Some(taints) = spec.get_mut("taints").and_then(Value::as_array_mut) {
            taints.retain(|t| t["key"] != "node.kubernetes.io/unschedulable");
        }
        if spec
            .get("taints")
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty)
        {
            spec.remove("taints");
        }
    }
    if let Some(meta) = rest["metadata"].as_object_mut() {
        for field in ["resourceVersion", "generation", "managedFields"] {
            meta.remove(field);
        }
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(CORDON_ANNOTATION);
        }
        if meta
            .get("annotations")
            .and_then(Value::as_object)
            .is_some_and(|a| a.is_empty())
        {
            meta.remove("annotations");
        }
    }
    rest
}

impl Ownership {
    /// When a person uncordoned the node of this occurrence of the fault.
    pub fn released(&self, fault: &Fault) -> Option<Timestamp> {
        let key = (fault.uid.clone(), fault.status.occurrence);
        self.released.get(&key).copied()
    }

    pub fn called(
        &mut self,
        call: &Call,
        config: &PromisesConfig,
        cluster: &Cluster,
        found: &mut Findings,
    ) {
        let name = call.name.clone().unwrap_or_default();
        let deletes = call.verb == Verb::Delete;
        let deletes_node = deletes && call.resource == Some(NODES);
        found.check(11, call.at, !deletes_node, || {
            format!("the deletion of node {name} was asked for")
        });
        let evicted = effects::evicted(call, cluster);
        if let Some(fault) =
            evicted.and_then(|(pod, uid)| effects::intends(cluster, pod.node.as_deref()?, &uid))
        {
            let key = (fault.uid.clone(), fault.status.occurrence);
            let released = self.released.get(&key);
            let obeyed = released.is_none_or(|r| call.at.duration_since(*r) <= config.latency);
            found.check(5, call.at, obeyed, || {
                format!(
                    "pod {name} is evicted for {} after a person uncordoned its node",
                    fault.name
                )
            });
        }
        // An accepted deletion of a fault that is still kept by its finalizer; what is gone was checked when written.
        if let Some(fault) = cluster.faults.get(&name)
            && deletes
            && call.resource == Some(GPU_FAULTS)
            && call.code < 300
        {
            let policy = cluster.policy_of(fault);
            let retention =
                policy.map_or(DEFAULT_RETENTION, |p| p.spec.recovery.retention.as_signed());
            let ended = fault.status.timeline.ended_at;
            let kept = ended.map_or(SignedDuration::ZERO, |e| call.at.duration_since(e));
            let slack = config.clock_skew + config.latency;
            let holds = fault.status.phase.is_over() && kept + slack >= retention;
            found.check(11, call.at, holds, || {
                format!("fault {name} was deleted before its retention")
            });
        }
    }

    pub fn wrote(&mut self, step: &Step<'_>, ours: bool, cluster: &Cluster, found: &mut Findings) {
        let write = step.write;
        let Some((Some(before), after)) = &step.node else {
            return;
        };
        let Some(after) = after else {
            found.check(11, write.at, !ours, || {
                format!("node {} was deleted", write.name)
            });
            return;
        };
        let uncordons = before.unschedulable && !after.unschedulable;
        if !ours {
            let faults = before.mark.iter().flat_map(|m| &m.faults);
            for (name, uid) in faults.filter(|_| uncordons) {
                let fault = cluster.faults.get(name).filter(|f| f.uid == *uid);
                if let Some(fault) = fault.filter(|f| f.status.phase != Phase::Pending) {
                    let key = (uid.clone(), fault.status.occurrence);
                    self.released.entry(key).or_insert(write.at);
                }
            }
            return;
        }
        let at = write.at;
        let owned = before.mark.as_ref().is_some_and(|m| m.owned);
        let last = after.mark.is_none();
        found.check(5, at, !uncordons || (owned && last), || {
            format!(
                "node {} was uncordoned, and the cordon was not ours alone: {:?}",
                write.name, before.mark
            )
        });
        let claims = after.mark.as_ref().is_some_and(|m| m.owned) && !owned;
        found.check(
            5,
            at,
            !claims || !(before.unschedulable || before.mark_unreadable),
            || {
                format!(
                    "the cordon of node {} was somebody else's, and is marked as ours",
                    write.name
                )
            },
        );
        if let (Some(old), Some(new)) = (write.before.as_deref(), write.after.as_deref()) {
            found.check(5, at, rest(old) == rest(new), || {
                format!(
                    "more of node {} was changed than cordon and mark",
                    write.name
                )
            });
        }
        for (name, uid) in after.mark.iter().flat_map(|m| &m.faults) {
            if before.mark.as_ref().is_some_and(|m| m.holds(name, uid)) {
                continue;
            }
            let occurrence = cluster.faults.get(name).map_or(0, |f| f.status.occurrence);
            let released = self.released.contains_key(&(uid.clone(), occurrence));
            found.check(5, at, !released, || {
                format!(
                    "node {} is cordoned again for {name} after a person uncordoned it",
                    write.name
                )
            });
        }
    }
}
