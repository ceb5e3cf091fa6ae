//! The Eviction API and its budgets, whose status is counted by hand here.

use serde_json::{Value, json};

use super::ground::{Answer, Ground, MERGE, text};

async fn evict(ground: &Ground, name: &str, options: Value) -> Answer {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": ground.namespace},
        "deleteOptions": options,
    });
    ground
        .post(&ground.path("pods", &format!("{name}/eviction")), &body)
        .await
}

async fn is_ending(ground: &Ground, name: &str) -> bool {
    let pod = ground.get(&ground.path("pods", name)).await.expect(200);
    !pod["metadata"]["deletionTimestamp"].is_null()
}

async fn budget(ground: &Ground, name: &str) -> Value {
    ground
        .get(&ground.path("poddisruptionbudgets", name))
        .await
        .expect(200)
}

pub async fn an_evicted_pod_ends_with_its_grace(ground: &Ground) {
    ground.ready_pod("a").await;
    let status = evict(ground, "a", json!(null)).await.expect(201);
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["status"], "Success");
    assert_eq!(status["code"], 201);
    let pod = ground.get(&ground.path("pods", "a")).await.expect(200);
    assert_ne!(pod["metadata"]["deletionTimestamp"], json!(null));
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
}

pub async fn an_eviction_can_shorten_the_grace(ground: &Ground) {
    ground.ready_pod("a").await;
    evict(ground, "a", json!({"gracePeriodSeconds": 5}))
        .await
        .expect(201);
    let pod = ground.get(&ground.path("pods", "a")).await.expect(200);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 5);
}

pub async fn a_spent_budget_refuses(ground: &Ground) {
    ground.ready_pod("a").await;
    ground.budget("b", "a", 1, 0).await;
    let answer = evict(ground, "a", json!(null)).await;
    assert!(!answer.headers.contains_key("retry-after"), "{answer:?}");
    let status = answer.refused(429, "TooManyRequests");
    assert_eq!(
        status["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(
        status["details"]["causes"],
        json!([{
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }])
    );
    assert_eq!(status["details"]["retryAfterSeconds"], json!(null));
    assert!(!is_ending(ground, "a").await);
}

pub async fn a_budget_that_is_not_counted_yet_asks_to_wait(ground: &Ground) {
    ground.ready_pod("a").await;
    ground.budget("b", "a", 2, 1).await;
    // A change of the specification that the disruption controller has not seen.
    ground
        .patch(
            &ground.path("poddisruptionbudgets", "b"),
            MERGE,
            &json!({"spec": {"minAvailable": 0}}),
        )
        .await
        .expect(200);
    let answer = evict(ground, "a", json!(null)).await;
    assert_eq!(answer.headers["retry-after"], "10");
    let status = answer.refused(429, "TooManyRequests");
    assert_eq!(status["details"]["retryAfterSeconds"], 10);
    assert_eq!(
        status["details"]["causes"],
        json!([{
            "reason": "DisruptionBudget",
            "message": "The disruption budget b is still being processed by the server.",
        }])
    );
    assert!(!is_ending(ground, "a").await);
}

pub async fn an_eviction_spends_the_budget(ground: &Ground) {
    for name in ["a", "b"] {
        ground
            .pod(name, |pod| {
                pod["metadata"]["labels"]["app"] = json!("llm");
            })
            .await;
        ground.pod_status(name, "Running", true).await;
    }
    ground.budget("llm", "llm", 2, 1).await;
    evict(ground, "a", json!(null)).await.expect(201);
    let spent = budget(ground, "llm").await;
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    let disrupted = spent["status"]["disruptedPods"].as_object();
    let disrupted: Vec<&String> = disrupted.into_iter().flatten().map(|(n, _)| n).collect();
    assert_eq!(disrupted, ["a"]);
    evict(ground, "b", json!(null))
        .await
        .refused(429, "TooManyRequests");
    assert!(is_ending(ground, "a").await && !is_ending(ground, "b").await);
    // Once more for the one that is ending: it costs nothing.
    evict(ground, "a", json!(null)).await.expect(201);
    assert_eq!(budget(ground, "llm").await["status"]["disruptionsAllowed"], 0);
}

pub async fn two_budgets_on_a_pod_cannot_be_served(ground: &Ground) {
    ground.ready_pod("a").await;
    ground.budget("one", "a", 2, 1).await;
    ground.budget("two", "a", 2, 1).await;
    let status = evict(ground, "a", json!(null)).await.expect(500);
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["code"], 500);
    assert!(
        text(&status["message"]).contains(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        ),
        "{status}"
    );
    assert!(!is_ending(ground, "a").await);
}

