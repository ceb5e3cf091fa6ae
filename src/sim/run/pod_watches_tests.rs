//! What is kept of the pods of a node and of a namespace.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::simulation::BEGINNING;
use crate::api::fault_status::PodRef;
use crate::clock::Clock;
use crate::controller::nudges::Nudges;
use crate::controller::pod_watches::{PodWatches, Scope};
use crate::sim::api_server::resources::PODS;
use crate::sim::api_server::{ApiServer, Store};

fn pod(store: &Store, name: &str, owners: &Value) {
    let made = store.create(
        PODS,
        json!({
            "metadata": {"namespace": "default", "name": name, "ownerReferences": owners,
                "labels": {"app": "x"}},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
        }),
    );
    made.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_watched_for_what_may_replace_and_a_node_for_everything() {
    let origin = Timestamp::from_second(BEGINNING).unwrap();
    let server = ApiServer::new(Clock::starting_at(origin));
    let store = server.store("person");
    let owners = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": true,
    }]);
    pod(&store, "owned", &owners);
    pod(&store, "alone", &json!([]));
    let watches = PodWatches::new(server.client("controller"), Nudges::channel().0);
    let scopes = [
        Scope::Namespace("default".to_owned()),
        Scope::Node("a".to_owned()),
    ];
    let names = |scope: &Scope| -> Option<Vec<String>> {
        let pods = watches.pods(scope, "fault")?;
        let name =
            |pod: &std::sync::Arc<crate::kubernetes::views::PodView>| pod.metadata.name.clone();
        Some(pods.iter().filter_map(name).collect())
    };
    assert_eq!(scopes.each_ref().map(names), [None, None]);
    sleep(Duration::from_secs(1)).await;
    let sorted = |scope: &Scope| names(scope).map(BTreeSet::from_iter);
    let set = |names: &[&str]| {
        Some(
            names
                .iter()
                .map(|n| (*n).to_owned())
                .collect::<BTreeSet<_>>(),
        )
    };
    assert_eq!(sorted(&scopes[0]), set(&["owned"]));
    assert_eq!(sorted(&scopes[1]), set(&["alone", "owned"]));
    // Budgets select by labels: they are looked for in the watch that keeps them.
    let uid = store.get(PODS, Some("default"), "owned").unwrap()["metadata"]["uid"].clone();
    let owned = PodRef {
        namespace: "default".to_owned(),
        name: "owned".to_owned(),
        uid: uid.as_str().unwrap().to_owned(),
    };
    assert!(watches.find(&owned).unwrap().metadata.labels.is_some());
    // A pod that is released by its owner, and one that is made later.
    store
        .change(PODS, Some("default"), "owned", |pod| {
            pod["metadata"]["ownerReferences"] = json!([]);
        })
        .unwrap();
    pod(&store, "later", &owners);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(sorted(&scopes[0]), set(&["later"]));
    assert_eq!(sorted(&scopes[1]), set(&["alone", "later", "owned"]));
}
