//! What the schemas of the product's own resources refuse, fill in and drop.

use serde_json::{Value, json};

use super::ground::{CUSTOM, Ground, MERGE, text};
use super::objects;

async fn create(ground: &Ground, plural: &str, object: &Value) -> super::ground::Answer {
    ground.post(&format!("{CUSTOM}/{plural}"), object).await
}

pub async fn good_objects_are_taken(ground: &Ground) {
    for (plural, object) in [
        ("gpufaults", objects::fault(ground, "a")),
        ("remediationpolicies", objects::policy(ground, "a")),
        ("gpufaultrules", objects::rule(ground, "a")),
    ] {
        let made = create(ground, plural, &object).await.expect(201);
        assert_eq!(made["metadata"]["generation"], 1);
        assert_eq!(made["kind"], object["kind"]);
    }
}

pub async fn defaults_are_filled_in(ground: &Ground) {
    let made = create(
        ground,
        "remediationpolicies",
        &objects::policy(ground, "a"),
    )
    .await
    .expect(201);
    let spec = &made["spec"];
    assert_eq!(spec["mode"], "Enforce");
    assert_eq!(spec["recovery"]["rescheduleDeadline"], "10m");
    assert_eq!(spec["recovery"]["retention"], "1w");
    assert_eq!(spec["steps"][1]["evictPods"]["timeout"], "15m");
}

pub async fn unknown_fields_are_dropped_unless_strictness_is_asked_for(ground: &Ground) {
    let mut object = objects::fault(ground, "a");
    object["spec"]["nonsense"] = json!(1);
    object["more"] = json!({"a": 1});
    let path = format!("{CUSTOM}/gpufaults?fieldValidation=Strict");
    let status = ground
        .post(&path, &object)
        .await
        .refused(400, "BadRequest");
    assert!(
        text(&status["message"]).contains("unknown field \"spec.nonsense\""),
        "{status}"
    );
    let made = create(ground, "gpufaults", &object).await.expect(201);
    assert_eq!(made["spec"]["nonsense"], json!(null));
    assert_eq!(made["more"], json!(null));
    assert_eq!(made["spec"]["xid"], 79);
}

pub async fn what_is_required_is_missed(ground: &Ground) {
    let mut object = objects::fault(ground, "a");
    object["spec"] = json!({"nodeName": "a"});
    let status = create(ground, "gpufaults", &object)
        .await
        .invalid(&[("spec.policyRef", "FieldValueRequired")]);
    assert_eq!(status["details"]["kind"], "GpuFault");
    assert_eq!(status["details"]["group"], "gpu-remediator.dev");
    assert_eq!(status["details"]["name"], object["metadata"]["name"]);
    let start = format!("GpuFault.gpu-remediator.dev \"{}\" is invalid: ", text(&object["metadata"]["name"]));
    assert!(text(&status["message"]).starts_with(&start), "{status}");
    object["spec"] = json!(null);
    create(ground, "gpufaults", &object)
        .await
        .refused(422, "Invalid");
}

