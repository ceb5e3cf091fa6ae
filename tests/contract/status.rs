//! The status subresource.

use serde_json::{Value, json};

use super::ground::{CUSTOM, Ground, MERGE, STRATEGIC, revision, text, version};
use super::objects;

async fn fault(ground: &Ground) -> (String, Value) {
    let path = format!("{CUSTOM}/gpufaults");
    let made = ground
        .post(&path, &objects::fault(ground, "a"))
        .await
        .expect(201);
    (format!("{path}/{}", text(&made["metadata"]["name"])), made)
}

pub async fn a_new_object_has_no_status_of_its_makers(ground: &Ground) {
    let mut wanted = objects::fault(ground, "a");
    wanted["status"] = json!({"phase": "Failed", "message": "made up"});
    let made = ground
        .post(&format!("{CUSTOM}/gpufaults"), &wanted)
        .await
        .expect(201);
    assert_eq!(made["status"], json!(null));
    let pod = ground
        .pod("a", |pod| pod["status"] = json!({"phase": "Failed"}))
        .await;
    assert_eq!(pod["status"]["phase"], "Pending");
}

pub async fn replacing_the_status_leaves_the_rest(ground: &Ground) {
    let (path, made) = fault(ground).await;
    let mut wanted = made.clone();
    wanted["status"] = json!({"phase": "Processing", "timeline": {}});
    wanted["spec"]["nodeName"] = json!("gpu-b");
    wanted["metadata"]["labels"] = json!({"a": "b"});
    let told = ground
        .put(&format!("{path}/status"), &wanted)
        .await
        .expect(200);
    assert_eq!(told["status"]["phase"], "Processing");
    assert_eq!(told["spec"], made["spec"]);
    assert_eq!(told["metadata"]["labels"], json!(null));
    assert_eq!(told["metadata"]["generation"], 1);
    assert!(revision(&told) > revision(&made));
    assert_eq!(ground.get(&path).await.expect(200), told);
    assert_eq!(
        ground.get(&format!("{path}/status")).await.expect(200),
        told
    );
}

pub async fn replacing_an_older_status_conflicts(ground: &Ground) {
    let (path, made) = fault(ground).await;
    let mut wanted = made.clone();
    wanted["status"] = json!({"phase": "Processing", "timeline": {}});
    let path_status = format!("{path}/status");
    let told = ground.put(&path_status, &wanted).await.expect(200);
    wanted["status"]["phase"] = json!("Handled");
    ground
        .put(&path_status, &wanted)
        .await
        .refused(409, "Conflict");
    assert_eq!(ground.get(&path).await.expect(200), told);
}

pub async fn the_product_writes_a_status_once_per_revision(ground: &Ground) {
    use gpu_remediator::api::{GpuFault, GpuFaultStatus, Phase};
    use gpu_remediator::kubernetes::faults;
    let wanted: GpuFault =
        serde_json::from_value(objects::fault(ground, "a")).expect("a good fault");
    let made = faults::create(&ground.client, &wanted)
        .await
        .expect("a fault");
    let again = faults::create(&ground.client, &wanted).await;
    assert!(again.expect_err("it is there").is_conflict());
    let status = GpuFaultStatus {
        phase: Phase::Processing,
        ..Default::default()
    };
    let told = faults::write_status(&ground.client, &made, status.clone())
        .await
        .expect("a status");
    assert_eq!(told.status.as_ref().map(|s| s.phase), Some(Phase::Processing));
    let late = faults::write_status(&ground.client, &made, GpuFaultStatus::default()).await;
    assert!(late.expect_err("it is stale").is_conflict());
    // The status as it is already: accepted, and no new revision.
    let same = faults::write_status(&ground.client, &told, status)
        .await
        .expect("the same status");
    assert_eq!(
        same.metadata.resource_version,
        told.metadata.resource_version
    );
    let held = faults::add_finalizer(&ground.client, &told)
        .await
        .expect("a finalizer");
    assert!(faults::add_finalizer(&ground.client, &told).await.is_err());
    faults::delete(&ground.client, &held)
        .await
        .expect("a deletion that waits");
    let name = made.metadata.name.as_deref().unwrap_or_default();
    let ending = faults::read(&ground.client, name)
        .await
        .expect("a read")
        .expect("the finalizer holds it");
    assert!(ending.metadata.deletion_timestamp.is_some());
    let late = faults::delete(&ground.client, &held).await;
    assert!(late.expect_err("it has changed").is_conflict());
    faults::remove_finalizer(&ground.client, &ending)
        .await
        .expect("an end");
    assert!(faults::read(&ground.client, name).await.expect("a read").is_none());
}

pub async fn the_main_resource_leaves_the_status(ground: &Ground) {
    let (path, made) = fault(ground).await;
    let told = ground
        .patch(
            &format!("{path}/status"),
            MERGE,
            &json!({"status": {"phase": "Processing", "timeline": {}}}),
        )
        .await
        .expect(200);
    let mut wanted = told.clone();
    wanted["status"] = json!({"phase": "Failed"});
    wanted["metadata"]["labels"] = json!({"a": "b"});
    let replaced = ground.put(&path, &wanted).await.expect(200);
    assert_eq!(replaced["status"], told["status"]);
    assert_eq!(replaced["metadata"]["labels"], json!({"a": "b"}));
    let patched = ground
        .patch(&path, MERGE, &json!({"status": {"phase": "Failed"}}))
        .await
        .expect(200);
    assert_eq!(patched["status"], told["status"]);
    assert_eq!(version(&patched), version(&replaced));
    assert_eq!(patched["spec"], made["spec"]);
}

pub async fn a_status_patch_leaves_the_specification(ground: &Ground) {
    let pod = ground.pod("a", |_| ()).await;
    let patch = json!({
        "spec": {"nodeName": "elsewhere"},
        "status": {"phase": "Running"},
    });
    let told = ground
        .patch(&ground.path("pods", "a/status"), STRATEGIC, &patch)
        .await
        .expect(200);
    assert_eq!(told["status"]["phase"], "Running");
    assert_eq!(told["spec"]["nodeName"], pod["spec"]["nodeName"]);
}

pub async fn not_everything_has_a_status(ground: &Ground) {
    ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a/status");
    ground.get(&path).await.refused(404, "NotFound");
    ground
        .patch(&path, MERGE, &json!({}))
        .await
        .refused(404, "NotFound");
}

pub async fn a_status_is_checked_too(ground: &Ground) {
    let (path, _) = fault(ground).await;
    let path = format!("{path}/status");
    ground
        .patch(&path, MERGE, &json!({"status": {"phase": "Lost"}}))
        .await
        .invalid(&[("status.phase", "FieldValueNotSupported")]);
    let condition = json!({
        "type": "Healthy", "status": "True", "reason": "Tested", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    ground
        .patch(
            &path,
            MERGE,
            &json!({"status": {"conditions": [condition, condition]}}),
        )
        .await
        .invalid(&[("status.conditions[1]", "FieldValueDuplicate")]);
}

pub async fn a_status_is_given_its_defaults(ground: &Ground) {
    let (path, _) = fault(ground).await;
    let told = ground
        .patch(
            &format!("{path}/status"),
            MERGE,
            &json!({"status": {"message": "seen", "nonsense": 1}}),
        )
        .await
        .expect(200);
    assert_eq!(told["status"]["message"], "seen");
    assert_eq!(told["status"]["phase"], "Pending");
    assert_eq!(told["status"]["nonsense"], json!(null));
}
