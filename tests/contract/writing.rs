//! POST and PUT: what the server sets, keeps and refuses.

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde_json::json;

use super::ground::{CUSTOM, Ground, MERGE, revision, text, version};
use super::objects;

pub async fn create_sets_what_is_the_servers(ground: &Ground) {
    let object = json!({
        "metadata": {
            "name": "a", "uid": "mine", "generation": 7,
            "creationTimestamp": "2001-01-01T00:00:00Z",
        },
        "data": {"a": "1"},
    });
    let made = ground
        .post(&ground.path("configmaps", ""), &object)
        .await
        .expect(201);
    let meta = &made["metadata"];
    assert_eq!(meta["namespace"], ground.namespace.as_str());
    assert_eq!(text(&meta["uid"]).len(), 36, "{made}");
    assert_ne!(meta["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert!(text(&meta["creationTimestamp"]).ends_with('Z'), "{made}");
    assert_eq!(made["data"], json!({"a": "1"}));
    let other = ground.config_map("b", "1").await;
    assert_ne!(other["metadata"]["uid"], meta["uid"]);
    assert!(revision(&other) > revision(&made));
}

pub async fn a_name_is_given_once(ground: &Ground) {
    ground.config_map("a", "1").await;
    let object = json!({"metadata": {"name": "a"}, "data": {"value": "2"}});
    let status = ground
        .post(&ground.path("configmaps", ""), &object)
        .await
        .refused(409, "AlreadyExists");
    assert_eq!(status["message"], "configmaps \"a\" already exists");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    let fault = objects::fault(ground, "a");
    let path = format!("{CUSTOM}/gpufaults");
    ground.post(&path, &fault).await.expect(201);
    let status = ground
        .post(&path, &fault)
        .await
        .refused(409, "AlreadyExists");
    assert_eq!(status["details"]["group"], "gpu-remediator.dev");
}

pub async fn a_name_can_be_made_up_by_the_server(ground: &Ground) {
    let object = json!({"metadata": {"generateName": "probe-"}});
    let path = ground.path("configmaps", "");
    let first = ground.post(&path, &object).await.expect(201);
    let second = ground.post(&path, &object).await.expect(201);
    let name = text(&first["metadata"]["name"]);
    assert!(name.starts_with("probe-") && name.len() == 11, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!(first["metadata"]["generateName"], "probe-");
}

pub async fn an_object_needs_a_name(ground: &Ground) {
    ground
        .post(&ground.path("configmaps", ""), &json!({"metadata": {}}))
        .await
        .invalid(&[("metadata.name", "FieldValueRequired")]);
}

pub async fn a_name_is_a_dns_name(ground: &Ground) {
    let object = json!({"metadata": {"name": "Not_A_Name"}});
    let status = ground
        .post(&ground.path("configmaps", ""), &object)
        .await
        .invalid(&[("metadata.name", "FieldValueInvalid")]);
    assert_eq!(status["details"]["name"], "Not_A_Name");
    assert_eq!(status["details"]["kind"], "ConfigMap");
    assert!(
        text(&status["message"]).starts_with("ConfigMap \"Not_A_Name\" is invalid: metadata.name: "),
        "{status}"
    );
}

pub async fn what_is_created_has_no_revision_yet(ground: &Ground) {
    let object = json!({"metadata": {"name": "a", "resourceVersion": "5"}});
    let status = ground
        .post(&ground.path("configmaps", ""), &object)
        .await
        .expect(500);
    assert_eq!(
        status["message"],
        "resourceVersion should not be set on objects to be created"
    );
}

pub async fn an_object_goes_where_its_path_says(ground: &Ground) {
    let path = ground.path("configmaps", "");
    let elsewhere = json!({"metadata": {"name": "a", "namespace": "elsewhere"}});
    ground
        .post(&path, &elsewhere)
        .await
        .refused(400, "BadRequest");
    let other_kind =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    ground
        .post(&path, &other_kind)
        .await
        .refused(400, "BadRequest");
    ground.get(&ground.path("configmaps", "a")).await.expect(404);
}

pub async fn a_namespace_must_be_there(ground: &Ground) {
    let path = "/api/v1/namespaces/no-such-place/configmaps";
    let status = ground
        .post(path, &json!({"metadata": {"name": "a"}}))
        .await
        .refused(404, "NotFound");
    assert_eq!(status["message"], "namespaces \"no-such-place\" not found");
    assert_eq!(status["details"]["kind"], "namespaces");
}

pub async fn a_namespace_that_ends_takes_nothing_in(ground: &Ground) {
    let name = ground.unique("ending");
    let object =
        json!({"metadata": {"name": name, "finalizers": ["example.test/hold"]}});
    ground
        .post("/api/v1/namespaces", &object)
        .await
        .expect(201);
    let path = format!("/api/v1/namespaces/{name}");
    let ending = ground.delete(&path).await.expect(200);
    assert_eq!(ending["status"]["phase"], "Terminating");
    let status = ground
        .eventually("the namespace to refuse", async || {
            let made = json!({"metadata": {"generateName": "a-"}});
            let answer = ground.post(&format!("{path}/configmaps"), &made).await;
            (answer.code != 201).then_some(answer)
        })
        .await
        .refused(403, "Forbidden");
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    ground
        .patch(&path, MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
}


pub async fn a_body_must_be_json_of_a_known_kind(ground: &Ground) {
    let path = ground.path("configmaps", "");
    let json = [(CONTENT_TYPE, "application/json")];
    ground
        .ask(Method::POST, &path, &json, b"{\"metadata\": ".to_vec())
        .await
        .refused(400, "BadRequest");
    ground
        .ask(
            Method::POST,
            &path,
            &[(CONTENT_TYPE, "text/plain")],
            b"a".to_vec(),
        )
        .await
        .refused(415, "UnsupportedMediaType");
}

pub async fn a_verb_that_is_not_there_is_refused(ground: &Ground) {
    ground.config_map("a", "1").await;
    ground
        .post(&ground.path("configmaps", "a"), &json!({}))
        .await
        .refused(405, "MethodNotAllowed");
    ground
        .put(&ground.path("configmaps", ""), &json!({}))
        .await
        .refused(405, "MethodNotAllowed");
}

pub async fn replace_takes_the_revision_that_was_read(ground: &Ground) {
    let mut object = ground.config_map("a", "1").await;
    object["data"]["value"] = json!("2");
    let path = ground.path("configmaps", "a");
    let replaced = ground.put(&path, &object).await.expect(200);
    assert!(revision(&replaced) > revision(&object));
    assert_eq!(replaced["metadata"]["uid"], object["metadata"]["uid"]);
    assert_eq!(replaced["data"]["value"], "2");
    assert_eq!(ground.get(&path).await.expect(200), replaced);
}

pub async fn replace_of_an_older_revision_conflicts(ground: &Ground) {
    let old = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let mut newer = old.clone();
    newer["data"]["value"] = json!("2");
    ground.put(&path, &newer).await.expect(200);
    let mut late = old.clone();
    late["data"]["value"] = json!("3");
    let status = ground.put(&path, &late).await.refused(409, "Conflict");
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    let now = ground.get(&path).await.expect(200);
    assert_eq!(now["data"]["value"], "2");
}

pub async fn replace_without_a_revision_wins_where_that_is_allowed(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let object = json!({"metadata": {"name": "a"}, "data": {"value": "2"}});
    let replaced = ground
        .put(&ground.path("configmaps", "a"), &object)
        .await
        .expect(200);
    assert_eq!(replaced["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(
        replaced["metadata"]["creationTimestamp"],
        made["metadata"]["creationTimestamp"]
    );
    assert_eq!(replaced["data"]["value"], "2");

    let fault = objects::fault(ground, "a");
    ground
        .post(&format!("{CUSTOM}/gpufaults"), &fault)
        .await
        .expect(201);
    let path = format!("{CUSTOM}/gpufaults/{}", text(&fault["metadata"]["name"]));
    ground
        .put(&path, &fault)
        .await
        .invalid(&[("metadata.resourceVersion", "FieldValueInvalid")]);
}

pub async fn replace_of_another_incarnation_conflicts(ground: &Ground) {
    let first = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    ground.delete(&path).await.expect(200);
    let second = ground.config_map("a", "2").await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    let mut wanted = first.clone();
    wanted["metadata"]["resourceVersion"] = json!(version(&second));
    let status = ground.put(&path, &wanted).await.refused(409, "Conflict");
    assert!(
        text(&status["message"]).contains("Precondition failed: UID in precondition: "),
        "{status}"
    );
    ground.put(&path, &first).await.refused(409, "Conflict");
}

pub async fn replace_makes_nothing_new(ground: &Ground) {
    let object = json!({"metadata": {"name": "a"}});
    ground
        .put(&ground.path("configmaps", "a"), &object)
        .await
        .refused(404, "NotFound");
}

pub async fn replace_goes_by_the_name_in_the_path(ground: &Ground) {
    let mut object = ground.config_map("a", "1").await;
    object["metadata"]["name"] = json!("b");
    ground
        .put(&ground.path("configmaps", "a"), &object)
        .await
        .refused(400, "BadRequest");
}

pub async fn a_write_that_changes_nothing_is_no_write(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let replaced = ground.put(&path, &made).await.expect(200);
    assert_eq!(version(&replaced), version(&made));
    let patched = ground
        .patch(&path, MERGE, &json!({"data": {"value": "1"}}))
        .await
        .expect(200);
    assert_eq!(version(&patched), version(&made));
}

pub async fn generation_counts_changes_of_the_specification(ground: &Ground) {
    let path = format!("{CUSTOM}/remediationpolicies");
    let made = ground
        .post(&path, &objects::policy(ground, "a"))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{path}/{}", text(&made["metadata"]["name"]));
    let labelled = ground
        .patch(&path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .expect(200);
    assert_eq!(labelled["metadata"]["generation"], 1);
    assert!(revision(&labelled) > revision(&made));
    let status = json!({"status": {"stoppedBy": "errors"}});
    let told = ground
        .patch(&format!("{path}/status"), MERGE, &status)
        .await
        .expect(200);
    assert_eq!(told["metadata"]["generation"], 1);
    let changed = ground
        .patch(&path, MERGE, &json!({"spec": {"mode": "Observe"}}))
        .await
        .expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(changed["status"]["stoppedBy"], "errors");
}

pub async fn a_deployment_has_generations_and_a_scale(ground: &Ground) {
    let object = json!({
        "metadata": {"name": "llm"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "llm"}},
            "template": {
                "metadata": {"labels": {"app": "llm"}},
                "spec": {"containers": [{"name": "main", "image": "example.test/a:1"}]},
            },
        },
    });
    let made = ground
        .post(&ground.path("deployments", ""), &object)
        .await
        .expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let path = ground.path("deployments", "llm");
    let scale = ground.get(&format!("{path}/scale")).await.expect(200);
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["spec"]["replicas"], 2);
    let scaled = ground
        .patch(
            &format!("{path}/scale"),
            MERGE,
            &json!({"spec": {"replicas": 3}}),
        )
        .await
        .expect(200);
    assert_eq!(scaled["spec"]["replicas"], 3);
    let after = ground.get(&path).await.expect(200);
    assert_eq!(after["spec"]["replicas"], 3);
    assert_eq!(after["metadata"]["generation"], 2);
}

pub async fn a_pod_is_given_its_defaults(ground: &Ground) {
    let pod = ground.pod("a", |_| ()).await;
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(pod["spec"]["restartPolicy"], "Always");
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["metadata"]["deletionTimestamp"], json!(null));
}

pub async fn a_pod_is_bound_once(ground: &Ground) {
    ground
        .pod("a", |pod| pod["spec"]["nodeName"] = json!(null))
        .await;
    let bind = |node: &str| {
        json!({
            "metadata": {"name": "a"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        })
    };
    let path = ground.path("pods", "a/binding");
    let first = ground.unique("first");
    let status = ground.post(&path, &bind(&first)).await.expect(201);
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["status"], "Success");
    let pod = ground.get(&ground.path("pods", "a")).await.expect(200);
    assert_eq!(pod["spec"]["nodeName"], first.as_str());
    let conditions = pod["status"]["conditions"].as_array().expect("conditions");
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["status"] == "True"),
        "{pod}"
    );
    ground
        .post(&path, &bind(&ground.unique("second")))
        .await
        .refused(409, "Conflict");
}

pub async fn nobody_ends_an_object_by_writing_a_time(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let mut object = made.clone();
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let status = ground.put(&path, &object).await.refused(422, "Invalid");
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "metadata.deletionTimestamp"
    );
    assert_eq!(ground.get(&path).await.expect(200), made);
}
