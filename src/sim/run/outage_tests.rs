//! The product's own clients and writers on a bad line.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;
use tokio::time::Instant;

use super::simulation::BEGINNING;
use crate::api::GpuFaultRule;
use crate::api::rule::RuleStatus;
use crate::clock::Clock;
use crate::controller::rule_status::StatusWriter;
use crate::kubernetes::clients::{ANSWER_BEGINS_WITHIN, Clients, LONGEST_SILENCE};
use crate::kubernetes::views::NodeView;
use crate::kubernetes::watch_backoff::WatchBackoff;
use crate::sim::api_server::resources::{GPU_FAULT_RULES, NODES};
use crate::sim::api_server::{ApiServer, Store};
use crate::sim::faults::{CallFault, Fault, Gate, Injector};

const MINUTE: Duration = Duration::from_secs(60);

struct Cluster {
    store: Store,
    clients: Clients,
    gate: Gate,
    injector: Injector,
}

fn cluster() -> Cluster {
    let server = ApiServer::new(Clock::starting_at(
        Timestamp::from_second(BEGINNING).unwrap(),
    ));
    let (injector, gate) = (Injector::new(Vec::new(), Vec::new()), Gate::default());
    let service = injector.service("controller", server.service("controller"), &gate);
    Cluster {
        store: server.store("person"),
        clients: Clients::over(service),
        gate,
        injector,
    }
}

/// A cache of nodes as the controller keeps one.
fn follow_nodes(clients: &Clients) -> reflector::Store<NodeView> {
    let (store, writer) = reflector::store();
    let api: Api<NodeView> = Api::all(clients.watch.clone());
    let mut events = watcher(api, watcher::Config::default())
        .backoff(WatchBackoff::default())
        .reflect(writer)
        .boxed();
    tokio::spawn(async move { while events.next().await.is_some() {} });
    store
}

async fn until_cached(nodes: &reflector::Store<NodeView>, name: &str, within: Duration) {
    let end = Instant::now() + within;
    let has = |nodes: &reflector::Store<NodeView>| {
        let all = nodes.state();
        all.iter().any(|n| n.metadata.name.as_deref() == Some(name))
    };
    while !has(nodes) {
        assert!(Instant::now() < end, "{name} is not seen within {within:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn node(store: &Store, name: &str) {
    store
        .create(NODES, json!({"metadata": {"name": name}}))
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cache_catches_up_after_the_line_was_dead() {
    let cluster = cluster();
    node(&cluster.store, "a");
    let nodes = follow_nodes(&cluster.clients);
    until_cached(&nodes, "a", MINUTE).await;
    // The connection dies without a word, and the attempts to make another are lost as well.
    for silence in [5, 100, 600] {
        cluster.gate.partition(true);
        tokio::time::sleep(Duration::from_secs(silence)).await;
        let name = format!("made-in-{silence}");
        node(&cluster.store, &name);
        cluster.gate.partition(false);
        let within = LONGEST_SILENCE + ANSWER_BEGINS_WITHIN + Duration::from_secs(10);
        until_cached(&nodes, &name, within).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_is_made_again() {
    let cluster = cluster();
    node(&cluster.store, "a");
    cluster.injector.begin(Fault::Call(CallFault::NoAnswer));
    let nodes = follow_nodes(&cluster.clients);
    tokio::time::sleep(5 * MINUTE).await;
    assert!(nodes.state().is_empty());
    cluster.injector.end(Fault::Call(CallFault::NoAnswer));
    until_cached(&nodes, "a", ANSWER_BEGINS_WITHIN + Duration::from_secs(10)).await;
}

/// A quiet watch is no dead one: bookmarks keep it open.
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_stays_open() {
    let cluster = cluster();
    node(&cluster.store, "a");
    let nodes = follow_nodes(&cluster.clients);
    until_cached(&nodes, "a", MINUTE).await;
    let calls = cluster.gate.passed();
    tokio::time::sleep(Duration::from_secs(280)).await;
    assert_eq!(cluster.gate.passed(), calls);
}

fn rule(policy: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": "r"},
        "spec": {"groups": [{"name": "g", "rules": [
            {"alert": "A", "expr": "up", "remediation": {"policy": policy}},
        ]}]},
    })
}

fn states() -> Vec<RuleStatus> {
    vec![serde_json::from_value(json!({"group": "g", "alert": "A", "state": "Firing"})).unwrap()]
}

#[tokio::test(start_paused = true)]
async fn the_state_of_a_rule_is_not_written_on_another_of_its_name() {
    let cluster = cluster();
    let store = &cluster.store;
    let read = || -> GpuFaultRule {
        let value = store.get(GPU_FAULT_RULES, None, "r").unwrap();
        serde_json::from_value(Arc::unwrap_or_clone(value)).unwrap()
    };
    store.create(GPU_FAULT_RULES, rule("p")).unwrap();
    let mut writer = StatusWriter::new(cluster.clients.act.clone(), &read());
    // A label, or another spec: the same object still, and its state is told.
    store
        .change(GPU_FAULT_RULES, None, "r", |r| {
            r["metadata"]["labels"] = json!({"team": "a"});
        })
        .unwrap();
    let now = Timestamp::from_second(BEGINNING).unwrap();
    writer.write(states(), now).await.unwrap();
    assert_eq!(read().status.unwrap().rules.len(), 1);
    store.delete(GPU_FAULT_RULES, None, "r", None).unwrap();
    store.create(GPU_FAULT_RULES, rule("another")).unwrap();
    let later = now + jiff::SignedDuration::from_secs(3600);
    writer.write(states(), later).await.unwrap();
    assert_eq!(read().status, None);
}
