//! What the server says about itself.

use serde_json::{Value, json};

use super::resources::{ALL, GPU_FAULTS, Resource};

/// The answer to a path that names no object, or `None`.
pub(super) fn answer(path: &str) -> Option<Value> {
    let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
    match segments.as_slice() {
        ["version"] => Some(version()),
        ["healthz" | "livez" | "readyz", ..] => Some(json!("ok")),
        ["api"] => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        })),
        ["apis"] => Some(json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": groups().map(group).collect::<Vec<_>>(),
        })),
        ["apis", name] => groups().find(|g| g.0 == *name).map(|found| {
            let mut answer = group(found);
            answer["kind"] = json!("APIGroup");
            answer["apiVersion"] = json!("v1");
            answer
        }),
        ["api", version] => resources("", version),
        ["apis", group, version] => resources(group, version),
        _ => None,
    }
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": "v1.36.0-simulated",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    })
}

/// Each group but the core one, with its version, once.
fn groups() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = ALL.iter().filter(|r| !r.group.is_empty());
    let first = |r: &&&'static Resource| {
        ALL.iter()
            .find(|o| o.group == r.group)
            .is_some_and(|o| o == *r)
    };
    all.filter(first).map(|r| (r.group, r.version))
}

fn group((name, version): (&str, &str)) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn resources(group: &str, version: &str) -> Option<Value> {
    let all: Vec<&&Resource> = ALL
        .iter()
        .filter(|r| r.group == group && r.version == version)
        .collect();
    let first = all.first()?;
    let mut entries = Vec::new();
    for resource in &all {
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if resource.group == GPU_FAULTS.group {
            entry["categories"] = json!([GPU_FAULTS.group.trim_end_matches(".dev")]);
        }
        entries.push(entry);
        if resource.status {
            entries.push(json!({
                "name": format!("{}/status", resource.plural),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": ["get", "patch", "update"],
            }));
        }
        for sub in resource.subresources {
            let (group, version, kind, verbs) = match *sub {
                "eviction" => ("policy", "v1", "Eviction", json!(["create"])),
                "scale" => (
                    "autoscaling",
                    "v1",
                    "Scale",
                    json!(["get", "patch", "update"]),
                ),
                _ => ("", "v1", "Binding", json!(["create"])),
            };
            entries.push(json!({
                "name": format!("{}/{sub}", resource.plural),
                "singularName": "",
                "namespaced": true,
                "group": group,
                "version": version,
                "kind": kind,
                "verbs": verbs,
            }));
        }
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": first.api_version(),
        "resources": entries,
    }))
}
