//! Server-side apply.

use serde_json::{Value, json};

use super::ground::{APPLY, CUSTOM, Ground, MERGE, text, version};
use super::objects::{self, condition, conditions};

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
    // Its resourceVersion is.
    let mut old = status(&made["metadata"]["uid"]);
    old["metadata"] = json!({"name": name, "resourceVersion": version(&made)});
    ground
        .patch(&path, APPLY, &old)
        .await
        .refused(409, "Conflict");
    old["metadata"]["resourceVersion"] = json!(version(&told));
    ground.patch(&path, APPLY, &old).await.expect(200);
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
