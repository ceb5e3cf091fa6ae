//! WATCH, and what kube-runtime makes of it.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::{Value, json};

use super::ground::{CUSTOM, Ground, MERGE, STRATEGIC, Watch, revision, text, version};
use super::objects;

/// The path of the case's pods, and a watch of what happens to them from now on.
async fn from_now(ground: &Ground, query: &str) -> (String, Watch) {
    let path = ground.path("pods", "");
    let list = ground.get(&path).await.expect(200);
    let query = format!("resourceVersion={}&{query}", version(&list));
    let watch = ground.watch(&path, &query).await;
    (path, watch)
}

async fn remove(ground: &Ground, name: &str) -> Value {
    ground
        .delete_with(
            &ground.path("pods", name),
            &json!({"gracePeriodSeconds": 0}),
        )
        .await
        .expect(200)
}

/// The object of the event that says that a pod is gone. The real server may write its end down first.
async fn gone(watch: &mut Watch, name: &str) -> Value {
    let (mut kind, mut object) = watch.event().await;
    if kind == "MODIFIED" {
        assert_eq!(
            object["metadata"]["deletionGracePeriodSeconds"], 0,
            "{object}"
        );
        (kind, object) = watch.event().await;
    }
    assert_eq!(
        (kind.as_str(), text(&object["metadata"]["name"])),
        ("DELETED", name)
    );
    object
}

async fn label(ground: &Ground, name: &str, value: &Value) -> Value {
    ground
        .patch(
            &ground.path("pods", name),
            MERGE,
            &json!({"metadata": {"labels": {"tier": value}}}),
        )
        .await
        .expect(200)
}

pub async fn changes_come_in_their_order(ground: &Ground) {
    let (_, mut watch) = from_now(ground, "").await;
    let made = ground.pod("a", |_| ()).await;
    let changed = label(ground, "a", &json!("web")).await;
    ground.pod("b", |_| ()).await;
    remove(ground, "a").await;
    assert_eq!(watch.expect("ADDED", "a").await, made);
    assert_eq!(watch.expect("MODIFIED", "a").await, changed);
    let other = watch.expect("ADDED", "b").await;
    assert_eq!(other["kind"], "Pod");
    let gone = gone(&mut watch, "a").await;
    assert_eq!(gone["metadata"]["labels"]["tier"], "web");
    assert!(revision(&other) > revision(&changed));
    assert!(revision(&gone) > revision(&other), "the end has a revision of its own");
}

pub async fn a_watch_goes_on_where_another_ended(ground: &Ground) {
    let path = ground.path("pods", "");
    let first = ground.pod("a", |_| ()).await;
    ground.pod("b", |_| ()).await;
    remove(ground, "a").await;
    let query = format!("resourceVersion={}", version(&first));
    let mut watch = ground.watch(&path, &query).await;
    watch.expect("ADDED", "b").await;
    let gone = gone(&mut watch, "a").await;
    let mut watch = ground
        .watch(&path, &format!("resourceVersion={}", version(&gone)))
        .await;
    ground.pod("c", |_| ()).await;
    watch.expect("ADDED", "c").await;
}

pub async fn a_watch_from_nowhere_begins_with_what_is_there(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    let path = ground.path("pods", "");
    for (query, tier) in [("", "web"), ("resourceVersion=0", "db")] {
        let mut watch = ground.watch(&path, query).await;
        watch.expect("ADDED", "a").await;
        label(ground, "a", &json!(tier)).await;
        let (kind, _) = watch.event().await;
        assert_eq!(kind, "MODIFIED");
    }
}

pub async fn a_write_that_changes_nothing_is_no_event(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    let changed = label(ground, "a", &json!("web")).await;
    let (_, mut watch) = from_now(ground, "").await;
    let same = label(ground, "a", &json!("web")).await;
    assert_eq!(version(&same), version(&changed));
    label(ground, "a", &json!("db")).await;
    let event = watch.expect("MODIFIED", "a").await;
    assert_eq!(event["metadata"]["labels"]["tier"], "db");
}

pub async fn a_status_is_a_change_too(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    let (_, mut watch) = from_now(ground, "").await;
    let told = ground.pod_status("a", "Running", true).await;
    assert_eq!(watch.expect("MODIFIED", "a").await, told);
}

