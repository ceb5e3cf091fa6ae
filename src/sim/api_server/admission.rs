//! What the server sets, keeps and refuses in an object that somebody wrote.

use serde_json::{Map, Value, json};

use super::builtin;
use super::refusal::{Cause, Refusal};
use super::resources::{
    GPU_FAULT_RULES, GPU_FAULTS, LEASES, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS,
    REMEDIATION_POLICIES, Resource,
};
use super::schema::Schema;
use super::schema_check;

/// Fields of `metadata` that are the server's alone.
const SERVER_FIELDS: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
];

/// Sets `apiVersion`, `kind` and the namespace, and refuses an object of another kind or place.
pub(super) fn identify(
    resource: &Resource,
    namespace: Option<&str>,
    object: &mut Value,
) -> Result<(), Refusal> {
    let Some(fields) = object.as_object_mut() else {
        return Err(Refusal::bad_request("the object is not a JSON object"));
    };
    let (version, kind) = (resource.api_version(), resource.kind);
    let given = |name: &str| {
        fields
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (given_version, given_kind) = (given("apiVersion"), given("kind"));
    if !given_version.is_empty() && given_version != version {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({version})"
        )));
    }
    if !given_kind.is_empty() && given_kind != kind {
        return Err(Refusal::bad_request(format!(
            "the kind in the data ({given_kind}) does not match the expected kind ({kind})"
        )));
    }
    fields.insert("apiVersion".to_owned(), json!(version));
    fields.insert("kind".to_owned(), json!(kind));
    let meta = fields
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let Some(meta) = meta.as_object_mut() else {
        return Err(Refusal::bad_request("metadata is not a JSON object"));
    };
    if !resource.namespaced {
        meta.remove("namespace");
        return Ok(());
    }
    let given = meta.get("namespace").and_then(Value::as_str).unwrap_or("");
    let place = match (namespace, given) {
        (Some(place), "") => place.to_owned(),
        (Some(place), given) if given == place => place.to_owned(),
        (Some(_), _) => {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        (None, "") => "default".to_owned(),
        (None, given) => given.to_owned(),
    };
    meta.insert("namespace".to_owned(), json!(place));
    Ok(())
}

/// Refuses an object whose name is not the one in the path.
pub(super) fn same_name(name: &str, object: &Value) -> Result<(), Refusal> {
    let given = object["metadata"]["name"].as_str().unwrap_or_default();
    if given == name {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "the name of the object ({given}) does not match the name on the URL ({name})"
    )))
}

/// An object without a name.
pub(super) fn name_required(resource: &Resource) -> Refusal {
    let message = "Required value: name or generateName is required".to_owned();
    let (field, reason) = ("metadata.name".to_owned(), "FieldValueRequired");
    Refusal::invalid(
        resource,
        "",
        &[Cause {
            field,
            reason,
            message,
        }],
    )
}

/// A replacement without `resourceVersion`, where the server insists on one.
pub(super) fn version_required(resource: &Resource, name: &str) -> Refusal {
    let message = "Invalid value: 0: must be specified for an update".to_owned();
    let (field, reason) = ("metadata.resourceVersion".to_owned(), "FieldValueInvalid");
    Refusal::invalid(
        resource,
        name,
        &[Cause {
            field,
            reason,
            message,
        }],
    )
}

/// May an object be replaced without saying which revision of it?
pub(super) fn allows_unconditional_update(resource: &Resource) -> bool {
    ![
        LEASES,
        POD_DISRUPTION_BUDGETS,
        GPU_FAULTS,
        GPU_FAULT_RULES,
        REMEDIATION_POLICIES,
    ]
    .contains(&resource)
}

/// Puts back what this way of writing does not change.
pub(super) fn carry_over(
    resource: &Resource,
    subresource: Option<&str>,
    old: &Value,
    wanted: &mut Value,
) {
    if subresource == Some("status") {
        let status = wanted["status"].take();
        let meta = wanted["metadata"].take();
        *wanted = old.clone();
        set_or_remove(wanted, "status", &status);
        // The status of these may be written together with labels and annotations; of all others it is the status alone.
        if [PODS, NODES, NAMESPACES].contains(&resource) {
            let owners = old["metadata"]["ownerReferences"].clone();
            wanted["metadata"] = meta;
            set_or_remove(&mut wanted["metadata"], "ownerReferences", &owners);
        }
    } else if resource.status {
        set_or_remove(wanted, "status", &old["status"]);
    }
    for field in SERVER_FIELDS {
        set_or_remove(&mut wanted["metadata"], field, &old["metadata"][field]);
    }
    if let Some(meta) = wanted["metadata"].as_object_mut() {
        meta.remove("managedFields");
        meta.remove("selfLink");
        for empty in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let nothing = |v: &Value| {
                v.is_null()
                    || v.as_object().is_some_and(Map::is_empty)
                    || v.as_array().is_some_and(Vec::is_empty)
            };
            if meta.get(empty).is_some_and(nothing) {
                meta.remove(empty);
            }
        }
    }
}

fn set_or_remove(object: &mut Value, field: &str, value: &Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if value.is_null() {
        fields.remove(field);
    } else {
        fields.insert(field.to_owned(), value.clone());
    }
}

/// Raises `metadata.generation` when more than metadata and status changed.
pub(super) fn count_generation(
    resource: &Resource,
    subresource: Option<&str>,
    old: &Value,
    wanted: &mut Value,
) {
    if resource.generation && subresource != Some("status") && old["spec"] != wanted["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        wanted["metadata"]["generation"] = json!(generation + 1);
    }
}

/// Is the object marked for removal, with nothing that holds it?
pub(super) fn goes_now(object: &Value) -> bool {
    let meta = &object["metadata"];
    !meta["deletionTimestamp"].is_null()
        && meta["finalizers"].as_array().is_none_or(Vec::is_empty)
        && meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

/// Fills in what the server fills in, and drops what it does not know.
pub(super) fn default(resource: &Resource, object: &mut Value) {
    match Schema::of(resource) {
        Some(schema) => {
            schema.prune(object);
            schema.fill(object);
        }
        None => builtin::default(resource, object),
    }
}

/// Fields that the schema does not know: dropped, unless the client wants to be told.
pub(super) fn unknown_fields(resource: &Resource, object: &Value) -> Vec<String> {
    Schema::of(resource).map_or_else(Vec::new, |schema| schema.prune(&mut object.clone()))
}

/// Refuses what is not valid.
pub(super) fn validate(
    resource: &Resource,
    old: Option<&Value>,
    object: &Value,
) -> Result<(), Refusal> {
    let mut causes = Vec::new();
    builtin::check_meta(resource, old, object, &mut causes);
    match Schema::of(resource) {
        Some(schema) => schema_check::check(schema, old, object, "", &mut causes),
        None => builtin::check(resource, old, object, &mut causes),
    }
    if causes.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Refusal::invalid(resource, name, &causes))
}
