//! What happened, in lines for people: what changed at faults, nodes and the Lease, and which pods were evicted.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use crate::sim::api_server::resources::{GPU_FAULTS, LEASES, NODES};
use crate::sim::api_server::{Call, Observer, Write};

/// A line and its time.
pub type Line = (Timestamp, String);

/// Writes down what changes. Clones write into the same book.
#[derive(Clone, Default)]
pub(super) struct Chronicle {
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Chronicle {
    pub fn tell(&self, at: Timestamp, what: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push((at, what));
    }

    pub fn take(&self) -> Vec<Line> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Chronicle {
    fn called(&mut self, call: &Call) {
        if call.subresource.as_deref() == Some("eviction") && !call.dry_run {
            let name = call.name.as_deref().unwrap_or_default();
            self.tell(
                call.at,
                format!("{} evicts {name}: {}", call.actor, call.code),
            );
        }
    }

    fn wrote(&mut self, write: &Write) {
        let of = |object: &Option<Arc<Value>>| told(write, object.as_deref());
        let (before, after) = (of(&write.before), of(&write.after));
        if before != after {
            let after = after.unwrap_or_else(|| "gone".to_owned());
            self.tell(
                write.at,
                format!(
                    "{} {} by {}: {after}",
                    write.resource.plural, write.name, write.actor
                ),
            );
        }
    }
}

/// What is told of an object.
fn told(write: &Write, object: Option<&Value>) -> Option<String> {
    let object = object?;
    if write.resource == GPU_FAULTS {
        let status = &object["status"];
        let step = &status["currentStep"];
        let deleted = object["metadata"]["deletionTimestamp"].is_string();
        Some(format!(
            "{} {} {step}{}",
            status["phase"],
            status["reason"],
            if deleted { ", being deleted" } else { "" }
        ))
    } else if write.resource == NODES {
        let mark = &object["metadata"]["annotations"][crate::api::names::CORDON_ANNOTATION];
        let cordoned = object["spec"]["unschedulable"] == true;
        Some(format!("unschedulable {cordoned}, mark {mark}"))
    } else if write.resource == LEASES {
        Some(format!("held by {}", object["spec"]["holderIdentity"]))
    } else {
        None
    }
}
