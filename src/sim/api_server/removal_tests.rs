//! Removal, eviction, owners and the schemas, under the real `kube::Client`.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::{Value, json};

use super::resources::{
    CONFIG_MAPS, DEPLOYMENTS, GPU_FAULTS, NAMESPACES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
};
use super::{ApiServer, Call, Observer, Store, Write};
use crate::api::GpuFault;
use crate::clock::Clock;

fn server() -> (ApiServer, Store) {
    let origin: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let server = ApiServer::new(Clock::starting_at(origin));
    let store = server.store("person");
    (server, store)
}

fn running(store: &Store, name: &str) -> Arc<Value> {
    let pod = json!({"metadata": {"name": name, "labels": {"app": "llm"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
    store.create(PODS, pod).unwrap();
    let ready = json!([{"type": "Ready", "status": "True"}]);
    store
        .change_status(PODS, None, name, |p| {
            p["status"] = json!({"phase": "Running", "conditions": ready});
        })
        .unwrap()
}

fn budget(store: &Store, name: &str, allowed: i64, healthy: i64) {
    let object = json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "llm"}}}});
    store.create(POD_DISRUPTION_BUDGETS, object).unwrap();
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 2, "expectedPods": 2});
    store
        .change_status(POD_DISRUPTION_BUDGETS, None, name, |b| b["status"] = status)
        .unwrap();
}

