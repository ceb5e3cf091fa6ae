//! What people do to a node counts for more than what the product wants.

use gpu_remediator::api::Phase;
use serde_json::json;

use super::policy::Policy;
use super::world::{FAULTY, World};
use crate::harness::tools::kubectl;
use crate::harness::wait::{eventually, seconds, throughout};

#[tokio::test]
async fn a_person_who_uncordons_cancels_the_fault() {
    let mut world = World::start(Policy::drain_node().gate_after_cordon()).await;
    let _controller = world.controller().await;
    world.fail_gpu();
    world
        .until(seconds(30), "the node to be cordoned", |status| {
            status.isolation.is_some()
        })
        .await;
    let kubeconfig = world.cluster.admin_kubeconfig().to_owned();
    kubectl(&kubeconfig, ["uncordon", FAULTY], "").expect_ok("kubectl uncordon");
    world.in_phase(seconds(20), Phase::Cancelled).await;
    throughout(seconds(4), "the node is left alone", async || {
        let (cordoned, _) = world.isolation().await;
        if !cordoned && world.evicted().is_empty() {
            return Ok(());
        }
        Err(format!(
            "cordoned: {cordoned}, evicted {:?}",
            world.evicted()
        ))
    })
    .await;
    assert_eq!(world.isolation().await.1, None);
}

#[tokio::test]
async fn a_node_that_a_person_had_cordoned_stays_cordoned() {
    let mut world = World::start(Policy::drain_node()).await;
    let _controller = world.controller().await;
    let kubeconfig = world.cluster.admin_kubeconfig().to_owned();
    kubectl(&kubeconfig, ["cordon", FAULTY], "").expect_ok("kubectl cordon");
    world.fail_gpu();
    world
        .until(seconds(60), "the drain to be over", |status| {
            status.timeline.drained_at.is_some()
        })
        .await;
    world.repair();
    world.in_phase(seconds(60), Phase::Recovered).await;
    assert_eq!(world.isolation().await, (true, None));
}

#[tokio::test]
async fn deleting_an_open_fault_undoes_its_isolation() {
    let mut world = World::start(Policy::drain_node().gate_after_cordon()).await;
    let _controller = world.controller().await;
    // Made by hand, and so not made again by a rule.
    world.apply(
        &json!({
            "apiVersion": "gpu-remediator.dev/v1alpha1",
            "kind": "GpuFault",
            "metadata": {"name": "by-hand"},
            "spec": {"nodeName": FAULTY, "policyRef": {"name": super::policy::DRAIN_NODE}},
        })
        .to_string(),
    );
    world
        .until(seconds(30), "the node to be cordoned", |status| {
            status.isolation.is_some()
        })
        .await;
    let kubeconfig = world.cluster.admin_kubeconfig().to_owned();
    kubectl(
        &kubeconfig,
        ["delete", "gpufault", "by-hand", "--timeout=30s"],
        "",
    )
    .expect_ok("kubectl delete gpufault");
    eventually(
        seconds(10),
        "the isolation to be undone",
        async || match world.isolation().await {
            (false, None) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    assert!(world.faults().await.expect("a list").is_empty());
}
