//! DELETE: preconditions, finalizers, grace.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ground::{CUSTOM, Ground, MERGE, names, revision, text, version};
use super::objects;

pub async fn what_is_deleted_is_gone(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let status = ground.delete(&path).await.expect(200);
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["status"], "Success");
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]})
    );
    ground.get(&path).await.refused(404, "NotFound");
    ground.delete(&path).await.refused(404, "NotFound");
    let again = ground.config_map("a", "1").await;
    assert_ne!(again["metadata"]["uid"], made["metadata"]["uid"]);
    assert!(revision(&again) > revision(&made) + 1);
}

pub async fn a_uid_is_a_precondition(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let options = |uid: &str| json!({"preconditions": {"uid": uid}});
    let status = ground
        .delete_with(&path, &options("another"))
        .await
        .refused(409, "Conflict");
    assert!(
        text(&status["message"]).contains("the UID in the precondition (another) does not match the UID in record"),
        "{status}"
    );
    ground.get(&path).await.expect(200);
    ground
        .delete_with(&path, &options(text(&made["metadata"]["uid"])))
        .await
        .expect(200);
    ground.get(&path).await.expect(404);
}

pub async fn a_revision_is_a_precondition(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let changed = ground
        .patch(&path, MERGE, &json!({"data": {"value": "2"}}))
        .await
        .expect(200);
    let options = |version: &str| json!({"preconditions": {"resourceVersion": version}});
    ground
        .delete_with(&path, &options(version(&made)))
        .await
        .refused(409, "Conflict");
    ground
        .delete_with(&path, &options(version(&changed)))
        .await
        .expect(200);
    ground.get(&path).await.expect(404);
}

async fn held(ground: &Ground) -> (String, Value) {
    let mut object = objects::fault(ground, "a");
    object["metadata"]["finalizers"] = json!(["example.test/a", "example.test/b"]);
    let path = format!("{CUSTOM}/gpufaults");
    let made = ground.post(&path, &object).await.expect(201);
    (format!("{path}/{}", text(&made["metadata"]["name"])), made)
}

pub async fn a_finalizer_holds_an_object(ground: &Ground) {
    let (path, made) = held(ground).await;
    let ending = ground.delete(&path).await.expect(200);
    assert_eq!(ending["kind"], "GpuFault");
    assert_ne!(ending["metadata"]["deletionTimestamp"], json!(null));
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(revision(&ending) > revision(&made));
    // The specification of the object is as it was; only its end has begun.
    assert_eq!(ending["spec"], made["spec"]);
    assert_eq!(ground.get(&path).await.expect(200), ending);
    // Once more: it is ending already.
    let again = ground.delete(&path).await.expect(200);
    assert_eq!(version(&again), version(&ending));

    let patch = json!({"metadata": {"finalizers": ["example.test/b"]}});
    let fewer = ground.patch(&path, MERGE, &patch).await.expect(200);
    assert_eq!(
        fewer["metadata"]["deletionTimestamp"],
        ending["metadata"]["deletionTimestamp"]
    );
    let last = ground
        .patch(&path, MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    assert_eq!(last["metadata"]["finalizers"], json!(null));
    ground.get(&path).await.refused(404, "NotFound");
}

pub async fn the_end_of_a_fault_is_a_new_generation(ground: &Ground) {
    let (path, made) = held(ground).await;
    assert_eq!(made["metadata"]["generation"], 1);
    let ending = ground.delete(&path).await.expect(200);
    assert_eq!(ending["metadata"]["generation"], 2);
    ground
        .patch(&path, MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
}

pub async fn an_object_that_ends_takes_no_new_finalizer(ground: &Ground) {
    let (path, _) = held(ground).await;
    ground.delete(&path).await.expect(200);
    let patch = json!({"metadata": {"finalizers": [
        "example.test/a", "example.test/b", "example.test/c",
    ]}});
    ground
        .patch(&path, MERGE, &patch)
        .await
        .invalid(&[("metadata.finalizers", "FieldValueForbidden")]);
    // Anything else may still change.
    ground
        .patch(
            &format!("{path}/status"),
            MERGE,
            &json!({"status": {"message": "ending"}}),
        )
        .await
        .expect(200);
    ground
        .patch(&path, MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
}

fn seconds_of_grace(pod: &Value) -> i64 {
    let at: Timestamp = text(&pod["metadata"]["deletionTimestamp"])
        .parse()
        .unwrap_or_else(|_| panic!("no deletionTimestamp: {pod}"));
    let created: Timestamp = text(&pod["metadata"]["creationTimestamp"])
        .parse()
        .expect("a time");
    at.duration_since(created).as_secs()
}

pub async fn a_bound_pod_has_its_grace(ground: &Ground) {
    ground
        .pod("a", |pod| {
            pod["spec"]["terminationGracePeriodSeconds"] = json!(600);
        })
        .await;
    let path = ground.path("pods", "a");
    let ending = ground.delete(&path).await.expect(200);
    assert_eq!(ending["kind"], "Pod");
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 600);
    assert!((600..660).contains(&seconds_of_grace(&ending)), "{ending}");
    let read = ground.get(&path).await.expect(200);
    assert_eq!(read, ending);
}

pub async fn a_grace_can_be_asked_for_and_shortened(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    let path = ground.path("pods", "a");
    let grace = |seconds: i64| json!({"gracePeriodSeconds": seconds});
    let ending = ground.delete_with(&path, &grace(900)).await.expect(200);
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 900);
    let sooner = ground.delete_with(&path, &grace(100)).await.expect(200);
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 100);
    assert!(seconds_of_grace(&sooner) < 160, "{sooner}");
    let later = ground.delete_with(&path, &grace(800)).await.expect(200);
    assert_eq!(later["metadata"]["deletionGracePeriodSeconds"], 100);
    assert_eq!(
        later["metadata"]["deletionTimestamp"],
        sooner["metadata"]["deletionTimestamp"]
    );
    ground.delete_with(&path, &grace(0)).await.expect(200);
    ground.get(&path).await.refused(404, "NotFound");
}

