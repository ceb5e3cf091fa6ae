//! The columns of each kind: for our custom resources those of their definitions, for the others those that `kubectl`
//! users know.

use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::resources::{
    CORE_EVENTS, DEPLOYMENTS, EVENTS, JOBS, LEASES, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS,
    PODS, REPLICA_SETS, Resource, STATEFUL_SETS,
};
use super::table::age;
use crate::api;

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) priority: i64,
    fill: Fill,
}

#[derive(Clone, Debug)]
enum Fill {
    Path(String),
    Made(fn(&Value) -> Value),
}

impl Column {
    fn made(name: &str, kind: &str, priority: i64, make: fn(&Value) -> Value) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            priority,
            fill: Fill::Made(make),
        }
    }

    fn at(name: &str, kind: &str, priority: i64, path: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            priority,
            fill: Fill::Path(path.to_owned()),
        }
    }

    /// What stands in it for one object.
    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let value = match &self.fill {
            Fill::Made(make) => return make(object),
            Fill::Path(path) => first_at(path, object),
        };
        match (value, self.kind.as_str()) {
            (None | Some(Value::Null), "date") => json!("<unknown>"),
            (None | Some(Value::Null), _) => Value::Null,
            (Some(value), "date") => age(value, now),
            (Some(Value::String(text)), _) => json!(text),
            (Some(value), "string") => json!(value.to_string()),
            (Some(value), _) => value.clone(),
        }
    }
}

/// The columns of a resource.
pub(super) fn columns(resource: &Resource) -> &'static [Column] {
    static ALL: OnceLock<Vec<Vec<Column>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let resources = super::resources::ALL.iter();
        resources.map(|resource| columns_of(resource)).collect()
    });
    all.get(resource.place).map_or(&[], Vec::as_slice)
}

fn columns_of(resource: &Resource) -> Vec<Column> {
    let name = Column::at("Name", "string", 0, ".metadata.name");
    let created = Column::at("Age", "date", 0, ".metadata.creationTimestamp");
    let mut columns = vec![name];
    if let Some((_, definition)) = api::definitions()
        .into_iter()
        .find(|(plural, _)| resource.group == api::names::GROUP && *plural == resource.plural)
    {
        let own = definition.spec.versions.into_iter().next();
        let own = own.and_then(|v| v.additional_printer_columns);
        columns.extend(own.into_iter().flatten().map(|column| {
            let priority = i64::from(column.priority.unwrap_or(0));
            Column::at(&column.name, &column.type_, priority, &column.json_path)
        }));
        return columns;
    }
    let at = |name: &str, path: &str| Column::at(name, "string", 0, path);
    let number = |name: &str, path: &str| Column::at(name, "integer", 0, path);
    if resource == EVENTS || resource == CORE_EVENTS {
        return vec![
            Column::made("Last Seen", "string", 0, |e| {
                let series = &e["series"]["lastObservedTime"];
                let last = if series.is_null() {
                    &e["eventTime"]
                } else {
                    series
                };
                json!(last.as_str().unwrap_or_default())
            }),
            at("Type", ".type"),
            at("Reason", ".reason"),
            Column::made("Object", "string", 0, |e| {
                let text = |field: &str| e["regarding"][field].as_str().unwrap_or_default();
                json!(format!("{}/{}", text("kind").to_lowercase(), text("name")))
            }),
            at("Message", ".note"),
            Column::at("Name", "string", 1, ".metadata.name"),
        ];
    } else if resource == PODS {
        columns.extend([
            Column::made("Ready", "string", 0, ready_containers),
            Column::made("Status", "string", 0, pod_status),
            Column::made("Restarts", "string", 0, restarts),
            created,
            Column::at("IP", "string", 1, ".status.podIP"),
            Column::at("Node", "string", 1, ".spec.nodeName"),
        ]);
        return columns;
    } else if resource == NODES {
        columns.extend([
            Column::made("Status", "string", 0, node_status),
            Column::made("Roles", "string", 0, |_| json!("<none>")),
            created,
            at("Version", ".status.nodeInfo.kubeletVersion"),
        ]);
        return columns;
    } else if resource == DEPLOYMENTS {
        columns.extend([
            Column::made("Ready", "string", 0, ready_replicas),
            number("Up-to-date", ".status.updatedReplicas"),
            number("Available", ".status.availableReplicas"),
        ]);
    } else if resource == STATEFUL_SETS {
        columns.push(Column::made("Ready", "string", 0, ready_replicas));
    } else if resource == REPLICA_SETS {
        columns.extend([
            number("Desired", ".spec.replicas"),
            number("Current", ".status.replicas"),
            number("Ready", ".status.readyReplicas"),
        ]);
    } else if resource == JOBS {
        columns.push(Column::made("Completions", "string", 0, |job| {
            let done = job["status"]["succeeded"].as_i64().unwrap_or(0);
            let wanted = job["spec"]["completions"].as_i64().unwrap_or(1);
            json!(format!("{done}/{wanted}"))
        }));
    } else if resource == POD_DISRUPTION_BUDGETS {
        columns.extend([
            Column::made("Min Available", "string", 0, |b| {
                or_na(&b["spec"]["minAvailable"])
            }),
            Column::made("Max Unavailable", "string", 0, |b| {
                or_na(&b["spec"]["maxUnavailable"])
            }),
            number("Allowed Disruptions", ".status.disruptionsAllowed"),
        ]);
    } else if resource == LEASES {
        columns.push(at("Holder", ".spec.holderIdentity"));
    } else if resource == NAMESPACES {
        columns.push(at("Status", ".status.phase"));
    }
    columns.push(created);
    columns
}

