//! PATCH: merge, JSON, strategic merge and apply.

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::ground::{APPLY, CUSTOM, Ground, JSON, MERGE, STRATEGIC, revision, text, version};
use super::objects;

pub async fn merge_sets_adds_and_removes(ground: &Ground) {
    let path = ground.path("configmaps", "a");
    let object = json!({
        "metadata": {"name": "a", "annotations": {"keep": "1", "drop": "1"}},
        "data": {"keep": "1", "change": "1", "drop": "1"},
    });
    let made = ground
        .post(&ground.path("configmaps", ""), &object)
        .await
        .expect(201);
    let patch = json!({
        "metadata": {"annotations": {"drop": null, "never": null}},
        "data": {"change": "2", "new": "2", "drop": null},
    });
    let patched = ground.patch(&path, MERGE, &patch).await.expect(200);
    assert_eq!(
        patched["data"],
        json!({"keep": "1", "change": "2", "new": "2"})
    );
    assert_eq!(patched["metadata"]["annotations"], json!({"keep": "1"}));
    assert!(revision(&patched) > revision(&made));
}

pub async fn merge_replaces_lists_whole(ground: &Ground) {
    let path = ground.path("configmaps", "a");
    let object =
        json!({"metadata": {"name": "a", "finalizers": ["example.test/a", "example.test/b"]}});
    ground
        .post(&ground.path("configmaps", ""), &object)
        .await
        .expect(201);
    let patch = json!({"metadata": {"finalizers": ["example.test/c"]}});
    let patched = ground.patch(&path, MERGE, &patch).await.expect(200);
    assert_eq!(
        patched["metadata"]["finalizers"],
        json!(["example.test/c"])
    );
}

pub async fn merge_with_an_older_revision_conflicts(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let patch = |value: &str, version: &str| {
        json!({"metadata": {"resourceVersion": version}, "data": {"value": value}})
    };
    let patched = ground
        .patch(&path, MERGE, &patch("2", version(&made)))
        .await
        .expect(200);
    let status = ground
        .patch(&path, MERGE, &patch("3", version(&made)))
        .await
        .refused(409, "Conflict");
    assert!(
        text(&status["message"]).contains("the object has been modified"),
        "{status}"
    );
    let now = ground.get(&path).await.expect(200);
    assert_eq!(now, patched);
}

pub async fn a_fault_is_given_a_finalizer_by_merge(ground: &Ground) {
    let path = format!("{CUSTOM}/gpufaults");
    let made = ground
        .post(&path, &objects::fault(ground, "a"))
        .await
        .expect(201);
    let path = format!("{path}/{}", text(&made["metadata"]["name"]));
    let patch = json!({"metadata": {
        "resourceVersion": version(&made),
        "finalizers": ["gpu-remediator.dev/undo-isolation"],
    }});
    let patched = ground.patch(&path, MERGE, &patch).await.expect(200);
    assert_eq!(
        patched["metadata"]["finalizers"],
        json!(["gpu-remediator.dev/undo-isolation"])
    );
    assert_eq!(patched["metadata"]["generation"], 1);
    ground
        .patch(&path, MERGE, &patch)
        .await
        .refused(409, "Conflict");
    let patch = json!({"metadata": {
        "resourceVersion": version(&patched), "finalizers": [],
    }});
    let patched = ground.patch(&path, MERGE, &patch).await.expect(200);
    assert_eq!(patched["metadata"]["finalizers"], json!(null));
}

pub async fn json_patch_tests_and_changes(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version(&made)},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/example.test~1mark", "value": "yes"},
        {"op": "replace", "path": "/data/value", "value": "2"},
        {"op": "add", "path": "/data/more", "value": "3"},
    ]);
    let patched = ground.patch(&path, JSON, &patch).await.expect(200);
    assert_eq!(
        patched["metadata"]["annotations"],
        json!({"example.test/mark": "yes"})
    );
    assert_eq!(patched["data"], json!({"value": "2", "more": "3"}));
    let patch = json!([{"op": "remove", "path": "/metadata/annotations/example.test~1mark"}]);
    let patched = ground.patch(&path, JSON, &patch).await.expect(200);
    assert_eq!(patched["metadata"]["annotations"], json!(null));
}