pub async fn what_leaves_a_label_selection_is_deleted_from_it(ground: &Ground) {
    ground.pod("a", |_| ()).await;
    let (_, mut watch) = from_now(ground, "labelSelector=tier%3Dweb").await;
    label(ground, "a", &json!("web")).await;
    let left = label(ground, "a", &json!("db")).await;
    label(ground, "a", &json!("other")).await;
    label(ground, "a", &json!("web")).await;
    remove(ground, "a").await;
    watch.expect("ADDED", "a").await;
    let event = watch.expect("DELETED", "a").await;
    assert_eq!(version(&event), version(&left));
    // The object as it was while it was selected.
    assert_eq!(event["metadata"]["labels"]["tier"], "web");
    watch.expect("ADDED", "a").await;
    gone(&mut watch, "a").await;
}

pub async fn a_pod_comes_to_a_nodes_watch_when_it_is_bound(ground: &Ground) {
    let node = ground.unique("node");
    let query = format!("fieldSelector=spec.nodeName%3D{node}");
    let list = ground
        .get(&format!("/api/v1/pods?{query}"))
        .await
        .expect(200);
    let query = format!("{query}&resourceVersion={}", version(&list));
    let mut watch = ground.watch("/api/v1/pods", &query).await;
    ground
        .pod("a", |pod| pod["spec"]["nodeName"] = json!(null))
        .await;
    let target = json!({
        "metadata": {"name": "a"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    ground
        .post(&ground.path("pods", "a/binding"), &target)
        .await
        .expect(201);
    ground.pod_status("a", "Running", true).await;
    let bound = watch.expect("ADDED", "a").await;
    assert_eq!(bound["spec"]["nodeName"], node.as_str());
    let runs = watch.expect("MODIFIED", "a").await;
    assert_eq!(runs["status"]["phase"], "Running");
    remove(ground, "a").await;
    gone(&mut watch, "a").await;
}

pub async fn a_name_can_be_watched_alone(ground: &Ground) {
    let (_, mut watch) = from_now(ground, "fieldSelector=metadata.name%3Db").await;
    ground.pod("a", |_| ()).await;
    ground.pod("b", |_| ()).await;
    watch.expect("ADDED", "b").await;
}

pub async fn the_end_of_an_object_is_two_events(ground: &Ground) {
    let mut object = objects::fault(ground, "a");
    object["metadata"]["finalizers"] = json!(["example.test/hold"]);
    let path = format!("{CUSTOM}/gpufaults");
    let made = ground.post(&path, &object).await.expect(201);
    let name = text(&made["metadata"]["name"]);
    let query = format!(
        "fieldSelector=metadata.name%3D{name}&resourceVersion={}",
        version(&made)
    );
    let mut watch = ground.watch(&path, &query).await;
    let one = format!("{path}/{name}");
    ground.delete(&one).await.expect(200);
    let ending = watch.expect("MODIFIED", name).await;
    assert_ne!(ending["metadata"]["deletionTimestamp"], json!(null));
    ground
        .patch(&one, MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    let gone = watch.expect("DELETED", name).await;
    assert!(revision(&gone) > revision(&ending));
}

pub async fn a_pods_grace_is_seen(ground: &Ground) {
    ground.ready_pod("a").await;
    let (_, mut watch) = from_now(ground, "").await;
    ground
        .delete(&ground.path("pods", "a"))
        .await
        .expect(200);
    let ending = watch.expect("MODIFIED", "a").await;
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    remove(ground, "a").await;
    // The real server shortens the grace in a write of its own.
    loop {
        let (kind, object) = watch.event().await;
        assert_eq!(object["metadata"]["deletionGracePeriodSeconds"], 0);
        if kind == "DELETED" {
            break;
        }
        assert_eq!(kind, "MODIFIED");
    }
}

pub async fn a_watch_ends_when_its_time_is_up(ground: &Ground) {
    let (_, mut watch) = from_now(ground, "timeoutSeconds=2").await;
    let began = tokio::time::Instant::now();
    assert_eq!(watch.next().await, None);
    let took = began.elapsed();
    assert!((1..20).contains(&took.as_secs()), "{took:?}");
}

pub async fn bookmarks_tell_how_far_a_watch_has_come(ground: &Ground) {
    let made = ground.pod("a", |_| ()).await;
    let (_, mut watch) = from_now(ground, "allowWatchBookmarks=true&timeoutSeconds=5").await;
    let (kind, bookmark) = watch.event().await;
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(bookmark["kind"], "Pod");
    assert_eq!(bookmark["apiVersion"], "v1");
    assert!(revision(&bookmark) >= revision(&made));
    assert_eq!(bookmark["metadata"]["name"], json!(null));
    let mut again = ground
        .watch(
            &ground.path("pods", ""),
            &format!("resourceVersion={}", version(&bookmark)),
        )
        .await;
    label(ground, "a", &json!("web")).await;
    again.expect("MODIFIED", "a").await;
}

pub async fn a_history_that_is_gone_is_said_so(ground: &Ground) {
    let path = format!("{CUSTOM}/gpufaults");
    ground
        .post(&path, &objects::fault(ground, "a"))
        .await
        .expect(201);
    (ground.forget)();
    let mut watch = ground.watch(&path, "resourceVersion=1").await;
    let (kind, status) = watch.event().await;
    assert_eq!(kind, "ERROR");
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["status"], "Failure");
    assert_eq!(status["reason"], "Expired");
    assert_eq!(status["code"], 410);
    assert!(
        text(&status["message"]).starts_with("too old resource version: 1 ("),
        "{status}"
    );
    assert_eq!(watch.next().await, None);
}

pub async fn kube_lists_and_then_follows(ground: &Ground) {
    use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
    for name in ["a", "b"] {
        ground.pod(name, |_| ()).await;
    }
    let api: Api<Pod> = Api::namespaced(ground.client.clone(), &ground.namespace);
    let config = watcher::Config::default().page_size(1);
    let mut stream = watcher(api, config).boxed();
    let mut seen = Vec::new();
    let mut done = 0;
    while seen.len() < 7 {
        let event = tokio::time::timeout(std::time::Duration::from_secs(30), stream.try_next())
            .await
            .expect("an event in time")
            .expect("no error")
            .expect("no end");
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        seen.push(match &event {
            Init => "init".to_owned(),
            InitApply(pod) => format!("init {}", name(pod)),
            InitDone => "done".to_owned(),
            // The real server may write the end of a pod down before the pod goes.
            Apply(pod) if pod.metadata.deletion_timestamp.is_some() => continue,
            Apply(pod) => format!("apply {}", name(pod)),
            Delete(pod) => format!("delete {}", name(pod)),
        });
        if matches!(event, InitDone) && done == 0 {
            done += 1;
            ground.pod("c", |_| ()).await;
            ground
                .patch(
                    &ground.path("pods", "a/status"),
                    STRATEGIC,
                    &json!({"status": {"phase": "Running"}}),
                )
                .await
                .expect(200);
            remove(ground, "b").await;
        }
    }
    assert_eq!(
        seen,
        ["init", "init a", "init b", "done", "apply c", "apply a", "delete b"]
    );
}

pub async fn a_reflector_holds_what_the_server_holds(ground: &Ground) {
    use gpu_remediator::kubernetes::views::PodView;
    ground.ready_pod("a").await;
    let api: Api<PodView> = Api::namespaced(ground.client.clone(), &ground.namespace);
    let node = ground.unique("node");
    let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let (store, writer) = reflector::store();
    let mut stream = watcher(api, config)
        .modify(PodView::trim)
        .reflect(writer)
        .boxed();
    let mut changed = false;
    let names = || {
        let mut names: Vec<String> = store
            .state()
            .iter()
            .filter_map(|pod| pod.metadata.name.clone())
            .collect();
        names.sort();
        names
    };
    loop {
        tokio::time::timeout(std::time::Duration::from_secs(30), stream.try_next())
            .await
            .expect("an event in time")
            .expect("no error");
        let found = names();
        if !changed && found == ["a"] {
            changed = true;
            ground.ready_pod("b").await;
            ground
                .pod("elsewhere", |pod| pod["spec"]["nodeName"] = json!("other"))
                .await;
            remove(ground, "a").await;
        }
        if changed && found == ["b"] {
            break;
        }
        assert!(!found.contains(&"elsewhere".to_owned()), "{found:?}");
    }
}