pub async fn each_field_is_checked(ground: &Ground) {
    let long = "n".repeat(254);
    let cases: [(&str, Value, &str); 6] = [
        ("nodeName", json!(""), "FieldValueInvalid"),
        ("nodeName", json!(long), "FieldValueTooLong"),
        ("nodeName", json!(5), "FieldValueTypeInvalid"),
        ("xid", json!(-1), "FieldValueInvalid"),
        ("xid", json!("79"), "FieldValueTypeInvalid"),
        ("faultTime", json!("yesterday"), "FieldValueTypeInvalid"),
    ];
    for (field, value, reason) in cases {
        let mut object = objects::fault(ground, "a");
        object["spec"][field] = value;
        let status = create(ground, "gpufaults", &object)
            .await
            .refused(422, "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["field"], format!("spec.{field}"), "{status}");
        assert_eq!(cause["reason"], reason, "{status}");
    }
}

pub async fn the_rules_of_a_policy_are_checked(ground: &Ground) {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str, &str, &str); 9] = [
        (
            |p| p["mode"] = json!("Enforced"),
            "spec.mode",
            "FieldValueNotSupported",
            "Unsupported value: \"Enforced\"",
        ),
        (
            |p| p["budget"]["maxUnavailable"] = json!("0%"),
            "spec.budget.maxUnavailable",
            "FieldValueInvalid",
            "maxUnavailable is a positive number of nodes",
        ),
        (
            |p| p["budget"]["maxUnavailable"] = json!(0),
            "spec.budget.maxUnavailable",
            "FieldValueInvalid",
            "maxUnavailable is a positive number of nodes",
        ),
        (
            |p| p["budget"]["maxConcurrent"] = json!(0),
            "spec.budget.maxConcurrent",
            "FieldValueInvalid",
            "should be greater than or equal to 1",
        ),
        (
            |p| p["steps"] = json!([{"cordon": {}, "evictPods": {"timeout": "1m"}}]),
            "spec.steps",
            "FieldValueInvalid",
            "exactly one action",
        ),
        (
            |p| p["steps"] = json!([{"evictPods": {"timeout": "1m"}}]),
            "spec.steps",
            "FieldValueInvalid",
            "evictPods needs a cordon before it",
        ),
        (
            |p| p["steps"] = json!([]),
            "spec.steps",
            "FieldValueInvalid",
            "at least 1 items",
        ),
        (
            |p| p["guards"]["pauseIf"][0]["expr"] = json!("  "),
            "spec.guards.pauseIf[0].expr",
            "FieldValueInvalid",
            "a guard has an expr",
        ),
        (
            |p| p["recovery"]["healthy"]["for"] = json!("ten minutes"),
            "spec.recovery.healthy.for",
            "FieldValueInvalid",
            "should match",
        ),
    ];
    for (edit, field, reason, message) in cases {
        let mut object = objects::policy(ground, "a");
        edit(&mut object["spec"]);
        let status = create(ground, "remediationpolicies", &object)
            .await
            .refused(422, "Invalid");
        let causes = status["details"]["causes"].as_array().expect("causes");
        assert!(
            causes.iter().any(|c| c["field"] == field
                && c["reason"] == reason
                && text(&c["message"]).contains(message)),
            "{field} {message}: {status}"
        );
    }
}

pub async fn groups_of_a_rule_have_names_of_their_own(ground: &Ground) {
    let mut object = objects::rule(ground, "a");
    let group = object["spec"]["groups"][0].clone();
    object["spec"]["groups"] = json!([group, group]);
    create(ground, "gpufaultrules", &object)
        .await
        .invalid(&[("spec.groups[1]", "FieldValueDuplicate")]);
}

pub async fn a_fault_is_what_it_was(ground: &Ground) {
    let object = objects::fault(ground, "a");
    create(ground, "gpufaults", &object).await.expect(201);
    let path = format!("{CUSTOM}/gpufaults/{}", text(&object["metadata"]["name"]));
    let status = ground
        .patch(&path, MERGE, &json!({"spec": {"nodeName": "gpu-b"}}))
        .await
        .invalid(&[("spec", "FieldValueInvalid")]);
    assert!(
        text(&status["details"]["causes"][0]["message"]).contains("spec is immutable"),
        "{status}"
    );
    let same = ground
        .patch(&path, MERGE, &json!({"spec": {"nodeName": "gpu-a"}}))
        .await
        .expect(200);
    assert_eq!(same["spec"]["nodeName"], "gpu-a");
}

pub async fn a_change_is_checked_like_a_new_object(ground: &Ground) {
    let object = objects::policy(ground, "a");
    let made = create(ground, "remediationpolicies", &object)
        .await
        .expect(201);
    let path = format!(
        "{CUSTOM}/remediationpolicies/{}",
        text(&object["metadata"]["name"])
    );
    ground
        .patch(&path, MERGE, &json!({"spec": {"mode": "Enforced"}}))
        .await
        .invalid(&[("spec.mode", "FieldValueNotSupported")]);
    assert_eq!(ground.get(&path).await.expect(200), made);
}