pub async fn json_patch_whose_test_fails_changes_nothing(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let patch = json!([
        {"op": "replace", "path": "/data/value", "value": "2"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
    ]);
    ground
        .patch(&path, JSON, &patch)
        .await
        .refused(422, "Invalid");
    assert_eq!(ground.get(&path).await.expect(200), made);
}

pub async fn json_patch_of_what_is_not_there_is_refused(ground: &Ground) {
    ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    for patch in [
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "add", "path": "/metadata/annotations/a", "value": "1"}]),
    ] {
        ground
            .patch(&path, JSON, &patch)
            .await
            .refused(422, "Invalid");
    }
}

pub async fn a_node_is_cordoned_by_the_product(ground: &Ground) {
    use gpu_remediator::api::names::CORDON_ANNOTATION;
    use gpu_remediator::kubernetes::nodes;
    use gpu_remediator::remediation::mark::NodeChange;
    let name = ground.unique("node");
    let made = ground
        .post("/api/v1/nodes", &json!({"metadata": {"name": name}}))
        .await
        .expect(201);
    let uid = text(&made["metadata"]["uid"]);
    let mark: gpu_remediator::remediation::mark::CordonMark =
        serde_json::from_value(json!({"owned": true, "faults": {"f": "u"}}))
            .expect("a mark as it stands in the annotation");
    let cordon = NodeChange {
        unschedulable: Some(true),
        mark: Some(mark),
    };
    let wrote = nodes::change(&ground.client, &name, Some(uid), |_| Some(cordon.clone()))
        .await
        .expect("a cordon");
    assert!(wrote);
    let node = ground
        .get(&format!("/api/v1/nodes/{name}"))
        .await
        .expect(200);
    assert_eq!(node["spec"]["unschedulable"], true);
    assert!(
        text(&node["metadata"]["annotations"][CORDON_ANNOTATION]).contains('f'),
        "{node}"
    );
    let other = nodes::change(&ground.client, &name, Some("another"), |_| {
        Some(cordon.clone())
    });
    assert!(!other.await.expect("another node is left alone"));
    let uncordon = NodeChange {
        unschedulable: Some(false),
        mark: None,
    };
    nodes::change(&ground.client, &name, Some(uid), |_| Some(uncordon.clone()))
        .await
        .expect("an uncordon");
    let node = ground
        .get(&format!("/api/v1/nodes/{name}"))
        .await
        .expect(200);
    // A false boolean is left out.
    assert_eq!(node["spec"]["unschedulable"], json!(null));
    assert_eq!(
        node["metadata"]["annotations"][CORDON_ANNOTATION],
        json!(null)
    );
}

fn condition(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn conditions(object: &Value) -> Vec<(&str, &str)> {
    let all = object["status"]["conditions"].as_array();
    all.into_iter()
        .flatten()
        .map(|c| (text(&c["type"]), text(&c["status"])))
        .collect()
}

pub async fn strategic_merge_keeps_conditions_by_type(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    let path = ground.path("pods", "a/status");
    let first = json!({"status": {"conditions": [
        condition("Ready", "False"), condition("Initialized", "True"),
    ]}});
    ground.patch(&path, STRATEGIC, &first).await.expect(200);
    let second = json!({"status": {"conditions": [condition("Ready", "True")]}});
    let pod = ground.patch(&path, STRATEGIC, &second).await.expect(200);
    let mut found = conditions(&pod);
    found.sort_unstable();
    assert_eq!(found, [("Initialized", "True"), ("Ready", "True")]);
    let third = json!({"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}});
    let pod = ground.patch(&path, STRATEGIC, &third).await.expect(200);
    assert_eq!(conditions(&pod), [("Initialized", "True")]);
}

pub async fn strategic_merge_replaces_taints(ground: &Ground) {
    let name = ground.unique("node");
    let path = format!("/api/v1/nodes/{name}");
    ground
        .post("/api/v1/nodes", &json!({"metadata": {"name": name}}))
        .await
        .expect(201);
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    let keys = |node: &Value| -> Vec<String> {
        let taints = node["spec"]["taints"].as_array();
        let taints = taints.into_iter().flatten();
        taints.map(|t| text(&t["key"]).to_owned()).collect()
    };
    let patch = json!({"spec": {"taints": [taint("example.test/a"), taint("example.test/b")]}});
    let node = ground.patch(&path, STRATEGIC, &patch).await.expect(200);
    assert_eq!(keys(&node), ["example.test/a", "example.test/b"]);
    let patch = json!({"spec": {"taints": [taint("example.test/c")]}});
    let node = ground.patch(&path, STRATEGIC, &patch).await.expect(200);
    assert_eq!(keys(&node), ["example.test/c"]);
}

pub async fn strategic_merge_adds_to_finalizers(ground: &Ground) {
    let path = ground.path("configmaps", "a");
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.test/a"]}});
    ground
        .post(&ground.path("configmaps", ""), &object)
        .await
        .expect(201);
    let patch = json!({"metadata": {"finalizers": ["example.test/b"]}});
    let patched = ground.patch(&path, STRATEGIC, &patch).await.expect(200);
    let mut found: Vec<&str> = patched["metadata"]["finalizers"]
        .as_array()
        .expect("finalizers")
        .iter()
        .map(text)
        .collect();
    found.sort_unstable();
    assert_eq!(found, ["example.test/a", "example.test/b"]);
    let patch = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["example.test/a"],
    }});
    let patched = ground.patch(&path, STRATEGIC, &patch).await.expect(200);
    assert_eq!(
        patched["metadata"]["finalizers"],
        json!(["example.test/b"])
    );
}

