//! Owners and what they own.

use serde_json::{Value, json};

use super::ground::{Ground, MERGE, text};

/// A ConfigMap that these own.
async fn owned(ground: &Ground, name: &str, owners: &[&Value], blocks: bool) {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
                "controller": false, "blockOwnerDeletion": blocks,
            })
        })
        .collect();
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    ground
        .post(&ground.path("configmaps", ""), &object)
        .await
        .expect(201);
}

pub async fn what_is_owned_goes_with_its_owner(ground: &Ground) {
    let owner = ground.config_map("owner", "1").await;
    owned(ground, "child", &[&owner], false).await;
    let child = ground
        .get(&ground.path("configmaps", "child"))
        .await
        .expect(200);
    owned(ground, "grandchild", &[&child], false).await;
    ground
        .delete_with(
            &ground.path("configmaps", "owner"),
            &json!({"propagationPolicy": "Background"}),
        )
        .await
        .expect(200);
    ground.get(&ground.path("configmaps", "owner")).await.expect(404);
    ground.gone(&ground.path("configmaps", "child")).await;
    ground.gone(&ground.path("configmaps", "grandchild")).await;
}

pub async fn one_of_two_owners_is_enough(ground: &Ground) {
    let first = ground.config_map("first", "1").await;
    let second = ground.config_map("second", "1").await;
    owned(ground, "child", &[&first, &second], false).await;
    ground
        .delete(&ground.path("configmaps", "first"))
        .await
        .expect(200);
    let path = ground.path("configmaps", "child");
    let left = ground
        .eventually("the reference to be dropped", async || {
            let child = ground.get(&path).await.expect(200);
            let owners = child["metadata"]["ownerReferences"].clone();
            (owners.as_array()?.len() == 1).then_some(owners)
        })
        .await;
    assert_eq!(left[0]["name"], "second");
    ground
        .delete(&ground.path("configmaps", "second"))
        .await
        .expect(200);
    ground.gone(&path).await;
}

pub async fn an_owner_in_the_foreground_goes_last(ground: &Ground) {
    let owner = ground.config_map("owner", "1").await;
    owned(ground, "child", &[&owner], true).await;
    let child = ground.path("configmaps", "child");
    ground
        .patch(
            &child,
            MERGE,
            &json!({"metadata": {"finalizers": ["example.test/hold"]}}),
        )
        .await
        .expect(200);
    let path = ground.path("configmaps", "owner");
    let ending = ground
        .delete_with(&path, &json!({"propagationPolicy": "Foreground"}))
        .await
        .expect(200);
    assert_eq!(
        ending["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert_ne!(ending["metadata"]["deletionTimestamp"], json!(null));
    ground
        .eventually("the child to be ending", async || {
            let child = ground.get(&child).await.expect(200);
            (!child["metadata"]["deletionTimestamp"].is_null()).then_some(())
        })
        .await;
    ground.get(&path).await.expect(200);
    ground
        .patch(&child, MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    ground.gone(&child).await;
    ground.gone(&path).await;
}

pub async fn orphans_stay(ground: &Ground) {
    let owner = ground.config_map("owner", "1").await;
    owned(ground, "child", &[&owner], false).await;
    let path = ground.path("configmaps", "owner");
    ground
        .delete_with(&path, &json!({"propagationPolicy": "Orphan"}))
        .await
        .expect(200);
    ground.gone(&path).await;
    let child = ground
        .get(&ground.path("configmaps", "child"))
        .await
        .expect(200);
    assert_eq!(child["metadata"]["ownerReferences"], json!(null));
}

pub async fn an_owner_of_the_same_name_is_another(ground: &Ground) {
    let first = ground.config_map("owner", "1").await;
    ground
        .delete(&ground.path("configmaps", "owner"))
        .await
        .expect(200);
    let second = ground.config_map("owner", "2").await;
    assert_ne!(
        text(&first["metadata"]["uid"]),
        text(&second["metadata"]["uid"])
    );
    owned(ground, "child", &[&first], false).await;
    owned(ground, "kept", &[&second], false).await;
    ground.gone(&ground.path("configmaps", "child")).await;
    ground.get(&ground.path("configmaps", "kept")).await.expect(200);
}

pub async fn an_owned_pod_ends_with_its_grace(ground: &Ground) {
    let owner = ground.config_map("owner", "1").await;
    ground
        .pod("a", |pod| {
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "v1", "kind": "ConfigMap",
                "name": "owner", "uid": owner["metadata"]["uid"],
            }]);
        })
        .await;
    ground
        .delete(&ground.path("configmaps", "owner"))
        .await
        .expect(200);
    let pod = ground
        .eventually("the pod to be ending", async || {
            let pod = ground.get(&ground.path("pods", "a")).await.expect(200);
            (!pod["metadata"]["deletionTimestamp"].is_null()).then_some(pod)
        })
        .await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
}
