//! The four kinds of patch.

use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::resources::{GPU_FAULTS, Resource};

/// A patch as it was sent.
#[derive(Clone, Debug)]
pub(super) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own, which merges some lists by a key.
    Strategic(Value),
    /// Server-side apply: see [`super::apply`].
    Apply(Value),
}

impl Patch {
    /// Reads a patch by its content type.
    pub(super) fn parse(
        resource: &Resource,
        content_type: &str,
        body: &[u8],
    ) -> Result<Self, Refusal> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let json = || {
            serde_json::from_slice::<Value>(body)
                .map_err(|e| Refusal::bad_request(format!("error decoding patch: {e}")))
        };
        let object = |value: Value| {
            if value.is_object() {
                Ok(value)
            } else {
                Err(Refusal::bad_request(
                    "error decoding patch: it is not a JSON object",
                ))
            }
        };
        let custom = resource.group == GPU_FAULTS.group;
        match kind {
            "application/json-patch+json" => serde_json::from_slice(body)
                .map(Self::Json)
                .map_err(|e| Refusal::bad_request(format!("error decoding patch: {e}"))),
            "application/merge-patch+json" => json().and_then(object).map(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => {
                json().and_then(object).map(Self::Strategic)
            }
            "application/apply-patch+yaml" => {
                let value = serde_json::from_slice(body).or_else(|_| yaml(body))?;
                object(value).map(Self::Apply)
            }
            _ => {
                let mut accepted = vec![
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ];
                if !custom {
                    accepted.push("application/strategic-merge-patch+json");
                }
                accepted.push("application/apply-patch+yaml");
                Err(Refusal::new(
                    415,
                    "UnsupportedMediaType",
                    format!(
                        "the body of the request was in an unknown format - accepted media types include: {}",
                        accepted.join(", ")
                    ),
                ))
            }
        }
    }

    /// The patched object; `Apply` is done elsewhere, as it depends on what was applied before.
    pub(super) fn applied_to(&self, object: &Value) -> Result<Value, Refusal> {
        let mut patched = object.clone();
        match self {
            Self::Json(patch) => {
                // Also where a `test` does not hold: the same answer as the real server's.
                json_patch::patch(&mut patched, patch).map_err(|_| {
                    Refusal::new(
                        422,
                        "Invalid",
                        "the server rejected our request due to an error in our request",
                    )
                })?;
            }
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
            Self::Strategic(patch) | Self::Apply(patch) => {
                strategic(&mut patched, patch, "");
            }
        }
        Ok(patched)
    }
}

fn yaml(body: &[u8]) -> Result<Value, Refusal> {
    let text = std::str::from_utf8(body)
        .map_err(|e| Refusal::bad_request(format!("error decoding YAML: {e}")))?;
    serde_saphyr::from_str(text)
        .map_err(|e| Refusal::bad_request(format!("error decoding YAML: {e}")))
}

/// The key by which a list of the built-in types is merged; `None`: it is replaced.
pub(super) fn merge_key(field: &str) -> Option<&'static str> {
    match field {
        "conditions" | "addresses" => Some("type"),
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "resourceClaims"
        | "schedulingGates" => Some("name"),
        "containerPorts" => Some("containerPort"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "hostAliases" | "podIPs" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        "ownerReferences" => Some("uid"),
        _ => None,
    }
}

/// Lists of plain values that are merged as sets.
fn is_set(field: &str) -> bool {
    matches!(field, "finalizers" | "podCIDRs")
}

fn strategic(target: &mut Value, patch: &Value, field: &str) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    match fields.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = without_directives(patch);
            return;
        }
        Some("delete") => {
            *target = Value::Null;
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(into) = target.as_object_mut() else {
        return;
    };
    if let Some(keep) = fields.get("$retainKeys").and_then(Value::as_array) {
        into.retain(|key, _| keep.iter().any(|k| k == key));
    }
    for (key, value) in fields {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(present), Some(gone)) = (
                into.get_mut(list).and_then(Value::as_array_mut),
                value.as_array(),
            ) {
                present.retain(|v| !gone.contains(v));
            }
            continue;
        }
        if key.starts_with('$') {
            continue;
        }
        match value {
            Value::Null => {
                into.remove(key);
            }
            Value::Object(_) => {
                let entry = into.entry(key.clone()).or_insert(Value::Null);
                strategic(entry, value, key);
                if entry.is_null() {
                    into.remove(key);
                }
            }
            Value::Array(items) => {
                let present = into.entry(key.clone()).or_insert(Value::Null);
                // The field `ports` is a list by `containerPort` in containers, and by `port` in services.
                let by = match (key.as_str(), field) {
                    ("ports", "containers") => Some("containerPort"),
                    ("ports", _) => Some("port"),
                    (key, _) => merge_key(key),
                };
                merge_list(present, items, key, by);
            }
            plain => {
                into.insert(key.clone(), plain.clone());
            }
        }
    }
}

fn merge_list(present: &mut Value, items: &[Value], field: &str, by: Option<&str>) {
    let directive = |v: &Value| v.get("$patch").and_then(Value::as_str).map(str::to_owned);
    let replace = items
        .iter()
        .any(|i| directive(i).as_deref() == Some("replace"));
    if is_set(field) && present.is_array() {
        if let Some(present) = present.as_array_mut() {
            for item in items {
                if !present.contains(item) {
                    present.push(item.clone());
                }
            }
        }
        return;
    }
    let (Some(by), false) = (by, replace) else {
        let kept = items.iter().filter(|i| directive(i).is_none());
        *present = Value::Array(kept.cloned().collect());
        return;
    };
    if !present.is_array() {
        *present = Value::Array(Vec::new());
    }
    let Some(present) = present.as_array_mut() else {
        return;
    };
    for item in items {
        let at = present.iter().position(|p| p.get(by) == item.get(by));
        match (directive(item).as_deref(), at) {
            (Some("delete"), Some(at)) => {
                present.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => strategic(&mut present[at], item, field),
            (_, None) => present.push(without_directives(item)),
        }
    }
}

/// A patch that is put somewhere new: without directives and without what it removes.
fn without_directives(patch: &Value) -> Value {
    match patch {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, value)| !key.starts_with('$') && !value.is_null())
            .map(|(key, value)| (key.clone(), without_directives(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_directives).collect(),
        plain => plain.clone(),
    }
}
