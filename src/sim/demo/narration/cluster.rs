//! What happens to nodes, GPU pods, policies and the lease.

use serde_json::Value;

use super::super::happening::Happening;
use super::{condition, text};

/// A node was cordoned or uncordoned, or went and came.
pub(super) fn node(
    name: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    actor: &str,
) -> Vec<Happening> {
    let (Some(before), Some(after)) = (before, after) else {
        return Vec::new();
    };
    let mut told = Vec::new();
    match (is_cordoned(before), is_cordoned(after)) {
        (false, true) => told.push(Happening::NodeCordoned {
            node: name.to_owned(),
            by: actor.to_owned(),
        }),
        (true, false) => told.push(Happening::NodeUncordoned {
            node: name.to_owned(),
            by: actor.to_owned(),
        }),
        _ => {}
    }
    let (was, is) = (is_ready(before), is_ready(after));
    if was != is {
        told.push(Happening::NodeReadiness {
            node: name.to_owned(),
            ready: is,
        });
    }
    told
}

/// A GPU pod found its node, became Ready, or is gone. Other pods are not in the story: nothing happens to them.
pub(super) fn pod(name: &str, before: Option<&Value>, after: Option<&Value>) -> Vec<Happening> {
    let Some(object) = after.or(before).filter(|pod| wants_gpu(pod)) else {
        return Vec::new();
    };
    let pod = name.to_owned();
    let node = text(object, "/spec/nodeName")
        .unwrap_or_default()
        .to_owned();
    let Some(after) = after else {
        return if node.is_empty() {
            Vec::new()
        } else {
            vec![Happening::PodGone { pod, node }]
        };
    };
    let had_node = before.is_some_and(|b| text(b, "/spec/nodeName").is_some());
    let mut told = Vec::new();
    if !had_node && !node.is_empty() {
        told.push(Happening::PodScheduled {
            pod: pod.clone(),
            node: node.clone(),
        });
    }
    if let (false, Some(message)) = (
        before.is_some_and(|b| no_place(b).is_some()),
        no_place(after),
    ) {
        told.push(Happening::PodUnschedulable {
            pod: pod.clone(),
            message: message.to_owned(),
        });
    }
    if !before.is_some_and(is_ready) && is_ready(after) {
        told.push(Happening::PodReady { pod, node });
    }
    told
}

/// A policy was stopped or resumed.
pub(super) fn policy(name: &str, before: Option<&Value>, after: Option<&Value>) -> Vec<Happening> {
    let stopped = |object: Option<&Value>| {
        let guard = object.and_then(|o| text(o, "/status/stoppedBy"));
        guard.map(str::to_owned)
    };
    let policy = name.to_owned();
    match (stopped(before), stopped(after)) {
        (None, Some(guard)) => vec![Happening::PolicyStopped { policy, guard }],
        (Some(_), None) => vec![Happening::PolicyResumed { policy }],
        _ => Vec::new(),
    }
}

/// Another process holds the lease.
pub(super) fn lease(before: Option<&Value>, after: Option<&Value>) -> Vec<Happening> {
    let holder = |object: Option<&Value>| {
        let holder = object.and_then(|o| text(o, "/spec/holderIdentity"));
        holder.filter(|h| !h.is_empty()).map(str::to_owned)
    };
    let (was, is) = (holder(before), holder(after));
    if was == is {
        Vec::new()
    } else {
        vec![Happening::LeaderChanged { holder: is }]
    }
}

fn is_cordoned(node: &Value) -> bool {
    node.pointer("/spec/unschedulable") == Some(&Value::Bool(true))
}

fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").and_then(|c| text(c, "/status")) == Some("True")
}

/// What the scheduler says about a pod that it finds no place for.
fn no_place(pod: &Value) -> Option<&str> {
    let scheduled = condition(pod, "PodScheduled")?;
    let refused = text(scheduled, "/reason") == Some("Unschedulable")
        && text(scheduled, "/status") == Some("False");
    refused.then(|| text(scheduled, "/message").unwrap_or_default())
}

/// A container asks for a GPU.
pub(in crate::sim::demo) fn wants_gpu(pod: &Value) -> bool {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    containers.into_iter().flatten().any(|container| {
        ["/resources/limits", "/resources/requests"]
            .iter()
            .filter_map(|pointer| container.pointer(pointer)?.as_object())
            .any(|resources| resources.contains_key("nvidia.com/gpu"))
    })
}
