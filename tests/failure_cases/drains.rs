//! Pods that do not go, and pods that come back.

use std::collections::BTreeSet;
use std::time::Duration;

use gpu_remediator::api::Phase;
use gpu_remediator::sim::api_server::resources;
use gpu_remediator::sim::world::{Behaviour, Owner, Workload, WorldPlan};
use serde_json::json;

use crate::cluster::{Cluster, HOUR, Look, MINUTE, node_of, policy, run, shipped_rules};

const OWNERS: [Owner; 3] = [Owner::Deployment, Owner::StatefulSet, Owner::Job];

async fn cluster(workload: Workload, nodes: u32) -> Cluster {
    let plan = WorldPlan::new().nodes(nodes, 8).workload(workload);
    Cluster::start(plan, shipped_rules(), policy(|_| {})).await
}

/// Breaks a GPU of a node that runs a pod of the workload, and answers the node.
fn break_under(cluster: &Cluster, app: &str) -> String {
    let pods = cluster.sim.pods(app);
    let node = node_of(&pods[0]).to_owned();
    assert!(!node.is_empty(), "the pod runs nowhere");
    cluster.sim.world.hardware().xid(&node, 0, 79);
    node
}

#[test]
fn c1_a_budget_that_allows_nobody_blocks_until_the_deadline_and_is_never_passed_over() {
    for never_ready in [false, true] {
        run(async move {
            let behaviour = Behaviour {
                never_ready,
                ..Behaviour::default()
            };
            let llm = Workload::new("ml", "llm", Owner::Deployment, 2, 4);
            let cluster = cluster(llm.min_available("2").behaving(behaviour), 2).await;
            let node = break_under(&cluster, "llm");
            let before: BTreeSet<_> = cluster
                .sim
                .pods("llm")
                .iter()
                .map(|p| p["metadata"]["uid"].to_string())
                .collect();
            cluster.wait(5 * MINUTE).await;
            assert_eq!(
                cluster.sim.reason(&node),
                "BlockedByDisruptionBudget",
                "{}",
                cluster.sim.told()
            );
            let failed = |s: &_| Look::phase(s, &node) == Some(Phase::Failed);
            cluster.until("failed", HOUR, failed).await;
            assert_eq!(cluster.sim.reason(&node), "EvictionTimedOut");
            let asked = cluster.evictions();
            assert!(asked.iter().all(|a| a.code == 429), "{asked:?}");
            // Fifteen minutes, two pods, at most one call each in five seconds.
            assert!(asked.len() <= 2 * 15 * 12 + 2, "{} calls", asked.len());
            let after: BTreeSet<_> = cluster
                .sim
                .pods("llm")
                .iter()
                .map(|p| p["metadata"]["uid"].to_string())
                .collect();
            assert_eq!(before, after);
            assert!(cluster.sim.is_cordoned(&node));
            cluster.end();
        });
    }
}

#[test]
fn c2_a_pod_made_again_under_the_same_name_is_left_alone_wherever_it_is() {
    // With a second node it runs there; without, it waits.
    for nodes in [1, 2] {
        run(async move {
            let cluster = cluster(Workload::new("ml", "db", Owner::StatefulSet, 2, 2), nodes).await;
            let names: BTreeSet<_> = cluster
                .sim
                .pods("db")
                .iter()
                .map(|p| p["metadata"]["name"].to_string())
                .collect();
            let node = break_under(&cluster, "db");
            let there = cluster
                .sim
                .pods("db")
                .iter()
                .filter(|p| node_of(p) == node)
                .count();
            let drained =
                |s: &_| Look::status(s, &node).is_some_and(|s| s.timeline.drained_at.is_some());
            cluster.until("drained", 10 * MINUTE, drained).await;
            cluster.wait(10 * MINUTE).await;
            assert_eq!(
                cluster.evictions().len(),
                there,
                "{:?}",
                cluster.evictions()
            );
            let pods = cluster.sim.pods("db");
            assert!(pods.iter().all(|p| node_of(p) != node), "none came back");
            assert!(
                pods.iter()
                    .all(|p| names.contains(&p["metadata"]["name"].to_string()))
            );
            cluster.end();
        });
    }
}

#[test]
fn c4_a_pod_that_hangs_in_terminating_is_not_counted_as_gone() {
    for owner in OWNERS {
        run(async move {
            let hangs = Behaviour {
                hangs: true,
                ..Behaviour::default()
            };
            let cluster = cluster(Workload::new("ml", "llm", owner, 2, 4).behaving(hangs), 3).await;
            let node = break_under(&cluster, "llm");
            cluster.wait(10 * MINUTE).await;
            let status = cluster.sim.status(&node).unwrap();
            assert_eq!(
                (status.phase, status.reason.as_str()),
                (Phase::Processing, "PodsTerminating")
            );
            assert_eq!(status.timeline.drained_at, None);
            let failed = |s: &_| Look::phase(s, &node) == Some(Phase::Failed);
            cluster.until("failed", HOUR, failed).await;
            assert!(cluster.sim.is_cordoned(&node));
            cluster.end();
        });
    }
}

#[test]
fn c5_a_pod_that_takes_ninety_seconds_to_end_costs_one_call() {
    for owner in OWNERS {
        run(async move {
            let slow = Behaviour {
                end: Duration::from_secs(90),
                ..Behaviour::default()
            };
            let mut llm = Workload::new("ml", "llm", owner, 4, 2).behaving(slow);
            llm.grace = Duration::from_secs(120);
            let cluster = cluster(llm, 3).await;
            let node = break_under(&cluster, "llm");
            let there = cluster
                .sim
                .pods("llm")
                .iter()
                .filter(|p| node_of(p) == node)
                .count();
            let drained =
                |s: &_| Look::status(s, &node).is_some_and(|s| s.timeline.drained_at.is_some());
            cluster.until("drained", 10 * MINUTE, drained).await;
            assert_eq!(cluster.evictions().len(), there);
            cluster.end();
        });
    }
}

#[test]
fn c7_a_pod_under_two_budgets_fails_the_drain_with_one_call() {
    run(async {
        let llm = Workload::new("ml", "llm", Owner::Deployment, 2, 4).min_available("1");
        let cluster = cluster(llm, 2).await;
        let second = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "second", "namespace": "ml"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "llm"}}},
        });
        let person = cluster.sim.world.person();
        person
            .create(resources::POD_DISRUPTION_BUDGETS, second)
            .unwrap();
        cluster.wait(MINUTE).await;
        let node = break_under(&cluster, "llm");
        let there = cluster
            .sim
            .pods("llm")
            .iter()
            .filter(|p| node_of(p) == node)
            .count();
        cluster.wait(HOUR).await;
        let status = cluster.sim.status(&node).unwrap();
        assert_eq!(
            (status.phase, status.reason.as_str()),
            (Phase::Failed, "EvictionRefused")
        );
        let asked = cluster.evictions();
        assert_eq!(asked.len(), there, "{asked:?}");
        assert!(asked.iter().all(|a| a.code == 500), "{asked:?}");
        assert!(cluster.sim.is_cordoned(&node));
        cluster.end();
    });
}
