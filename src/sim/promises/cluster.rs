//! The cluster as the promises need to know it: as it was just before the write that is looked at.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::{Selector, SelectorExt};
use serde::Deserialize;
use serde_json::Value;

use crate::api::names::CORDON_ANNOTATION;
use crate::api::{GpuFault, GpuFaultStatus, RemediationPolicy, RemediationPolicySpec};
use crate::remediation::mark::CordonMark;
use crate::sim::api_server::{
    Write,
    resources::{GPU_FAULTS, NODES, PODS, REMEDIATION_POLICIES},
};

/// A fault.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub name: String,
    pub uid: String,
    pub deleting: bool,
    pub object: GpuFault,
    pub status: GpuFaultStatus,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub uid: String,
    pub unschedulable: bool,
    pub mark: Option<CordonMark>,
    pub mark_unreadable: bool,
    pub ready: bool,
    pub labels: BTreeMap<String, String>,
    /// Since when it is out of service, or back.
    pub since: Timestamp,
    /// Since when there is this object.
    pub created: Timestamp,
}

/// A pod.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub uid: String,
    pub node: Option<String>,
    /// It asks for a GPU as an extended resource.
    pub extended: bool,
    /// It uses a ResourceClaim, which may hold a GPU.
    pub claims: bool,
    pub daemon_set: bool,
    pub mirror: bool,
    pub finished: bool,
    /// Since when it is known on its node.
    pub since: Timestamp,
}

/// A policy.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub spec: RemediationPolicySpec,
    pub stopped: bool,
    pub changed: Timestamp,
}

/// One write, taken apart.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub write: &'a Write,
    pub fault: Option<(Option<Fault>, Option<Fault>)>,
    pub node: Option<(Option<Node>, Option<Node>)>,
}

/// What exists.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub faults: BTreeMap<String, Fault>,
    pub nodes: BTreeMap<String, Node>,
    pub pods: BTreeMap<(String, String), Pod>,
    pub by_node: BTreeMap<String, Vec<(String, String)>>,
    pub faults_of: BTreeMap<String, Vec<String>>,
    pub policies: BTreeMap<String, Policy>,
    /// Nodes that were added or removed, and when: a controller may not know yet.
    pub nodes_changed: Option<Timestamp>,
}

impl Node {
    pub fn is_out(&self) -> bool {
        self.unschedulable || !self.ready
    }
}

impl Fault {
    pub fn of(value: &Value) -> Option<Self> {
        let object = GpuFault::deserialize(value).ok()?;
        Some(Self {
            name: object.metadata.name.clone()?,
            uid: object.metadata.uid.clone().unwrap_or_default(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            status: object.status.clone().unwrap_or_default(),
            object,
        })
    }

    pub fn node(&self) -> &str {
        &self.object.spec.node_name
    }

    /// It counts as holding its node out of service.
    pub fn holds_node(&self) -> bool {
        use crate::api::Phase::{Failed, Handled, Processing, Recovering};
        match self.status.phase {
            Processing | Handled | Recovering => true,
            Failed => self.status.isolation.is_some(),
            _ => false,
        }
    }
}

fn node_of(value: &Value, before: Option<&Node>, at: Timestamp) -> Node {
    let text = value["metadata"]["annotations"][CORDON_ANNOTATION].as_str();
    let mark = text.and_then(|t| serde_json::from_str(t).ok());
    let conditions = value["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True");
    let labels = value["metadata"]["labels"].as_object();
    let mut node = Node {
        uid: word(&value["metadata"]["uid"]),
        unschedulable: value["spec"]["unschedulable"] == true,
        mark_unreadable: text.is_some() && mark.is_none(),
        mark,
        ready,
        labels: labels
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), word(v)))
            .collect(),
        since: at,
        created: at,
    };
    if let Some(before) = before.filter(|b| b.uid == node.uid) {
        node.created = before.created;
    }
    if let Some(before) = before.filter(|b| b.uid == node.uid && b.is_out() == node.is_out()) {
        node.since = before.since;
    }
    node
}