pub async fn a_grace_can_stand_in_the_query(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    let path = ground.path("pods", "a");
    ground
        .delete(&format!("{path}?gracePeriodSeconds=0"))
        .await
        .expect(200);
    ground.get(&path).await.refused(404, "NotFound");
}

pub async fn a_pod_without_a_node_goes_at_once(ground: &Ground) {
    ground
        .pod("a", |pod| pod["spec"]["nodeName"] = json!(null))
        .await;
    let path = ground.path("pods", "a");
    ground.delete(&path).await.expect(200);
    ground.get(&path).await.refused(404, "NotFound");
}

pub async fn a_finished_pod_goes_at_once(ground: &Ground) {
    for phase in ["Succeeded", "Failed"] {
        let name = phase.to_lowercase();
        ground.pod(&name, |_| ()).await;
        ground.pod_status(&name, phase, false).await;
        let path = ground.path("pods", &name);
        ground.delete(&path).await.expect(200);
        ground.get(&path).await.refused(404, "NotFound");
    }
}

pub async fn a_finalizer_holds_a_pod_after_its_grace(ground: &Ground) {
    ground
        .pod("a", |pod| {
            pod["metadata"]["finalizers"] = json!(["example.test/a"]);
        })
        .await;
    let path = ground.path("pods", "a");
    let ending = ground
        .delete_with(&path, &json!({"gracePeriodSeconds": 0}))
        .await
        .expect(200);
    assert_ne!(ending["metadata"]["deletionTimestamp"], json!(null));
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 0);
    ground.get(&path).await.expect(200);
    ground
        .patch(&path, MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    ground.get(&path).await.refused(404, "NotFound");
}

pub async fn a_pod_whose_grace_runs_outlives_its_finalizers(ground: &Ground) {
    ground
        .pod("a", |pod| {
            pod["metadata"]["finalizers"] = json!(["example.test/a"]);
        })
        .await;
    let path = ground.path("pods", "a");
    ground.delete(&path).await.expect(200);
    ground
        .patch(&path, MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    // Its kubelet has not said yet that it has ended.
    let pod = ground.get(&path).await.expect(200);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    ground
        .delete_with(&path, &json!({"gracePeriodSeconds": 0}))
        .await
        .expect(200);
    ground.get(&path).await.refused(404, "NotFound");
}

pub async fn a_collection_is_deleted_by_selector(ground: &Ground) {
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "web")] {
        let object = json!({"metadata": {"name": name, "labels": {"tier": tier}}});
        ground
            .post(&ground.path("configmaps", ""), &object)
            .await
            .expect(201);
    }
    let path = ground.path("configmaps", "");
    ground
        .delete(&format!("{path}?labelSelector=tier%3Dweb"))
        .await
        .expect(200);
    let list = ground
        .get(&format!("{path}?labelSelector=tier"))
        .await
        .expect(200);
    assert_eq!(names(&list), ["b"]);
}

pub async fn a_namespace_takes_its_objects_with_it(ground: &Ground) {
    let name = ground.unique("whole");
    let path = format!("/api/v1/namespaces/{name}");
    ground
        .post("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
        .await
        .expect(201);
    let object = json!({"metadata": {"name": "a"}});
    ground
        .post(&format!("{path}/configmaps"), &object)
        .await
        .expect(201);
    let ending = ground.delete(&path).await.expect(200);
    assert_eq!(ending["status"]["phase"], "Terminating");
    ground.gone(&path).await;
    ground.get(&format!("{path}/configmaps/a")).await.expect(404);
}