pub async fn an_eviction_is_of_one_incarnation(ground: &Ground) {
    let pod = ground.ready_pod("a").await;
    let uid = |uid: &str| json!({"preconditions": {"uid": uid}});
    evict(ground, "a", uid("another"))
        .await
        .refused(409, "Conflict");
    assert!(!is_ending(ground, "a").await);
    evict(ground, "a", uid(text(&pod["metadata"]["uid"])))
        .await
        .expect(201);
    assert!(is_ending(ground, "a").await);
}

pub async fn a_budget_is_not_spent_on_another_incarnation(ground: &Ground) {
    ground.ready_pod("a").await;
    ground.budget("b", "a", 2, 1).await;
    evict(ground, "a", json!({"preconditions": {"uid": "another"}}))
        .await
        .refused(409, "Conflict");
    assert!(!is_ending(ground, "a").await);
}

pub async fn an_eviction_needs_a_pod(ground: &Ground) {
    let status = evict(ground, "none", json!(null))
        .await
        .refused(404, "NotFound");
    assert_eq!(status["message"], "pods \"none\" not found");
}

pub async fn an_eviction_names_its_pod(ground: &Ground) {
    ground.ready_pod("a").await;
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"},
    });
    ground
        .post(&ground.path("pods", "a/eviction"), &body)
        .await
        .refused(400, "BadRequest");
    assert!(!is_ending(ground, "a").await);
}

pub async fn an_eviction_can_be_rehearsed(ground: &Ground) {
    ground.ready_pod("a").await;
    ground.budget("b", "a", 2, 1).await;
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"},
    });
    let path = ground.path("pods", "a/eviction?dryRun=All");
    ground.post(&path, &body).await.expect(201);
    evict(ground, "a", json!({"dryRun": ["All"]}))
        .await
        .expect(201);
    assert!(!is_ending(ground, "a").await);
    assert_eq!(budget(ground, "b").await["status"]["disruptionsAllowed"], 1);
    ground.budget("c", "a", 2, 1).await;
    ground
        .post(&path, &body)
        .await
        .expect(500);
}

pub async fn a_pod_that_does_not_run_needs_no_budget(ground: &Ground) {
    ground
        .pod("waiting", |pod| pod["spec"]["nodeName"] = json!(null))
        .await;
    ground.budget("waiting", "waiting", 1, 0).await;
    evict(ground, "waiting", json!(null)).await.expect(201);
    ground
        .get(&ground.path("pods", "waiting"))
        .await
        .refused(404, "NotFound");
    ground.pod("done", |_| ()).await;
    ground.pod_status("done", "Succeeded", false).await;
    ground.budget("done", "done", 1, 0).await;
    evict(ground, "done", json!(null)).await.expect(201);
    ground
        .get(&ground.path("pods", "done"))
        .await
        .refused(404, "NotFound");
}

pub async fn an_ill_pod_goes_where_the_budget_is_met(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    ground.pod_status("a", "Running", false).await;
    // Met: one is needed, one is healthy, and it is another.
    ground.budget("b", "a", 1, 0).await;
    evict(ground, "a", json!(null)).await.expect(201);
    assert!(is_ending(ground, "a").await);
    assert_eq!(budget(ground, "b").await["status"]["disruptionsAllowed"], 0);
}

