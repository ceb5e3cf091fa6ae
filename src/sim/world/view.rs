//! What the world's own controllers remember of the cluster, kept up to date from the log of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::sim::api_server::resources::{
    DAEMON_SETS, DEPLOYMENTS, JOBS, NODES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
    STATEFUL_SETS,
};
use crate::sim::api_server::{Change, Resource, Store};

/// Namespace and name.
pub(super) type Key = (String, String);

/// A pod as the controllers see it.
#[derive(Clone)]
pub(super) struct Pod {
    pub(super) value: Arc<Value>,
    pub(super) uid: String,
    pub(super) node: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) gpus: i64,
    pub(super) millicpu: i64,
    pub(super) deleting: bool,
    pub(super) finished: bool,
    pub(super) ready: bool,
}

impl Pod {
    fn of(value: &Arc<Value>) -> Self {
        let meta = &value["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let owners = meta["ownerReferences"].as_array();
        let owner = owners.and_then(|all| all.iter().find(|o| o["controller"] == true));
        let requests = |name: &str| -> i64 {
            let containers = value["spec"]["containers"].as_array();
            containers.map_or(0, |all| {
                all.iter()
                    .map(|c| quantity(&c["resources"]["requests"][name]))
                    .sum()
            })
        };
        Self {
            uid: text(&meta["uid"]).unwrap_or_default(),
            node: text(&value["spec"]["nodeName"]).filter(|node| !node.is_empty()),
            owner: owner.and_then(|o| text(&o["uid"])),
            gpus: requests("nvidia.com/gpu") / 1000,
            millicpu: requests("cpu"),
            deleting: !meta["deletionTimestamp"].is_null(),
            finished: is_finished(value),
            ready: condition(value, "Ready") == Some("True"),
            value: value.clone(),
        }
    }

    /// It counts as one of its owner's pods.
    pub(super) fn is_active(&self) -> bool {
        !self.deleting && !self.finished
    }

    /// It holds what it asked for on its node.
    fn holds(&self) -> bool {
        !self.finished
    }

    /// The value of the label `app`, by which a workload's behaviour is found.
    pub(super) fn app(&self) -> &str {
        self.value["metadata"]["labels"]["app"]
            .as_str()
            .unwrap_or_default()
    }
}

/// Thousandths of a quantity, as far as the plans use them.
fn quantity(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or("0");
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().unwrap_or(0),
        None => text.parse::<i64>().unwrap_or(0) * 1000,
    }
}

pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    )
}

/// The status of a condition.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|c| c["type"] == kind)?;
    condition["status"].as_str()
}

/// A node as the scheduler sees it.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) value: Arc<Value>,
    pub(super) gpus: i64,
    pub(super) millicpu: i64,
}

/// Objects that own pods, and budgets.
pub(super) const KINDS: [&Resource; 6] = [
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
];

/// What has changed since it was last asked for.
#[derive(Default)]
pub(super) struct Dirty {
    /// Objects of [`KINDS`] to look at, by their place in it.
    pub(super) objects: BTreeSet<(usize, Key)>,
    /// Pods whose node should look at them.
    pub(super) pods: BTreeSet<Key>,
    /// Pods may find a place that did not before.
    pub(super) room: bool,
    /// Nodes were added, removed or changed.
    pub(super) nodes: bool,
}

/// The cluster.
#[derive(Default)]
pub(super) struct View {
    pub(super) pods: BTreeMap<Key, Pod>,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) objects: [BTreeMap<Key, Arc<Value>>; KINDS.len()],
    pub(super) pending: BTreeSet<Key>,
    pub(super) by_owner: BTreeMap<String, BTreeSet<Key>>,
    pub(super) by_node: BTreeMap<String, BTreeSet<Key>>,
    /// GPUs and thousandths of a processor in use, by node.
    pub(super) used: BTreeMap<String, (i64, i64)>,
    reserved: BTreeMap<Key, (String, i64, i64)>,
    owners: BTreeMap<String, (usize, Key)>,
    budgets: BTreeMap<String, BTreeSet<Key>>,
    seen: u64,
    pub(super) dirty: Dirty,
}

impl View {
    /// Takes in what has changed. Answers whether anything has.
    pub(super) fn follow(&mut self, store: &Store, revision: u64) -> bool {
        if revision == self.seen {
            return false;
        }
        for change in store.since(NODES, self.seen) {
            self.node(change);
        }
        for (place, resource) in KINDS.into_iter().enumerate() {
            for change in store.since(resource, self.seen) {
                self.object(place, change);
            }
        }
        for change in store.since(PODS, self.seen) {
            self.pod(change);
        }
        self.seen = revision;
        true
    }

    fn node(&mut self, change: Change) {
        self.dirty.room = true;
        self.dirty.nodes = true;
        let name = change.name;
        match change.after {
            None => {
                self.nodes.remove(&name);
                let pods = self.by_node.get(&name);
                self.dirty.pods.extend(pods.into_iter().flatten().cloned());
            }
            Some(value) => {
                let allocatable = &value["status"]["allocatable"];
                let node = Node {
                    gpus: quantity(&allocatable["nvidia.com/gpu"]) / 1000,
                    millicpu: quantity(&allocatable["cpu"]),
                    value,
                };
                self.nodes.insert(name, node);
            }
        }
    }