pub async fn strategic_merge_with_an_older_revision_conflicts(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    ground
        .patch(&path, STRATEGIC, &json!({"data": {"value": "2"}}))
        .await
        .expect(200);
    let patch = json!({
        "metadata": {"resourceVersion": version(&made)}, "data": {"value": "3"},
    });
    ground
        .patch(&path, STRATEGIC, &patch)
        .await
        .refused(409, "Conflict");
}

pub async fn strategic_merge_is_not_for_custom_resources(ground: &Ground) {
    let path = format!("{CUSTOM}/gpufaults");
    let made = ground
        .post(&path, &objects::fault(ground, "a"))
        .await
        .expect(201);
    let path = format!("{path}/{}", text(&made["metadata"]["name"]));
    ground
        .patch(
            &path,
            STRATEGIC,
            &json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await
        .refused(415, "UnsupportedMediaType");
}

pub async fn an_unknown_kind_of_patch_is_refused(ground: &Ground) {
    ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    ground
        .patch(&path, "application/json", &json!({}))
        .await
        .refused(415, "UnsupportedMediaType");
    let kind = [(CONTENT_TYPE, MERGE)];
    ground
        .ask(Method::PATCH, &path, &kind, b"{\"data\":".to_vec())
        .await
        .refused(400, "BadRequest");
}

pub async fn a_patch_needs_an_object(ground: &Ground) {
    for kind in [MERGE, STRATEGIC] {
        ground
            .patch(&ground.path("configmaps", "none"), kind, &json!({}))
            .await
            .refused(404, "NotFound");
    }
    ground
        .patch(&ground.path("configmaps", "none"), JSON, &json!([]))
        .await
        .refused(404, "NotFound");
}

fn applied(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data,
    })
}

pub async fn apply_creates_and_changes(ground: &Ground) {
    let path = format!(
        "{}?fieldManager=tester&force=true",
        ground.path("configmaps", "a")
    );
    let made = ground
        .patch(&path, APPLY, &applied("a", json!({"x": "1", "y": "1"})))
        .await
        .expect(201);
    assert_eq!(made["data"], json!({"x": "1", "y": "1"}));
    // What others wrote stays, and what is no longer applied goes.
    ground
        .patch(
            &ground.path("configmaps", "a"),
            MERGE,
            &json!({"data": {"other": "1"}}),
        )
        .await
        .expect(200);
    let changed = ground
        .patch(&path, APPLY, &applied("a", json!({"x": "2"})))
        .await
        .expect(200);
    assert_eq!(changed["data"], json!({"x": "2", "other": "1"}));
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    let again = ground
        .patch(&path, APPLY, &applied("a", json!({"x": "2"})))
        .await
        .expect(200);
    assert_eq!(version(&again), version(&changed));
}

