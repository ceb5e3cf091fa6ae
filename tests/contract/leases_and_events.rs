//! Leases, which leadership stands on, and Events.

use serde_json::{Value, json};

use super::ground::{Ground, MERGE, text, version};

async fn lease(ground: &Ground) -> Value {
    let object = json!({"metadata": {"name": "leader"}, "spec": {
        "holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.123456Z",
    }});
    ground
        .post(&ground.path("leases", ""), &object)
        .await
        .expect(201)
}

pub async fn a_lease_keeps_its_microseconds(ground: &Ground) {
    let made = lease(ground).await;
    let read = ground
        .get(&ground.path("leases", "leader"))
        .await
        .expect(200);
    assert_eq!(read, made);
    assert_eq!(read["spec"]["renewTime"], "2026-01-01T00:00:00.123456Z");
    assert_eq!(read["spec"]["acquireTime"], "2026-01-01T00:00:00.000000Z");
    assert_eq!(read["metadata"]["generation"], json!(null));
}

pub async fn one_of_two_candidates_wins(ground: &Ground) {
    let made = lease(ground).await;
    let path = ground.path("leases", "leader");
    let claim = |who: &str| {
        let mut lease = made.clone();
        lease["spec"]["holderIdentity"] = json!(who);
        lease
    };
    let won = ground.put(&path, &claim("two")).await.expect(200);
    assert_ne!(version(&won), version(&made));
    ground
        .put(&path, &claim("three"))
        .await
        .refused(409, "Conflict");
    let read = ground.get(&path).await.expect(200);
    assert_eq!(read["spec"]["holderIdentity"], "two");
    ground
        .post(&ground.path("leases", ""), &json!({"metadata": {"name": "leader"}}))
        .await
        .refused(409, "AlreadyExists");
}

pub async fn a_lease_is_not_replaced_blindly(ground: &Ground) {
    let mut wanted = lease(ground).await;
    wanted["metadata"]["resourceVersion"] = json!(null);
    ground
        .put(&ground.path("leases", "leader"), &wanted)
        .await
        .invalid(&[("metadata.resourceVersion", "FieldValueInvalid")]);
}

pub async fn a_lease_that_is_gone_is_not_renewed(ground: &Ground) {
    let made = lease(ground).await;
    let path = ground.path("leases", "leader");
    ground.delete(&path).await.expect(200);
    let answer = ground.put(&path, &made).await;
    answer.refused(409, "Conflict");
    ground.get(&path).await.refused(404, "NotFound");
}

pub async fn a_lease_lasts_for_some_time(ground: &Ground) {
    let object = json!({"metadata": {"name": "leader"}, "spec": {"leaseDurationSeconds": 0}});
    ground
        .post(&ground.path("leases", ""), &object)
        .await
        .invalid(&[("spec.leaseDurationSeconds", "FieldValueInvalid")]);
}

pub async fn the_product_takes_and_returns_a_lease(ground: &Ground) {
    use gpu_remediator::clock::Clock;
    use gpu_remediator::kubernetes::lease::{LeaseSettings, campaign};
    use std::time::Duration;
    let settings = LeaseSettings {
        namespace: ground.namespace.clone(),
        name: "leader".into(),
        identity: "one".into(),
        duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(200),
    };
    let stop = tokio_util::sync::CancellationToken::new();
    let tasks = tokio_util::task::TaskTracker::new();
    let clock = Clock::system();
    let mut leadership = campaign(ground.client.clone(), settings, clock, stop.clone(), &tasks)
        .expect("settings that fit");
    leadership.acquired(&tasks).await.expect("a term");
    let path = ground.path("leases", "leader");
    let first = ground.get(&path).await.expect(200);
    assert_eq!(first["spec"]["holderIdentity"], "one");
    assert_eq!(first["spec"]["leaseDurationSeconds"], 3);
    ground
        .eventually("a renewal", async || {
            let now = ground.get(&path).await.expect(200);
            (version(&now) != version(&first)).then_some(())
        })
        .await;
    assert!(leadership.check().is_ok());
    stop.cancel();
    ground
        .eventually("the lease to be given back", async || {
            let now = ground.get(&path).await.expect(200);
            text(&now["spec"]["holderIdentity"]).is_empty().then_some(())
        })
        .await;
    assert!(leadership.check().is_err());
}

