//! The built-in kinds, as far as the simulated cluster depends on them: their defaults, and what is refused. Their
//! schemas are not checked as a whole: a field of a wrong type in a Deployment is stored as it is.

use serde_json::{Map, Value, json};

use super::refusal::Cause;
use super::resources::{
    CORE_EVENTS, DAEMON_SETS, DEPLOYMENTS, EVENTS, JOBS, NAMESPACES, NODES, PODS, REPLICA_SETS,
    Resource, STATEFUL_SETS,
};

/// Fields of a pod's spec that may change.
const CHANGEABLE: [&str; 5] = [
    "activeDeadlineSeconds",
    "tolerations",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "nodeSelector",
];

/// Fills in defaults.
pub(super) fn default(resource: &Resource, object: &mut Value) {
    if resource == PODS {
        defaults(
            object,
            "spec",
            &[
                ("restartPolicy", json!("Always")),
                ("terminationGracePeriodSeconds", json!(30)),
                ("schedulerName", json!("default-scheduler")),
                ("dnsPolicy", json!("ClusterFirst")),
                ("serviceAccountName", json!("default")),
            ],
        );
        defaults(object, "status", &[("phase", json!("Pending"))]);
    } else if resource == NAMESPACES {
        defaults(object, "status", &[("phase", json!("Active"))]);
    } else if resource == DEPLOYMENTS {
        defaults(
            object,
            "spec",
            &[
                ("replicas", json!(1)),
                ("progressDeadlineSeconds", json!(600)),
                ("revisionHistoryLimit", json!(10)),
            ],
        );
    } else if resource == REPLICA_SETS || resource == STATEFUL_SETS {
        defaults(object, "spec", &[("replicas", json!(1))]);
    } else if resource == JOBS {
        let completions = object["spec"]["parallelism"].is_null();
        defaults(
            object,
            "spec",
            &[
                ("parallelism", json!(1)),
                ("backoffLimit", json!(6)),
                ("completionMode", json!("NonIndexed")),
            ],
        );
        if completions {
            defaults(object, "spec", &[("completions", json!(1))]);
        }
    } else if resource == NODES
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        // The real server does not write a false flag or an empty list.
        spec.retain(|name, value| match name.as_str() {
            "unschedulable" => *value == true,
            "taints" => value.as_array().is_some_and(|t| !t.is_empty()),
            _ => true,
        });
    }
}

fn defaults(object: &mut Value, part: &str, values: &[(&str, Value)]) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let part = object
        .entry(part)
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(fields) = part.as_object_mut() {
        for (name, value) in values {
            if fields.get(*name).is_none_or(Value::is_null) {
                fields.insert((*name).to_owned(), value.clone());
            }
        }
    }
}

