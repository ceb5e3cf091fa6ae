//! The scheduler: binds pods to nodes with room, and says so where there is none.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::condition;
use super::view::{Key, Node, Pod, View};
use crate::sim::api_server::Store;
use crate::sim::api_server::resources::PODS;

/// Looks for a place for each pod that has none, the oldest first.
pub(super) fn schedule(view: &mut View, store: &Store, now: Timestamp) {
    let mut waiting: Vec<Key> = view.pending.iter().cloned().collect();
    let created = |view: &View, key: &Key| {
        let pod = view.pods.get(key);
        pod.and_then(|p| {
            p.value["metadata"]["creationTimestamp"]
                .as_str()
                .map(str::to_owned)
        })
    };
    waiting.sort_by_cached_key(|key| (created(view, key), key.clone()));
    for key in waiting {
        let Some(pod) = view.pods.get(&key).cloned() else {
            continue;
        };
        let gates = pod.value["spec"]["schedulingGates"].as_array();
        if !pod.is_active() || gates.is_some_and(|gates| !gates.is_empty()) {
            continue;
        }
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        match place(view, &pod) {
            Some(node) => {
                let bound = store.change(PODS, Some(&key.0), &key.1, |pod| {
                    pod["spec"]["nodeName"] = json!(node);
                });
                if bound.is_err() {
                    continue;
                }
                // What the next pod finds is what this one has left.
                view.reserve(&key, &node, &pod);
                set_scheduled(
                    store,
                    &key,
                    condition("PodScheduled", "True", "Scheduled", &now),
                );
            }
            None if super::view::condition(&pod.value, "PodScheduled") != Some("False") => {
                let mut condition = condition("PodScheduled", "False", "Unschedulable", &now);
                let nodes = view.nodes.len();
                condition["message"] = json!(format!(
                    "0/{nodes} nodes are available: no node has what the pod asks for and takes it."
                ));
                set_scheduled(store, &key, condition);
            }
            None => {}
        }
    }
}

fn set_scheduled(store: &Store, key: &Key, condition: Value) {
    let _ = store.change_status(PODS, Some(&key.0), &key.1, |pod| {
        if pod["status"]["conditions"].as_array().is_none() {
            pod["status"]["conditions"] = json!([]);
        }
        if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
            conditions.retain(|c| c["type"] != "PodScheduled");
            conditions.push(condition);
        }
        if pod["status"]["phase"].is_null() {
            pod["status"]["phase"] = json!("Pending");
        }
    });
}

/// The node with the most room that takes the pod: pods of one workload spread.
fn place(view: &View, pod: &Pod) -> Option<String> {
    let fits = |(name, node): &(&String, &Node)| {
        let (gpus, millicpu) = view.used.get(*name).copied().unwrap_or_default();
        takes(&node.value, &pod.value)
            && node.gpus - gpus >= pod.gpus
            && node.millicpu - millicpu >= pod.millicpu
    };
    let room = |name: &String, node: &Node| {
        let (gpus, millicpu) = view.used.get(name).copied().unwrap_or_default();
        // Pods without a GPU leave the nodes with GPUs alone where they can.
        let spare = if pod.gpus == 0 { -node.gpus } else { 0 };
        (spare, node.gpus - gpus, node.millicpu - millicpu)
    };
    let mut best: Option<(&String, (i64, i64, i64))> = None;
    for (name, node) in view.nodes.iter().filter(fits) {
        let room = room(name, node);
        if best.is_none_or(|(_, known)| room > known) {
            best = Some((name, room));
        }
    }
    best.map(|(name, _)| name.clone())
}

/// The node takes new pods, and this one.
fn takes(node: &Value, pod: &Value) -> bool {
    if node["spec"]["unschedulable"] == true
        || super::view::condition(node, "Ready") != Some("True")
        || !node["metadata"]["deletionTimestamp"].is_null()
    {
        return false;
    }
    let labels = &node["metadata"]["labels"];
    let selector = pod["spec"]["nodeSelector"].as_object();
    let selected = |wanted: &serde_json::Map<String, Value>| {
        wanted.iter().all(|(name, value)| &labels[name] == value)
    };
    if !selector.is_none_or(selected) {
        return false;
    }
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().all(|taint| {
        taint["effect"] == "PreferNoSchedule"
            || pod["spec"]["tolerations"].as_array().is_some_and(|all| {
                all.iter().any(|t| {
                    (t["key"].is_null() || t["key"] == taint["key"])
                        && (t["effect"].is_null() || t["effect"] == taint["effect"])
                        && (t["operator"] == "Exists" || t["value"] == taint["value"])
                })
            })
    })
}
