//! The kubelets: pods start and end on their nodes, each in its own time, and nodes without power say nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::hardware::Hardware;
use super::objects::condition;
use super::plan::{Behaviour, WorldPlan};
use super::view::{Key, Pod, View, is_finished};
use crate::sim::api_server::Store;
use crate::sim::api_server::resources::{NODES, PODS};

/// After so long without a sign of life a node is not Ready (`node-monitor-grace-period` was 40 s for years).
const NOT_READY_AFTER: Duration = Duration::from_secs(40);

/// Pods leave an unreachable node after so long (`tolerationSeconds` that admission gives every pod).
const UNREACHABLE_EVICTION: Duration = Duration::from_secs(300);

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// How the pods of each workload behave, by namespace and the label `app`. It may be changed while they run.
#[derive(Clone, Default)]
pub struct PodTraits {
    of: Arc<Mutex<BTreeMap<Key, Behaviour>>>,
    changed: Arc<tokio::sync::Notify>,
}

impl PodTraits {
    pub(super) fn new(plan: &WorldPlan) -> Self {
        let traits = Self::default();
        for workload in plan.workloads() {
            let key = (workload.namespace.clone(), workload.name.clone());
            traits.lock().insert(key, workload.behaviour.clone());
        }
        traits
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Behaviour>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes how the pods of a workload behave from now on.
    pub fn change(&self, namespace: &str, app: &str, change: impl FnOnce(&mut Behaviour)) {
        let key = (namespace.to_owned(), app.to_owned());
        change(self.lock().entry(key).or_default());
        self.changed.notify_one();
    }

    fn of(&self, namespace: &str, app: &str) -> Behaviour {
        let key = (namespace.to_owned(), app.to_owned());
        self.lock().get(&key).cloned().unwrap_or_default()
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A pod is Ready, or fails to be.
    Start(Key, String),
    /// A pod is gone.
    End(Key, String),
    /// A pod of a Job has done its work.
    Done(Key, String),
    /// A node without power is not Ready.
    NotReady(String),
    /// Its pods are asked to leave.
    Evict(String),
}

/// All kubelets, and the node lifecycle controller.
pub(super) struct Kubelets {
    store: Box<dyn Fn(&str) -> Store + Send>,
    lifecycle: Store,
    hardware: Hardware,
    traits: PodTraits,
    rng: ChaCha8Rng,
    due: BTreeSet<(Instant, Due)>,
    known: BTreeMap<Key, (String, Instant, Due)>,
    dark: BTreeSet<String>,
    boots: BTreeMap<String, u64>,
}

impl Kubelets {
    pub(super) fn new(
        store: impl Fn(&str) -> Store + Send + 'static,
        hardware: Hardware,
        traits: PodTraits,
        rng: ChaCha8Rng,
    ) -> Self {
        let lifecycle = store("node-controller");
        Self {
            store: Box::new(store),
            lifecycle,
            hardware,
            traits,
            rng,
            due: BTreeSet::new(),
            known: BTreeMap::new(),
            dark: BTreeSet::new(),
            boots: BTreeMap::new(),
        }
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Looks at a pod that has changed.
    pub(super) fn look_at(&mut self, view: &View, key: &Key) {
        let Some(pod) = view.pods.get(key) else {
            self.forget(key);
            return;
        };
        let Some(node) = pod.node.as_ref() else {
            return;
        };
        if !view.nodes.contains_key(node) {
            // The garbage collector of pods removes what is left of a node that is gone.
            let gc = (self.store)("pod-garbage-collector");
            let _ = gc.delete(PODS, Some(&key.0), &key.1, Some(0));
            return;
        }
        if self.dark.contains(node) || !self.hardware.has_power(node) {
            return;
        }
        let behaviour = self.traits.of(&key.0, pod.app());
        let wanted = |after: Duration, due: fn(Key, String) -> Due| {
            Some((after, due(key.clone(), pod.uid.clone())))
        };
        let next = if pod.deleting {
            let grace = pod.value["metadata"]["deletionGracePeriodSeconds"].as_u64();
            let grace = Duration::from_secs(grace.unwrap_or(30));
            match behaviour.hangs && !grace.is_zero() {
                true => None,
                false => wanted(behaviour.end.min(grace), Due::End),
            }
        } else if pod.finished {
            None
        } else if pod.value["status"]["phase"] != "Running" {
            let start = self.about(behaviour.start);
            wanted(start, Due::Start)
        } else {
            behaviour.run.and_then(|run| wanted(run, Due::Done))
        };
        let Some((after, due)) = next else {
            self.forget(key);
            return;
        };
        let same = |(uid, _, known): &(String, Instant, Due)| {
            *uid == pod.uid && std::mem::discriminant(known) == std::mem::discriminant(&due)
        };
        if self.known.get(key).is_some_and(same) {
            return;
        }
        self.forget(key);
        let at = Instant::now() + after;
        self.due.insert((at, due.clone()));
        self.known.insert(key.clone(), (pod.uid.clone(), at, due));
    }

    /// Somewhat more or less.
    fn about(&mut self, duration: Duration) -> Duration {
        duration.mul_f64(self.rng.random_range(0.75..1.25))
    }

    fn forget(&mut self, key: &Key) {
        if let Some((_, at, due)) = self.known.remove(key) {
            self.due.remove(&(at, due));
        }
    }

    /// Looks at who has power.
    pub(super) fn power(&mut self, view: &View, now: Timestamp) {
        let nodes: Vec<String> = view.nodes.keys().cloned().collect();
        for node in nodes {
            let boots = self.hardware.boots(&node);
            let rebooted = self
                .boots
                .insert(node.clone(), boots)
                .is_some_and(|b| b != boots);
            let lit = self.hardware.has_power(&node);
            if !lit && self.dark.insert(node.clone()) {
                let pods = view.by_node.get(&node).cloned().unwrap_or_default();
                for pod in pods {
                    self.forget(&pod);
                }
                let at = Instant::now() + NOT_READY_AFTER;
                self.due.insert((at, Due::NotReady(node.clone())));
            } else if lit && (self.dark.remove(&node) || rebooted) {
                self.due.retain(|(_, due)| {
                    *due != Due::NotReady(node.clone()) && *due != Due::Evict(node.clone())
                });
                self.boot(view, &node, now);
            }
        }
    }

    /// A node has booted: its pods start anew.
    fn boot(&mut self, view: &View, node: &str, now: Timestamp) {
        let kubelet = (self.store)(&format!("kubelet/{node}"));
        let now = stamp(now);
        set_ready(&kubelet, node, "True", "KubeletReady", &now);
        let _ = self.lifecycle.change(NODES, None, node, |node| {
            if let Some(taints) = node["spec"]["taints"].as_array_mut() {
                taints.retain(|taint| taint["key"] != UNREACHABLE);
            }
        });
        for key in view.by_node.get(node).cloned().unwrap_or_default() {
            let running = view.pods.get(&key).is_some_and(|pod| !pod.finished);
            if running {
                let _ = kubelet.change_status(PODS, Some(&key.0), &key.1, |pod| {
                    pod["status"]["phase"] = json!("Pending");
                    set_pod_ready(pod, "False", "ContainersNotReady", &now);
                });
            }
            self.look_at(view, &key);
        }
    }

    /// Does what is due.
    pub(super) fn act(&mut self, view: &View, now: Timestamp) {
        while let Some((at, due)) = self.due.first().cloned() {
            if at > Instant::now() {
                break;
            }
            self.due.remove(&(at, due.clone()));
            match due {
                Due::Start(key, uid) => self.pod(view, &key, &uid, |kubelets, store, pod| {
                    kubelets.start(&store, &key, pod, now);
                }),
                Due::End(key, uid) => self.pod(view, &key, &uid, |_, store, _| {
                    let _ = store.delete(PODS, Some(&key.0), &key.1, Some(0));
                }),
                Due::Done(key, uid) => self.pod(view, &key, &uid, |_, store, _| {
                    let _ = store.change_status(PODS, Some(&key.0), &key.1, |pod| {
                        pod["status"]["phase"] = json!("Succeeded");
                        set_pod_ready(pod, "False", "PodCompleted", &stamp(now));
                    });
                }),
                Due::NotReady(node) => {
                    self.unreachable(view, &node, now);
                    let at = Instant::now() + UNREACHABLE_EVICTION;
                    self.due.insert((at, Due::Evict(node)));
                }
                Due::Evict(node) => {
                    let store = (self.store)("taint-eviction-controller");
                    for key in view.by_node.get(&node).into_iter().flatten() {
                        let _ = store.delete(PODS, Some(&key.0), &key.1, None);
                    }
                }
            }
        }
    }

    fn pod(&mut self, view: &View, key: &Key, uid: &str, act: impl FnOnce(&mut Self, Store, &Pod)) {
        self.known.remove(key);
        let Some(pod) = view.pods.get(key).filter(|pod| pod.uid == uid) else {
            return;
        };
        let node = pod.node.as_deref().unwrap_or_default();
        let store = (self.store)(&format!("kubelet/{node}"));
        act(self, store, pod);
    }

    fn start(&mut self, store: &Store, key: &Key, pod: &Pod, now: Timestamp) {
        let behaviour = self.traits.of(&key.0, pod.app());
        let now = stamp(now);
        let image = &pod.value["spec"]["containers"][0]["image"];
        let container = |ready: bool, state: Value| {
            json!([{
                "name": "main", "image": image, "imageID": "", "ready": ready, "restartCount": 0,
                "started": ready, "state": state,
            }])
        };
        let _ = store.change_status(PODS, Some(&key.0), &key.1, |pod| {
            if behaviour.image_fails {
                let waiting = json!({"waiting": {"reason": "ImagePullBackOff"}});
                pod["status"]["phase"] = json!("Pending");
                pod["status"]["containerStatuses"] = container(false, waiting);
                set_pod_ready(pod, "False", "ContainersNotReady", &now);
                return;
            }
            pod["status"]["phase"] = json!("Running");
            if pod["status"]["startTime"].is_null() {
                pod["status"]["startTime"] = json!(now);
            }
            let running = json!({"running": {"startedAt": now}});
            pod["status"]["containerStatuses"] = container(!behaviour.never_ready, running);
            let ready = if behaviour.never_ready {
                "False"
            } else {
                "True"
            };
            set_pod_ready(pod, ready, "", &now);
        });
    }

    fn unreachable(&self, view: &View, node: &str, now: Timestamp) {
        let now = stamp(now);
        set_ready(&self.lifecycle, node, "Unknown", "NodeStatusUnknown", &now);
        let _ = self.lifecycle.change(NODES, None, node, |node| {
            if node["spec"]["taints"].is_null() {
                node["spec"]["taints"] = json!([]);
            }
            if let Some(taints) = node["spec"]["taints"].as_array_mut() {
                taints.retain(|taint| taint["key"] != UNREACHABLE);
                taints.push(json!({"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": now}));
            }
        });
        for key in view.by_node.get(node).into_iter().flatten() {
            let _ = self
                .lifecycle
                .change_status(PODS, Some(&key.0), &key.1, |pod| {
                    if !is_finished(pod) {
                        set_pod_ready(pod, "False", "NodeNotReady", &now);
                    }
                });
        }
    }
}

/// The time as `metav1.Time` writes it.
pub(super) fn stamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn set_ready(store: &Store, node: &str, status: &str, reason: &str, now: &str) {
    let _ = store.change_status(NODES, None, node, |node| {
        put(node, "Ready", status, reason, now);
    });
}

fn set_pod_ready(pod: &mut Value, status: &str, reason: &str, now: &str) {
    for kind in ["Ready", "ContainersReady"] {
        put(pod, kind, status, reason, now);
    }
}

/// Sets a condition; its time is that of the last change of its status.
fn put(object: &mut Value, kind: &str, status: &str, reason: &str, now: &str) {
    if object["status"]["conditions"].as_array().is_none() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else {
        return;
    };
    if let Some(known) = conditions.iter_mut().find(|c| c["type"] == kind) {
        if known["status"] != status {
            *known = condition(kind, status, reason, now);
        }
    } else {
        conditions.push(condition(kind, status, reason, now));
    }
}
