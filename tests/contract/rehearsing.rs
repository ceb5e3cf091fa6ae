//! `dryRun=All`: answered like the real thing, and nothing is written.

use serde_json::json;

use super::ground::{CUSTOM, Ground, MERGE, text, version};
use super::objects;

pub async fn a_rehearsed_create_makes_nothing(ground: &Ground) {
    let object = json!({"metadata": {"name": "a"}, "data": {"value": "1"}});
    let path = ground.path("configmaps", "");
    let made = ground
        .post(&format!("{path}?dryRun=All"), &object)
        .await
        .expect(201);
    assert_eq!(made["data"]["value"], "1");
    assert_ne!(made["metadata"]["uid"], json!(null));
    ground.get(&ground.path("configmaps", "a")).await.expect(404);
    ground.post(&path, &object).await.expect(201);
    ground
        .post(&format!("{path}?dryRun=All"), &object)
        .await
        .refused(409, "AlreadyExists");
}

pub async fn a_rehearsed_change_changes_nothing(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let path = ground.path("configmaps", "a");
    let patched = ground
        .patch(
            &format!("{path}?dryRun=All"),
            MERGE,
            &json!({"data": {"value": "2"}}),
        )
        .await
        .expect(200);
    assert_eq!(patched["data"]["value"], "2");
    assert_eq!(version(&patched), version(&made));
    let mut object = made.clone();
    object["data"]["value"] = json!("3");
    let replaced = ground
        .put(&format!("{path}?dryRun=All"), &object)
        .await
        .expect(200);
    assert_eq!(replaced["data"]["value"], "3");
    object["metadata"]["resourceVersion"] = json!("1");
    ground
        .put(&format!("{path}?dryRun=All"), &object)
        .await
        .refused(409, "Conflict");
    assert_eq!(ground.get(&path).await.expect(200), made);
}

pub async fn a_rehearsed_delete_deletes_nothing(ground: &Ground) {
    let made = ground.config_map("a", "1").await;
    let pod = ground.pod("a", |_| ()).await;
    let path = ground.path("configmaps", "a");
    ground
        .delete(&format!("{path}?dryRun=All"))
        .await
        .expect(200);
    ground
        .delete_with(&path, &json!({"dryRun": ["All"]}))
        .await
        .expect(200);
    ground
        .delete_with(&ground.path("pods", "a"), &json!({"dryRun": ["All"]}))
        .await
        .expect(200);
    assert_eq!(ground.get(&path).await.expect(200), made);
    assert_eq!(ground.get(&ground.path("pods", "a")).await.expect(200), pod);
}

pub async fn a_rehearsal_is_checked(ground: &Ground) {
    let mut object = objects::policy(ground, "a");
    let path = format!("{CUSTOM}/remediationpolicies?dryRun=All");
    ground.post(&path, &object).await.expect(201);
    object["spec"]["mode"] = json!("Enforced");
    ground.post(&path, &object).await.refused(422, "Invalid");
    let name = text(&object["metadata"]["name"]);
    ground
        .get(&format!("{CUSTOM}/remediationpolicies/{name}"))
        .await
        .expect(404);
}