fn or_na(value: &Value) -> Value {
    match value {
        Value::Null => json!("N/A"),
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    }
}

fn ready_replicas(object: &Value) -> Value {
    let ready = object["status"]["readyReplicas"].as_i64().unwrap_or(0);
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    json!(format!("{ready}/{wanted}"))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let all = pod["status"]["containerStatuses"].as_array();
    all.into_iter().flatten()
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == kind && c["status"] == "True")
}

fn ready_containers(pod: &Value) -> Value {
    let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let told = containers(pod).filter(|c| c["ready"] == true).count();
    // Where no container is spoken of, the pod's own condition is what there is.
    let silent = containers(pod).next().is_none() && has_condition(pod, "Ready");
    let ready = if silent { all } else { told };
    json!(format!("{ready}/{all}"))
}

fn restarts(pod: &Value) -> Value {
    let all: i64 = containers(pod)
        .filter_map(|c| c["restartCount"].as_i64())
        .sum();
    json!(all.to_string())
}

fn pod_status(pod: &Value) -> Value {
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return json!("Terminating");
    }
    let mut waiting = containers(pod).filter_map(|c| c["state"]["waiting"]["reason"].as_str());
    if let Some(reason) = waiting.next() {
        return json!(reason);
    }
    let phase = pod["status"]["phase"].as_str().unwrap_or("Unknown");
    let shown = match (pod["status"]["reason"].as_str(), phase) {
        (Some(reason), _) => reason,
        (None, "Succeeded") => "Completed",
        (None, "Failed") => "Error",
        (None, phase) => phase,
    };
    json!(shown)
}

fn node_status(node: &Value) -> Value {
    let ready = if has_condition(node, "Ready") {
        "Ready"
    } else {
        "NotReady"
    };
    if node["spec"]["unschedulable"] == true {
        return json!(format!("{ready},SchedulingDisabled"));
    }
    json!(ready)
}

/// The first value at a simple JSON path: names, `[*]`, and `[?(@.name=="value")]`.
fn first_at<'a>(path: &str, object: &'a Value) -> Option<&'a Value> {
    let path = path.trim_start_matches('.');
    if path.is_empty() {
        return Some(object);
    }
    if let Some(rest) = path.strip_prefix("[*]") {
        let mut items = object.as_array()?.iter();
        return items.find_map(|item| first_at(rest, item));
    }
    if let Some(filtered) = path.strip_prefix("[?(@.") {
        let (condition, rest) = filtered.split_once(")]")?;
        let (field, wanted) = condition.split_once("==")?;
        let wanted = wanted.trim().trim_matches(['"', '\'']);
        let item = object
            .as_array()?
            .iter()
            .find(|item| item[field.trim()] == wanted)?;
        return first_at(rest, item);
    }
    let end = path.find(['.', '[']).unwrap_or(path.len());
    first_at(&path[end..], object.get(&path[..end])?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::sim::api_server::resources::{GPU_FAULT_RULES, GPU_FAULTS};

    #[test]
    fn paths_find_the_first_value() {
        let object = json!({"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
            "spec": {"groups": [{"rules": []}, {"rules": [{"alert": "Xid"}]}]}});
        let found = |path| first_at(path, &object).cloned();
        assert_eq!(
            found(".status.conditions[?(@.type==\"Ready\")].status"),
            Some(json!("True"))
        );
        assert_eq!(found(".spec.groups[*].rules[*].alert"), Some(json!("Xid")));
        assert_eq!(found(".spec.none.here"), None);
    }

    #[test]
    fn our_columns_are_those_of_the_definitions() {
        let names: Vec<&str> = columns(GPU_FAULTS)
            .iter()
            .map(|c| c.name.as_str())
            .collect();
        assert_eq!(names[..4], ["Name", "Node", "GPU", "Xid"]);
        assert!(columns(GPU_FAULT_RULES).iter().any(|c| c.name == "Ready"));
    }
}