async fn evict(client: &Client, name: &str, uid: Option<&str>) -> Result<(), Box<Status>> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let eviction: Eviction = serde_json::from_value(json!({
        "metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": uid}},
    }))
    .unwrap();
    let answer = api
        .create_subresource::<_, Status>("eviction", name, &PostParams::default(), &eviction)
        .await;
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_lets_so_many_go_and_no_more() {
    let (server, store) = server();
    let client = server.client("a");
    running(&store, "p1");
    let second = running(&store, "p2");
    budget(&store, "llm", 1, 2);
    evict(&client, "p1", None).await.unwrap();
    let pod = store.get(PODS, None, "p1").unwrap();
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-03-01T12:00:30Z");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let found = store.get(POD_DISRUPTION_BUDGETS, None, "llm").unwrap();
    assert_eq!(found["status"]["disruptionsAllowed"], 0);
    assert_eq!(
        found["status"]["disruptedPods"]["p1"],
        "2026-03-01T12:00:00Z"
    );

    let blocked = evict(&client, "p2", second["metadata"]["uid"].as_str())
        .await
        .unwrap_err();
    assert_eq!(
        (blocked.code, blocked.reason.as_str()),
        (429, "TooManyRequests")
    );
    assert_eq!(
        blocked.message,
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    let details = blocked.details.unwrap();
    assert_eq!(details.causes[0].reason, "DisruptionBudget");
    assert_eq!(
        details.causes[0].message,
        "The disruption budget llm needs 2 healthy pods and has 2 currently"
    );
    assert_eq!(details.retry_after_seconds, 0);
    // One that is ending already costs nothing more.
    evict(&client, "p1", None).await.unwrap();

    store
        .change(POD_DISRUPTION_BUDGETS, None, "llm", |b| {
            b["spec"]["minAvailable"] = json!(2)
        })
        .unwrap();
    let behind = evict(&client, "p2", None).await.unwrap_err();
    assert_eq!(behind.details.unwrap().retry_after_seconds, 10);

    budget(&store, "other", 1, 2);
    let several = evict(&client, "p2", None).await.unwrap_err();
    assert_eq!(several.code, 500);
    assert!(
        several
            .message
            .contains("more than one PodDisruptionBudget")
    );
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_of_one_pod_and_no_other_of_its_name() {
    let (server, store) = server();
    let client = server.client("a");
    running(&store, "p");
    assert_eq!(
        evict(&client, "p", Some("another")).await.unwrap_err().code,
        409
    );
    assert!(store.get(PODS, None, "p").unwrap()["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(evict(&client, "none", None).await.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_node_or_an_end_goes_at_once_and_a_grace_is_only_shortened() {
    let (_, store) = server();
    let pod = json!({"metadata": {"name": "unbound"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    store.create(PODS, pod).unwrap();
    store.delete(PODS, None, "unbound", None).unwrap();
    assert!(store.get(PODS, None, "unbound").is_none());

    running(&store, "p");
    store.delete(PODS, None, "p", Some(60)).unwrap();
    store.delete(PODS, None, "p", Some(90)).unwrap();
    let grace =
        || store.get(PODS, None, "p").unwrap()["metadata"]["deletionGracePeriodSeconds"].clone();
    assert_eq!(grace(), 60);
    store.delete(PODS, None, "p", Some(5)).unwrap();
    assert_eq!(grace(), 5);
    store.delete(PODS, None, "p", Some(0)).unwrap();
    assert!(store.get(PODS, None, "p").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    let (server, store) = server();
    store
        .create(
            CONFIG_MAPS,
            json!({"metadata": {"name": "x", "finalizers": ["a.b/c"]}}),
        )
        .unwrap();
    let api: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::default_namespaced(server.client("a"));
    api.delete("x", &DeleteParams::default()).await.unwrap();
    assert!(
        api.get("x")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    let more = json!({"metadata": {"finalizers": ["a.b/c", "a.b/d"]}});
    let refused = api
        .patch("x", &PatchParams::default(), &Patch::Merge(more))
        .await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 422));
    let none = json!({"metadata": {"finalizers": null}});
    api.patch("x", &PatchParams::default(), &Patch::Merge(none))
        .await
        .unwrap();
    assert!(api.get_opt("x").await.unwrap().is_none());
}

fn owned(kind: &str, owner: &Value, name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn what_an_object_owns_goes_with_it() {
    let (server, store) = server();
    let set = json!({"selector": {"matchLabels": {"app": "a"}}});
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let make = || {
        let owner = store
            .create(DEPLOYMENTS, json!({"metadata": {"name": "d"}, "spec": set}))
            .unwrap();
        let middle = store
            .create(REPLICA_SETS, owned("Deployment", &owner, "r", &set))
            .unwrap();
        store
            .create(PODS, owned("ReplicaSet", &middle, "p", &pod))
            .unwrap();
    };
    make();
    store.delete(DEPLOYMENTS, None, "d", None).unwrap();
    assert!(store.list(REPLICA_SETS).is_empty() && store.list(PODS).is_empty());

    make();
    let api: Api<k8s_openapi::api::apps::v1::Deployment> =
        Api::default_namespaced(server.client("a"));
    api.delete("d", &DeleteParams::foreground()).await.unwrap();
    assert!(store.list(DEPLOYMENTS).is_empty() && store.list(PODS).is_empty());

    make();
    api.delete("d", &DeleteParams::orphan()).await.unwrap();
    let left = store.get(REPLICA_SETS, None, "r").unwrap();
    assert!(left["metadata"]["ownerReferences"].is_null());
    assert_eq!(store.list(PODS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_ends_with_what_is_in_it() {
    let (_, store) = server();
    let pod = |name: &str| json!({"metadata": {"name": name, "namespace": "ml"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(store.create(PODS, pod("p")).unwrap_err().code, 404);
    store
        .create(NAMESPACES, json!({"metadata": {"name": "ml"}}))
        .unwrap();
    store.create(PODS, pod("p")).unwrap();
    store.delete(NAMESPACES, None, "ml", None).unwrap();
    let refusal = store.create(PODS, pod("q")).unwrap_err();
    assert_eq!(refusal.code, 403);
    assert_eq!(
        refusal.details["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    store.delete(PODS, Some("ml"), "p", Some(0)).unwrap();
    assert!(store.get(NAMESPACES, None, "ml").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_held_to_its_schema_and_its_spec_stays() {
    let (server, store) = server();
    let refusal = store
        .create(GPU_FAULTS, json!({"metadata": {"name": "f"}, "spec": {}}))
        .unwrap_err();
    assert_eq!(refusal.code, 422);
    assert!(
        refusal.message.contains("spec.nodeName: Required value"),
        "{refusal}"
    );
    let fault = json!({"metadata": {"name": "n1-gpu-3"}, "spec": {"nodeName": "n1", "gpu": {"index": "3"}, "xid": 79,
        "policyRef": {"name": "default"}}});
    let mut unknown = fault.clone();
    unknown["spec"]["colour"] = json!("red");
    let made = store.create(GPU_FAULTS, unknown).unwrap();
    assert!(made["spec"]["colour"].is_null());
    assert_eq!(made["metadata"]["generation"], 1);
    let name = made["metadata"]["name"].as_str().unwrap().to_owned();
    let refusal = store
        .change(GPU_FAULTS, None, &name, |f| {
            f["spec"]["nodeName"] = json!("other")
        })
        .unwrap_err();
    assert!(refusal.message.contains("spec is immutable"), "{refusal}");
    let api: Api<GpuFault> = Api::all(server.client("a"));
    assert_eq!(api.get(&name).await.unwrap().metadata.generation, Some(1));
}

#[derive(Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Observer for Seen {
    fn called(&mut self, call: &Call) {
        let line = format!("{} {} {}", call.actor, call.method, call.code);
        self.0.lock().unwrap().push(line);
    }

    fn wrote(&mut self, write: &Write) {
        let line = format!("{} {:?} {}", write.actor, write.verb, write.name);
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_writes_before_the_call_that_made_them() {
    let (server, store) = server();
    let seen = Arc::new(Mutex::new(Vec::new()));
    server.observe(Box::new(Seen(seen.clone())));
    running(&store, "p");
    evict(&server.client("a"), "p", None).await.unwrap();
    let expected = [
        "person Create p",
        "person Patch p",
        "a Create p",
        "a Create p",
        "a POST 201",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}