pub async fn apply_needs_a_manager(ground: &Ground) {
    let status = ground
        .patch(
            &ground.path("configmaps", "a"),
            APPLY,
            &applied("a", json!({})),
        )
        .await
        .expect(422);
    assert!(text(&status["message"]).contains("fieldManager"), "{status}");
}

pub async fn apply_of_a_status_writes_the_status_alone(ground: &Ground) {
    let path = format!("{CUSTOM}/gpufaultrules");
    let made = ground
        .post(&path, &objects::rule(ground, "a"))
        .await
        .expect(201);
    let name = text(&made["metadata"]["name"]);
    let path = format!("{path}/{name}/status?fieldManager=gpu-remediator-rules&force=true");
    let status = |uid: &Value| {
        let mut ready = condition("Ready", "True");
        ready["reason"] = json!("Evaluated");
        ready["message"] = json!("every rule is evaluated");
        json!({
            "apiVersion": "gpu-remediator.dev/v1alpha1",
            "kind": "GpuFaultRule",
            "metadata": {"name": name, "uid": uid},
            "status": {"observedGeneration": 1, "conditions": [ready]},
        })
    };
    let told = ground
        .patch(&path, APPLY, &status(&made["metadata"]["uid"]))
        .await
        .expect(200);
    assert_eq!(told["status"]["observedGeneration"], 1);
    assert_eq!(told["spec"], made["spec"]);
    // The metadata of a status is not looked at: a UID in it does not tie the write to one incarnation.
    let other = json!("00000000-0000-0000-0000-000000000000");
    let same = ground
        .patch(&path, APPLY, &status(&other))
        .await
        .expect(200);
    assert_eq!(same["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(version(&same), version(&told));
    let none = ground.unique("none");
    let mut gone = status(&made["metadata"]["uid"]);
    gone["metadata"]["name"] = json!(none);
    ground
        .patch(
            &format!("{CUSTOM}/gpufaultrules/{none}/status?fieldManager=m&force=true"),
            APPLY,
            &gone,
        )
        .await
        .refused(404, "NotFound");
}

pub async fn apply_is_tied_to_the_incarnation_and_the_revision(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = format!(
        "{}?fieldManager=tester&force=true",
        ground.path("configmaps", "a")
    );
    let mut wanted = applied("a", json!({"x": "1"}));
    wanted["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    ground
        .patch(&path, APPLY, &wanted)
        .await
        .invalid(&[("metadata.uid", "FieldValueInvalid")]);
    wanted["metadata"]["uid"] = made["metadata"]["uid"].clone();
    wanted["metadata"]["resourceVersion"] = json!("1");
    ground
        .patch(&path, APPLY, &wanted)
        .await
        .refused(409, "Conflict");
    wanted["metadata"]["resourceVersion"] = json!(version(&made));
    let changed = ground.patch(&path, APPLY, &wanted).await.expect(200);
    assert_eq!(changed["data"], json!({"value": "1", "x": "1"}));
}

pub async fn apply_merges_conditions_by_type(ground: &Ground) {
    let path = format!("{CUSTOM}/remediationpolicies");
    let made = ground
        .post(&path, &objects::policy(ground, "a"))
        .await
        .expect(201);
    let name = text(&made["metadata"]["name"]);
    let apply = async |manager: &str, type_: &str, status: &str| {
        let mut one = condition(type_, status);
        one["reason"] = json!("Tested");
        one["message"] = json!("");
        let body = json!({
            "apiVersion": "gpu-remediator.dev/v1alpha1", "kind": "RemediationPolicy",
            "metadata": {"name": name}, "status": {"conditions": [one]},
        });
        let path = format!("{path}/{name}/status?fieldManager={manager}&force=true");
        ground.patch(&path, APPLY, &body).await.expect(200)
    };
    apply("one", "Stopped", "False").await;
    let both = apply("two", "Checked", "True").await;
    let mut found = conditions(&both);
    found.sort_unstable();
    assert_eq!(found, [("Checked", "True"), ("Stopped", "False")]);
    let changed = apply("one", "Stopped", "True").await;
    let mut found = conditions(&changed);
    found.sort_unstable();
    assert_eq!(found, [("Checked", "True"), ("Stopped", "True")]);
}
