//! The server under the real `kube::Client`.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde_json::{Value, json};

use super::resources::{CONFIG_MAPS, NODES, PODS};
use super::{ApiServer, Store};
use crate::clock::Clock;

fn server() -> (ApiServer, Store) {
    let origin: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let server = ApiServer::new(Clock::starting_at(origin));
    let store = server.store("person");
    (server, store)
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn refused(error: kube::Error) -> (u16, String, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("{other:?}"),
    }
}

fn config_map(name: &str) -> ConfigMap {
    parsed(json!({"metadata": {"name": name}, "data": {"a": "1"}}))
}

#[tokio::test(start_paused = true)]
async fn an_object_is_made_read_replaced_and_removed() {
    let (server, _) = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("a"));
    let made = api
        .create(&PostParams::default(), &config_map("x"))
        .await
        .unwrap();
    let uid = made.metadata.uid.clone().unwrap();
    assert_eq!(
        serde_json::to_value(&made.metadata.creation_timestamp).unwrap(),
        "2026-03-01T12:00:00Z"
    );
    let again = api
        .create(&PostParams::default(), &config_map("x"))
        .await
        .unwrap_err();
    let (code, reason, message) = refused(again);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(message, "configmaps \"x\" already exists");

    let mut wanted = made.clone();
    wanted.data.as_mut().unwrap().insert("b".into(), "2".into());
    let replaced = api
        .replace("x", &PostParams::default(), &wanted)
        .await
        .unwrap();
    assert_ne!(
        replaced.metadata.resource_version,
        made.metadata.resource_version
    );
    let stale = api
        .replace("x", &PostParams::default(), &wanted)
        .await
        .unwrap_err();
    assert_eq!(refused(stale).1, "Conflict");

    let same = api
        .replace("x", &PostParams::default(), &replaced)
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version,
        replaced.metadata.resource_version
    );

    let other = DeleteParams {
        preconditions: Some(kube::api::Preconditions {
            uid: Some("another".into()),
            ..Default::default()
        }),
        ..Default::default()
    };
    let (code, reason, message) = refused(api.delete("x", &other).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains(&uid), "{message}");
    api.delete("x", &DeleteParams::default()).await.unwrap();
    let gone = api.get("x").await.unwrap_err();
    assert_eq!(
        refused(gone),
        (
            404,
            "NotFound".to_owned(),
            "configmaps \"x\" not found".to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_nothing() {
    let (server, _) = server();
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("a"));
    let before = server.revision();
    let parameters = PostParams {
        dry_run: true,
        ..Default::default()
    };
    let made = api.create(&parameters, &config_map("x")).await.unwrap();
    assert!(made.metadata.uid.is_some());
    assert_eq!(server.revision(), before);
    assert!(api.get_opt("x").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn pages_hold_together_while_objects_come_and_go() {
    let (server, store) = server();
    for i in 0..10 {
        store
            .create(CONFIG_MAPS, json!({"metadata": {"name": format!("m{i}")}}))
            .unwrap();
    }
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("a"));
    let mut parameters = ListParams::default().limit(4);
    let mut names = Vec::new();
    loop {
        let page = api.list(&parameters).await.unwrap();
        names.extend(page.items.iter().map(|o| o.metadata.name.clone().unwrap()));
        if names.len() == 4 {
            assert_eq!(page.metadata.remaining_item_count, Some(6));
            store.delete(CONFIG_MAPS, None, "m5", None).unwrap();
            store
                .create(CONFIG_MAPS, json!({"metadata": {"name": "m55"}}))
                .unwrap();
        }
        match page.metadata.continue_.filter(|c| !c.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => break,
        }
    }
    let all: Vec<String> = (0..10).map(|i| format!("m{i}")).collect();
    assert_eq!(names, all);

    let page = api.list(&ListParams::default().limit(4)).await.unwrap();
    store.delete(CONFIG_MAPS, None, "m9", None).unwrap();
    server.compact();
    let mut parameters = ListParams::default().limit(4);
    parameters.continue_token = page.metadata.continue_;
    let (code, reason, _) = refused(api.list(&parameters).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_what_is_selected_then_a_bookmark_and_ends() {
    let (server, store) = server();
    let api: Api<Node> = Api::all(server.client("a"));
    let from = server.revision().to_string();
    store
        .create(
            NODES,
            json!({"metadata": {"name": "n1", "labels": {"gpu": "yes"}}}),
        )
        .unwrap();
    store
        .create(NODES, json!({"metadata": {"name": "n2"}}))
        .unwrap();
    let parameters = WatchParams::default().labels("gpu=yes").timeout(100);
    let mut events = api.watch(&parameters, &from).await.unwrap().boxed();
    store
        .change(NODES, None, "n1", |n| {
            n["spec"]["unschedulable"] = json!(true)
        })
        .unwrap();
    store
        .change(NODES, None, "n2", |n| {
            n["metadata"]["labels"]["gpu"] = json!("yes");
        })
        .unwrap();
    store
        .change(NODES, None, "n1", |n| {
            n["metadata"]["labels"]["gpu"] = json!("no");
        })
        .unwrap();
    store.delete(NODES, None, "n2", None).unwrap();
    let mut seen = Vec::new();
    let began = tokio::time::Instant::now();
    while let Some(event) = events.next().await {
        seen.push(match event.unwrap() {
            WatchEvent::Added(n) => format!("+{}", n.metadata.name.unwrap()),
            WatchEvent::Modified(n) => format!("~{}", n.metadata.name.unwrap()),
            WatchEvent::Deleted(n) => format!("-{}", n.metadata.name.unwrap()),
            WatchEvent::Bookmark(b) => format!("@{}", b.metadata.resource_version),
            WatchEvent::Error(e) => format!("!{}", e.code),
        });
    }
    let bookmark = format!("@{}", server.revision());
    let expected = ["+n1", "~n1", "+n2", "-n1", "-n2", &bookmark, &bookmark];
    assert_eq!(seen, expected);
    assert_eq!(began.elapsed(), Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_the_compaction_is_told_so() {
    let (server, store) = server();
    let api: Api<Node> = Api::all(server.client("a"));
    let from = server.revision().to_string();
    store
        .create(NODES, json!({"metadata": {"name": "n1"}}))
        .unwrap();
    server.compact();
    let mut events = api
        .watch(&WatchParams::default(), &from)
        .await
        .unwrap()
        .boxed();
    match events.next().await.unwrap().unwrap() {
        WatchEvent::Error(status) => {
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        }
        other => panic!("{other:?}"),
    }
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn json_patches_test_and_merge_patches_conflict() {
    let (server, store) = server();
    store
        .create(
            NODES,
            json!({"metadata": {"name": "n1"}, "spec": {"taints": []}}),
        )
        .unwrap();
    let api: Api<Node> = Api::all(server.client("a"));
    let parameters = PatchParams::default();
    let test = |version: &str| {
        Patch::Json::<()>(parsed(json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/spec/unschedulable", "value": true},
        ])))
    };
    let (code, reason, _) = refused(api.patch("n1", &parameters, &test("1")).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    let node = api.get("n1").await.unwrap();
    let version = node.metadata.resource_version.unwrap();
    let node = api.patch("n1", &parameters, &test(&version)).await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));

    let stale = json!({"metadata": {"resourceVersion": version, "labels": {"a": "b"}}});
    let conflict = api.patch("n1", &parameters, &Patch::Merge(stale)).await;
    assert_eq!(refused(conflict.unwrap_err()).0, 409);

    let conditions = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    for (kind, status) in [
        ("Ready", "True"),
        ("GpuHealthy", "True"),
        ("Ready", "False"),
    ] {
        api.patch_status(
            "n1",
            &parameters,
            &Patch::Strategic(conditions(kind, status)),
        )
        .await
        .unwrap();
    }
    let node = store.get(NODES, None, "n1").unwrap();
    assert_eq!(
        node["status"]["conditions"],
        json!([{"type": "Ready", "status": "False"}, {"type": "GpuHealthy", "status": "True"}])
    );
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_apart() {
    let (server, store) = server();
    store
        .create(
            PODS,
            json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": "Running"}}),
        )
        .unwrap();
    let api: Api<Pod> = Api::default_namespaced(server.client("a"));
    let pod = api.get("p").await.unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    let both = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Running"}});
    let pod = api
        .patch_status("p", &PatchParams::default(), &Patch::Merge(&both))
        .await
        .unwrap();
    assert_eq!(pod.spec.unwrap().active_deadline_seconds, None);
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    let pod = api
        .patch(
            "p",
            &PatchParams::default(),
            &Patch::Merge(&json!({"status": {"phase": "Failed"}})),
        )
        .await
        .unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_replaced_only_with_its_revision() {
    let (server, _) = server();
    let api: Api<Lease> = Api::default_namespaced(server.client("a"));
    let lease: Lease = parsed(
        json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "renewTime": "2026-03-01T12:00:00.000000Z"}}),
    );
    api.create(&PostParams::default(), &lease).await.unwrap();
    let unconditional = api.replace("l", &PostParams::default(), &lease).await;
    assert_eq!(refused(unconditional.unwrap_err()).0, 422);
}