pub async fn an_ill_pod_stays_where_the_budget_is_not_met(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    ground.pod_status("a", "Running", false).await;
    let made = ground.budget("b", "a", 2, 0).await;
    ground.count_budget("b", &made, 2, 0).await;
    let short = json!({"status": {"currentHealthy": 1}});
    ground
        .patch(
            &ground.path("poddisruptionbudgets", "b/status"),
            MERGE,
            &short,
        )
        .await
        .expect(200);
    let status = evict(ground, "a", json!(null))
        .await
        .refused(429, "TooManyRequests");
    assert_eq!(
        status["details"]["causes"][0]["message"],
        "The disruption budget b needs 2 healthy pods and has 1 currently"
    );
    // A policy that always lets the ill go.
    let lax = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    ground
        .patch(&ground.path("poddisruptionbudgets", "b"), MERGE, &lax)
        .await
        .expect(200);
    evict(ground, "a", json!(null)).await.expect(201);
}

pub async fn a_budget_without_labels_is_for_every_pod_here(ground: &Ground) {
    ground.ready_pod("a").await;
    let object = json!({
        "metadata": {"name": "all"}, "spec": {"minAvailable": 1, "selector": {}},
    });
    let made = ground
        .post(&ground.path("poddisruptionbudgets", ""), &object)
        .await
        .expect(201);
    ground.count_budget("all", &made, 1, 0).await;
    evict(ground, "a", json!(null))
        .await
        .refused(429, "TooManyRequests");
}

pub async fn a_budget_may_select_by_expression(ground: &Ground) {
    ground.ready_pod("a").await;
    ground.ready_pod("b").await;
    let object = json!({"metadata": {"name": "some"}, "spec": {
        "minAvailable": 1,
        "selector": {"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["a", "c"]},
        ]},
    }});
    let made = ground
        .post(&ground.path("poddisruptionbudgets", ""), &object)
        .await
        .expect(201);
    ground.count_budget("some", &made, 1, 0).await;
    evict(ground, "a", json!(null))
        .await
        .refused(429, "TooManyRequests");
    evict(ground, "b", json!(null)).await.expect(201);
}

pub async fn the_product_understands_each_answer(ground: &Ground) {
    use gpu_remediator::api::fault_status::PodRef;
    use gpu_remediator::kubernetes::eviction::{EvictionAnswer, evict};
    let pod = ground.ready_pod("a").await;
    let mut reference = PodRef {
        namespace: ground.namespace.clone(),
        name: "a".into(),
        uid: "another".into(),
    };
    let answer = evict(&ground.client, &reference).await;
    assert!(matches!(answer, EvictionAnswer::Gone), "{answer:?}");
    reference.uid = text(&pod["metadata"]["uid"]).to_owned();
    ground.budget("one", "a", 1, 0).await;
    let answer = evict(&ground.client, &reference).await;
    match answer {
        EvictionAnswer::Blocked {
            message,
            retry_after_seconds: 0,
        } => assert!(message.contains("disruption budget one"), "{message}"),
        other => panic!("{other:?}"),
    }
    ground.budget("two", "a", 1, 0).await;
    let answer = evict(&ground.client, &reference).await;
    assert!(matches!(answer, EvictionAnswer::Refused { .. }), "{answer:?}");
    for name in ["one", "two"] {
        ground
            .delete(&ground.path("poddisruptionbudgets", name))
            .await
            .expect(200);
    }
    let answer = evict(&ground.client, &reference).await;
    assert!(matches!(answer, EvictionAnswer::Accepted), "{answer:?}");
    ground
        .delete_with(
            &ground.path("pods", "a"),
            &json!({"gracePeriodSeconds": 0}),
        )
        .await
        .expect(200);
    let answer = evict(&ground.client, &reference).await;
    assert!(matches!(answer, EvictionAnswer::Gone), "{answer:?}");
}

pub async fn a_budget_has_a_generation(ground: &Ground) {
    let made = ground.budget("b", "a", 2, 1).await;
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"]["disruptionsAllowed"], 1);
    let changed = ground
        .patch(
            &ground.path("poddisruptionbudgets", "b"),
            MERGE,
            &json!({"spec": {"minAvailable": 2}}),
        )
        .await
        .expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(changed["status"]["disruptionsAllowed"], 1);
}
