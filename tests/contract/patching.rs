//! PATCH: merge, JSON and strategic merge.

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::ground::{CUSTOM, Ground, JSON, MERGE, STRATEGIC, revision, text, version};
use super::objects::{self, condition, conditions};

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
