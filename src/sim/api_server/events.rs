//! Events are one kind of object in two groups: they are stored as `events.k8s.io/v1` and shown as asked for.

use hyper::body::Bytes;
use serde_json::{Map, Value, json};

use super::resources::{CORE_EVENTS, EVENTS, Resource};
use super::state::{Entry, text_of};

/// Names of the same field: in `events.k8s.io/v1` and in `v1`.
const FIELDS: [(&str, &str); 8] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("reportingInstance", "reportingInstance"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// The JSON text of an object as that resource shows it.
pub(super) fn shown(resource: &Resource, entry: &Entry) -> Bytes {
    if resource == CORE_EVENTS {
        text_of(&as_core(&entry.value))
    } else {
        entry.text()
    }
}

/// Appends it.
pub(super) fn append(resource: &Resource, entry: &Entry, out: &mut Vec<u8>) {
    if resource == CORE_EVENTS {
        out.extend_from_slice(&text_of(&as_core(&entry.value)));
    } else {
        entry.append_to(out);
    }
}

/// As `v1` shows it.
pub(super) fn as_core(event: &Value) -> Value {
    renamed(event, CORE_EVENTS, |name| {
        FIELDS.iter().find(|f| f.0 == name).map(|f| f.1)
    })
}

/// As it is stored.
pub(super) fn as_stored(event: &Value) -> Value {
    renamed(event, EVENTS, |name| {
        FIELDS.iter().find(|f| f.1 == name).map(|f| f.0)
    })
}

fn renamed(
    event: &Value,
    resource: &Resource,
    name: impl Fn(&str) -> Option<&'static str>,
) -> Value {
    let mut fields: Map<String, Value> = event
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            let key = name(key).map_or_else(|| key.clone(), str::to_owned);
            (key, value.clone())
        })
        .collect();
    fields.insert("apiVersion".to_owned(), json!(resource.api_version()));
    Value::Object(fields)
}