    fn object(&mut self, place: usize, change: Change) {
        let key = (change.namespace.unwrap_or_default(), change.name);
        let uid = |value: &Value| value["metadata"]["uid"].as_str().map(str::to_owned);
        if let Some(before) = self.objects[place].remove(&key).as_deref().and_then(uid) {
            self.owners.remove(&before);
        }
        // What owns it looks again: a ReplicaSet belongs to a Deployment.
        let either = change.after.as_ref().or(change.before.as_ref());
        if let Some(owner) = either.and_then(|v| uid_of_owner(v))
            && let Some(owner) = self.owners.get(&owner)
        {
            self.dirty.objects.insert(owner.clone());
        }
        let is_budget = place == KINDS.len() - 1;
        match change.after {
            Some(value) => {
                if let Some(uid) = uid(&value) {
                    self.owners.insert(uid, (place, key.clone()));
                }
                if is_budget {
                    let budgets = self.budgets.entry(key.0.clone()).or_default();
                    budgets.insert(key.clone());
                } else {
                    // The budgets count what their owners want.
                    self.budgets_of(&key.0);
                }
                self.objects[place].insert(key.clone(), value);
                self.dirty.objects.insert((place, key));
            }
            None if is_budget => {
                if let Some(budgets) = self.budgets.get_mut(&key.0) {
                    budgets.remove(&key);
                }
            }
            None => self.budgets_of(&key.0),
        }
    }

    fn budgets_of(&mut self, namespace: &str) {
        let place = KINDS.len() - 1;
        for budget in self.budgets.get(namespace).into_iter().flatten() {
            self.dirty.objects.insert((place, budget.clone()));
        }
    }

    fn pod(&mut self, change: Change) {
        let key = (change.namespace.unwrap_or_default(), change.name);
        if let Some((node, gpus, millicpu)) = self.reserved.remove(&key) {
            self.take(&node, -gpus, -millicpu);
        }
        let before = self.pods.remove(&key);
        let after = change.after.as_ref().map(Pod::of);
        for pod in [&before, &after].into_iter().flatten() {
            if let Some(owner) = pod.owner.as_ref().and_then(|uid| self.owners.get(uid)) {
                self.dirty.objects.insert(owner.clone());
            }
        }
        self.budgets_of(&key.0);
        if let Some(pod) = &before {
            self.pending.remove(&key);
            if let Some(pods) = pod.owner.as_ref().and_then(|o| self.by_owner.get_mut(o)) {
                pods.remove(&key);
            }
            if let Some(node) = &pod.node {
                if let Some(pods) = self.by_node.get_mut(node) {
                    pods.remove(&key);
                }
                if pod.holds() {
                    self.take(node, -pod.gpus, -pod.millicpu);
                }
                self.dirty.room |= after.as_ref().is_none_or(|pod| !pod.holds());
            }
        }
        if let Some(pod) = after {
            if let Some(owner) = &pod.owner {
                let pods = self.by_owner.entry(owner.clone()).or_default();
                pods.insert(key.clone());
            }
            match &pod.node {
                Some(node) => {
                    let pods = self.by_node.entry(node.clone()).or_default();
                    pods.insert(key.clone());
                    if pod.holds() {
                        self.take(node, pod.gpus, pod.millicpu);
                    }
                }
                None if pod.is_active() => {
                    self.pending.insert(key.clone());
                    // Only what is new may find a place where nothing has changed.
                    self.dirty.room |= before.is_none();
                }
                None => {}
            }
            self.pods.insert(key.clone(), pod);
        }
        self.dirty.pods.insert(key);
    }

    /// A pod that was bound a moment ago no longer waits. What it holds is counted until the change is seen.
    pub(super) fn reserve(&mut self, key: &Key, node: &str, pod: &Pod) {
        self.pending.remove(key);
        self.take(node, pod.gpus, pod.millicpu);
        let held = (node.to_owned(), pod.gpus, pod.millicpu);
        self.reserved.insert(key.clone(), held);
    }

    fn take(&mut self, node: &str, gpus: i64, millicpu: i64) {
        let used = self.used.entry(node.to_owned()).or_default();
        used.0 += gpus;
        used.1 += millicpu;
    }

    /// The pods of an owner.
    pub(super) fn pods_of(&self, owner: &Value) -> Vec<(Key, Pod)> {
        let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some((key.clone(), self.pods.get(key)?.clone())))
            .collect()
    }

    /// The object of a UID.
    pub(super) fn owner(&self, uid: &str) -> Option<(usize, &Arc<Value>)> {
        let (place, key) = self.owners.get(uid)?;
        Some((*place, self.objects[*place].get(key)?))
    }
}

/// The UID of an object's controller.
pub(super) fn uid_of_owner(value: &Value) -> Option<String> {
    let owners = value["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|o| o["controller"] == true)?;
    owner["uid"].as_str().map(str::to_owned)
}