fn pod_of(value: &Value, before: Option<&Pod>, at: Timestamp) -> Pod {
    let lists = ["containers", "initContainers"].map(|l| value["spec"][l].as_array());
    let containers = lists.into_iter().flatten().flatten();
    let resources =
        containers.flat_map(|c| [&c["resources"]["limits"], &c["resources"]["requests"]]);
    let is_gpu = |name: &str| {
        name == "nvidia.com/gpu"
            || name.starts_with("nvidia.com/gpu.")
            || name.starts_with("nvidia.com/mig-")
    };
    let mut asked = resources.filter_map(Value::as_object).flatten();
    let extended = asked.any(|(name, n)| is_gpu(name) && *n != "0" && *n != 0);
    let owners = value["metadata"]["ownerReferences"].as_array();
    let node = value["spec"]["nodeName"].as_str().map(str::to_owned);
    let since = before.filter(|b| b.node == node).map_or(at, |b| b.since);
    Pod {
        uid: word(&value["metadata"]["uid"]),
        extended,
        claims: value["spec"]["resourceClaims"]
            .as_array()
            .is_some_and(|c| !c.is_empty()),
        daemon_set: owners
            .into_iter()
            .flatten()
            .any(|o| o["kind"] == "DaemonSet" && o["controller"] == true),
        mirror: value["metadata"]["annotations"]
            .get("kubernetes.io/config.mirror")
            .is_some(),
        finished: matches!(
            value["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        ),
        node,
        since,
    }
}

pub(super) fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Cluster {
    /// Takes a write apart.
    pub fn step<'a>(&self, write: &'a Write) -> Step<'a> {
        let (before, after) = (write.before.as_deref(), write.after.as_deref());
        let fault = (write.resource == GPU_FAULTS).then(|| {
            let known = self.faults.get(&write.name).cloned();
            let before = before.and_then(|b| known.or_else(|| Fault::of(b)));
            (before, after.and_then(Fault::of))
        });
        let node = (write.resource == NODES).then(|| {
            let known = self.nodes.get(&write.name).cloned();
            let before = before.map(|b| known.unwrap_or_else(|| node_of(b, None, write.at)));
            let after = after.map(|a| node_of(a, before.as_ref(), write.at));
            (before, after)
        });
        Step { write, fault, node }
    }

    /// The write has happened.
    pub fn apply(&mut self, step: &Step<'_>) {
        let write = step.write;
        if let Some((before, after)) = &step.fault {
            match after {
                Some(fault) => {
                    if before.is_none() {
                        let of = self.faults_of.entry(fault.node().to_owned()).or_default();
                        of.push(fault.name.clone());
                    }
                    self.faults.insert(write.name.clone(), fault.clone());
                }
                None => {
                    if let Some(gone) = self.faults.remove(&write.name)
                        && let Some(of) = self.faults_of.get_mut(gone.node())
                    {
                        of.retain(|name| *name != gone.name);
                    }
                }
            }
        }
        if let Some((before, after)) = &step.node {
            if before.is_some() != after.is_some() {
                self.nodes_changed = Some(write.at);
            }
            match after {
                Some(node) => self.nodes.insert(write.name.clone(), node.clone()),
                None => self.nodes.remove(&write.name),
            };
        }
        if write.resource == PODS {
            self.apply_pod(write);
        }
        if write.resource == REMEDIATION_POLICIES {
            self.apply_policy(write);
        }
    }

    fn apply_pod(&mut self, write: &Write) {
        let key = (
            write.namespace.clone().unwrap_or_default(),
            write.name.clone(),
        );
        let before = self.pods.remove(&key);
        if let Some(node) = before.as_ref().and_then(|b| b.node.as_ref())
            && let Some(there) = self.by_node.get_mut(node)
        {
            there.retain(|k| *k != key);
        }
        if let Some(after) = write.after.as_deref() {
            let pod = pod_of(after, before.as_ref(), write.at);
            if let Some(node) = &pod.node {
                let there = self.by_node.entry(node.clone()).or_default();
                there.push(key.clone());
            }
            self.pods.insert(key, pod);
        }
    }

    fn apply_policy(&mut self, write: &Write) {
        let after = write.after.as_deref();
        let Some(policy) = after.and_then(|a| RemediationPolicy::deserialize(a).ok()) else {
            self.policies.remove(&write.name);
            return;
        };
        let stopped = policy.status.as_ref().is_some_and(|s| s.is_stopped());
        let before = self.policies.get(&write.name);
        let same = before.filter(|b| b.spec == policy.spec && b.stopped == stopped);
        let changed = same.map_or(write.at, |b| b.changed);
        let policy = Policy {
            spec: policy.spec,
            stopped,
            changed,
        };
        self.policies.insert(write.name.clone(), policy);
    }

    /// The pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = (&(String, String), &Pod)> {
        let keys = self.by_node.get(node).into_iter().flatten();
        keys.filter_map(|k| Some((k, self.pods.get(k)?)))
    }

    /// The faults of a node.
    pub fn faults_on(&self, node: &str) -> impl Iterator<Item = &Fault> {
        let names = self.faults_of.get(node).into_iter().flatten();
        names.filter_map(|n| self.faults.get(n))
    }

    /// The policy of a fault.
    pub fn policy_of(&self, fault: &Fault) -> Option<&Policy> {
        self.policies.get(&fault.object.spec.policy_ref.name)
    }
}

/// Which nodes a policy selects.
pub(super) fn selects(policy: &RemediationPolicySpec, node: &Node) -> bool {
    match policy.node_selector.clone().map(Selector::try_from) {
        None => true,
        Some(Ok(selector)) => selector.matches(&node.labels),
        Some(Err(_)) => false,
    }
}