/// Checks what all kinds have: name, labels, annotations, finalizers.
pub(super) fn check_meta(
    resource: &Resource,
    old: Option<&Value>,
    object: &Value,
    causes: &mut Vec<Cause>,
) {
    let meta = &object["metadata"];
    let old = old.map(|o| &o["metadata"]);
    let mut invalid = |field: &str, message: String| {
        causes.push(Cause {
            field: field.to_owned(),
            reason: "FieldValueInvalid",
            message,
        });
    };
    let name = meta["name"].as_str().unwrap_or_default();
    if old.is_none() && !is_subdomain(name) {
        invalid(
            "metadata.name",
            format!(
                "Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
            ),
        );
    }
    let changed = |field: &str| old.is_none_or(|o| o[field] != meta[field]);
    if changed("labels") {
        for (key, value) in meta["labels"].as_object().into_iter().flatten() {
            if !is_qualified(key) {
                invalid(
                    "metadata.labels",
                    format!(
                        "Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
                    ),
                );
            }
            let text = value.as_str();
            if !text.is_some_and(|t| t.is_empty() || is_label_word(t)) {
                invalid(
                    "metadata.labels",
                    format!(
                        "Invalid value: {value}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
                    ),
                );
            }
        }
    }
    if changed("annotations") {
        let all = meta["annotations"].as_object();
        let size: usize = all
            .into_iter()
            .flatten()
            .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
            .sum();
        if size > 256 * 1024 {
            invalid(
                "metadata.annotations",
                "Too long: may not be more than 262144 bytes".to_owned(),
            );
        }
        for (key, value) in all.into_iter().flatten() {
            if !is_qualified(&key.to_lowercase()) || !value.is_string() {
                invalid(
                    "metadata.annotations",
                    format!("Invalid value: {key:?}: is not an annotation"),
                );
            }
        }
    }
    if let Some(old) = old
        && !old["deletionTimestamp"].is_null()
    {
        let had = old["finalizers"].as_array().cloned().unwrap_or_default();
        let added: Vec<&Value> = meta["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|f| !had.contains(f))
            .collect();
        if !added.is_empty() {
            causes.push(Cause {
                field: "metadata.finalizers".to_owned(),
                reason: "FieldValueForbidden",
                message: format!(
                    "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
                ),
            });
        }
    }
    let _ = resource;
}

/// Checks what the built-in kinds have of their own.
pub(super) fn check(
    resource: &Resource,
    old: Option<&Value>,
    object: &Value,
    causes: &mut Vec<Cause>,
) {
    let mut add = |field: &str, reason: &'static str, message: String| {
        causes.push(Cause {
            field: field.to_owned(),
            reason,
            message,
        });
    };
    if resource == PODS {
        let containers = object["spec"]["containers"].as_array();
        if containers.is_none_or(Vec::is_empty) {
            add(
                "spec.containers",
                "FieldValueRequired",
                "Required value".to_owned(),
            );
        }
        if let Some(old) = old
            && fixed_part(&old["spec"]) != fixed_part(&object["spec"])
            && !binds(old, object)
        {
            add(
                "spec",
                "FieldValueForbidden",
                "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)".to_owned(),
            );
        }
    } else if resource == NODES {
        let taints = object["spec"]["taints"].as_array();
        let taints: Vec<&Value> = taints.into_iter().flatten().collect();
        for (at, taint) in taints.iter().enumerate() {
            let same = |o: &&&Value| o["key"] == taint["key"] && o["effect"] == taint["effect"];
            if taints[..at].iter().any(|o| same(&o)) {
                add(
                    &format!("metadata.taints[{at}]"),
                    "FieldValueDuplicate",
                    format!(
                        "Duplicate value: {taint}: taints must be unique by key and effect pair"
                    ),
                );
            }
        }
    } else if [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS].contains(&resource) {
        let selector = &object["spec"]["selector"];
        if selector.is_null() {
            add(
                "spec.selector",
                "FieldValueRequired",
                "Required value".to_owned(),
            );
        } else if old.is_some_and(|o| o["spec"]["selector"] != *selector) {
            add(
                "spec.selector",
                "FieldValueInvalid",
                format!("Invalid value: {selector}: field is immutable"),
            );
        }
    } else if (resource == EVENTS || resource == CORE_EVENTS) && old.is_none() {
        let length = |field: &str| object[field].as_str().map_or(0, str::len);
        // Events of the core group that name no time of their own are not held to this.
        if !object["eventTime"].is_null() {
            for (field, most) in [("reason", 128), ("action", 128), ("note", 1024)] {
                if length(field) > most {
                    add(
                        field,
                        "FieldValueInvalid",
                        format!("Invalid value: \"\": can have at most {most} characters"),
                    );
                }
            }
            for field in [
                "reportingController",
                "reportingInstance",
                "action",
                "reason",
            ] {
                if length(field) == 0 {
                    add(field, "FieldValueRequired", "Required value".to_owned());
                }
            }
        }
        let place = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let about = object["regarding"]["namespace"]
            .as_str()
            .unwrap_or_default();
        if about != place && !(about.is_empty() && ["default", "kube-system"].contains(&place)) {
            add(
                "involvedObject.namespace",
                "FieldValueInvalid",
                format!("Invalid value: {about:?}: does not match event.namespace"),
            );
        }
    }
}

/// A pod without a node is given one.
fn binds(old: &Value, new: &Value) -> bool {
    let mut bound = fixed_part(&old["spec"]);
    bound["nodeName"] = new["spec"]["nodeName"].clone();
    let unbound = old["spec"]["nodeName"].as_str().unwrap_or_default();
    unbound.is_empty() && bound == fixed_part(&new["spec"])
}

fn fixed_part(spec: &Value) -> Value {
    let mut fixed = spec.clone();
    if let Some(fields) = fixed.as_object_mut() {
        fields.retain(|name, _| !CHANGEABLE.contains(&name.as_str()));
        for list in ["containers", "initContainers"] {
            let containers = fields.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if let Some(container) = container.as_object_mut() {
                    container.remove("image");
                }
            }
        }
    }
    fixed
}

fn is_subdomain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=253).contains(&name.len())
        && name.split('.').all(|part| {
            part.starts_with(plain)
                && part.ends_with(plain)
                && part.chars().all(|c| plain(c) || c == '-')
        })
}

fn is_label_word(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&text.len())
        && text.starts_with(plain)
        && text.ends_with(plain)
        && text.chars().all(|c| plain(c) || "-_.".contains(c))
}

fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_word(name),
        None => is_label_word(key),
    }
}