fn event(ground: &Ground, name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "gpu-remediator",
        "reportingInstance": "one",
        "action": "Cordon",
        "reason": "Cordoned",
        "type": "Normal",
        "note": "the node is cordoned",
        "regarding": {
            "apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": ground.namespace,
        },
    })
}

pub async fn an_event_is_one_in_both_groups(ground: &Ground) {
    let made = ground
        .post(&ground.path("events", ""), &event(ground, "a"))
        .await
        .expect(201);
    assert_eq!(made["apiVersion"], "events.k8s.io/v1");
    assert_eq!(made["note"], "the node is cordoned");
    let core = ground
        .get(&format!("/api/v1/namespaces/{}/events/a", ground.namespace))
        .await
        .expect(200);
    assert_eq!(core["apiVersion"], "v1");
    assert_eq!(core["message"], "the node is cordoned");
    assert_eq!(core["involvedObject"]["name"], "a");
    assert_eq!(core["metadata"]["uid"], made["metadata"]["uid"]);
}

pub async fn an_event_says_who_did_what(ground: &Ground) {
    let path = ground.path("events", "");
    for field in ["reportingController", "reportingInstance", "action", "reason"] {
        let mut object = event(ground, "a");
        object[field] = json!("");
        let status = ground.post(&path, &object).await.refused(422, "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["field"], field, "{status}");
    }
    let mut object = event(ground, "a");
    object["note"] = json!("x".repeat(1025));
    let status = ground.post(&path, &object).await.refused(422, "Invalid");
    assert!(
        text(&status["message"]).contains("can have at most 1024 characters"),
        "{status}"
    );
}

pub async fn an_event_is_where_its_object_is(ground: &Ground) {
    let mut object = event(ground, "a");
    object["regarding"] = json!({"apiVersion": "v1", "kind": "Node", "name": "n"});
    ground
        .post(&ground.path("events", ""), &object)
        .await
        .refused(422, "Invalid");
    object["metadata"]["name"] = json!(ground.unique("event"));
    ground
        .post("/apis/events.k8s.io/v1/namespaces/default/events", &object)
        .await
        .expect(201);
}

pub async fn a_series_is_patched_while_the_event_lasts(ground: &Ground) {
    let path = ground.path("events", "");
    ground.post(&path, &event(ground, "a")).await.expect(201);
    let series = json!({"series": {
        "count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z",
    }});
    let changed = ground
        .patch(&ground.path("events", "a"), MERGE, &series)
        .await
        .expect(200);
    assert_eq!(changed["series"]["count"], 2);
    ground
        .patch(&ground.path("events", "none"), MERGE, &series)
        .await
        .refused(404, "NotFound");
}

pub async fn kube_publishes_an_event(ground: &Ground) {
    use k8s_openapi::api::core::v1::ObjectReference;
    use kube::runtime::events::{Event, EventType, Recorder, Reporter};
    let recorder = Recorder::new(
        ground.client.clone(),
        Reporter {
            controller: "gpu-remediator".into(),
            instance: Some("one".into()),
        },
    );
    let event = Event {
        type_: EventType::Warning,
        reason: "Tested".into(),
        note: Some("a test".into()),
        action: "Tested".into(),
        secondary: None,
    };
    let about = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some("a".into()),
        namespace: Some(ground.namespace.clone()),
        ..Default::default()
    };
    for _ in 0..2 {
        recorder.publish(&event, &about).await.expect("published");
    }
    let list = ground.get(&ground.path("events", "")).await.expect(200);
    let items = list["items"].as_array().expect("items");
    assert_eq!(items.len(), 1, "{list}");
    assert_eq!(items[0]["reason"], "Tested");
    assert_eq!(items[0]["type"], "Warning");
    assert_eq!(items[0]["series"]["count"], 2);
}
