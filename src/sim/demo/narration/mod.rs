//! What a call and a write mean for the story. Pure: each is a function of what the server tells its observers.

mod cluster;
mod fault;

pub(super) use cluster::wants_gpu;
use serde_json::Value;

use super::happening::Happening;
use crate::sim::api_server::resources::{GPU_FAULTS, LEASES, NODES, PODS, REMEDIATION_POLICIES};
use crate::sim::api_server::{Call, Verb, Write};

/// What a request means for the story; mostly nothing.
#[must_use]
pub fn of_call(call: &Call) -> Option<Happening> {
    let is_eviction = call.resource == Some(PODS)
        && call.verb == Verb::Create
        && call.subresource.as_deref() == Some("eviction");
    if !is_eviction || call.dry_run {
        return None;
    }
    let uid = call
        .body
        .as_deref()
        .and_then(|body| text(body, "/deleteOptions/preconditions/uid").map(str::to_owned));
    Some(Happening::EvictionAnswered {
        pod: format!(
            "{}/{}",
            call.namespace.as_deref().unwrap_or_default(),
            call.name.as_deref().unwrap_or_default()
        ),
        uid,
        code: call.code,
        by: call.actor.to_string(),
    })
}

/// What a change of an object means for the story.
#[must_use]
pub fn of_write(write: &Write) -> Vec<Happening> {
    let (before, after) = (write.before.as_deref(), write.after.as_deref());
    let resource = write.resource;
    if resource == GPU_FAULTS {
        fault::told(&write.name, before, after, &write.actor)
    } else if resource == NODES {
        cluster::node(&write.name, before, after, &write.actor)
    } else if resource == PODS {
        let pod = format!(
            "{}/{}",
            write.namespace.as_deref().unwrap_or_default(),
            write.name
        );
        cluster::pod(&pod, before, after)
    } else if resource == REMEDIATION_POLICIES {
        cluster::policy(&write.name, before, after)
    } else if resource == LEASES {
        cluster::lease(before, after)
    } else {
        Vec::new()
    }
}

/// The text at a place in an object.
fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// The status of a condition of an object.
fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| text(condition, "/type") == Some(name))
}

#[cfg(test)]
mod tests;
