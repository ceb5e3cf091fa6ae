//! Prometheus or the API server is gone for a while, or the driver hangs.

use gpu_remediator::api::Phase;

use super::policy::Policy;
use super::world::{GPU, World};
use crate::harness::product::sample;
use crate::harness::wait::{eventually, seconds, throughout};

#[tokio::test]
async fn without_prometheus_no_fault_opens_and_no_node_comes_back() {
    let mut world = World::start(Policy::drain_node()).await;
    let mut controller = world.controller().await;
    world.fail_gpu();
    world
        .until(seconds(60), "the repair to be awaited", |status| {
            status.reason == "Verifying" && status.timeline.drained_at.is_some()
        })
        .await;
    world.prometheus.stop();
    world.repair();
    // The other node fails as well, which nobody can know now.
    world.spare.fall_off_the_bus(0);
    eventually(
        seconds(20),
        "the outage to be visible",
        async || match sample(&controller.metrics().await, "gpu_remediator_prometheus_up") {
            0.0 => Ok(()),
            other => Err(format!("gpu_remediator_prometheus_up is {other}")),
        },
    )
    .await;
    throughout(
        seconds(8),
        "nothing is decided without evidence",
        async || {
            let status = world.fault().await?.status.unwrap_or_default();
            match (status.phase, world.isolation().await) {
                (Phase::Processing, (true, Some(_))) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        },
    )
    .await;
    world.spare.heal(0);
    world.prometheus.start_again().await;
    eventually(seconds(60), "the node to come back", async || {
        match world.isolation().await {
            (false, None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    controller.process().expect_running();
}

#[tokio::test]
async fn an_api_server_that_is_gone_for_half_a_minute_costs_nothing_but_time() {
    let mut world = World::start(Policy::drain_node().gate_after_cordon()).await;
    let mut controller = world.controller().await;
    world.fail_gpu();
    world
        .until(seconds(30), "the node to be cordoned", |status| {
            status.isolation.is_some()
        })
        .await;
    world.cluster.stop_apiserver();
    throughout(
        seconds(30),
        "the controller lives on",
        async || match controller.process().exit_status() {
            None => Ok(()),
            Some(status) => Err(format!("it ended: {status}")),
        },
    )
    .await;
    world.cluster.start_apiserver_again().await;
    world
        .application(super::world::Application {
            gate: 1,
            ..super::world::FINE
        })
        .await;
    world
        .until(seconds(90), "the drain to be over", |status| {
            status.timeline.drained_at.is_some()
        })
        .await;
    world.repair();
    world.expect_recovered().await;
    controller.process().expect_running();
}

#[tokio::test]
async fn a_driver_call_that_hangs_does_not_hang_the_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut exporter = crate::harness::product::Exporter::start(folder.path(), "gpu-a").await;
    exporter.change(|scenario| scenario.gpus[GPU].hang_seconds = 600.0);
    eventually(seconds(30), "the hang to be told", async || {
        let (metrics, took) = exporter.metrics().await;
        // Milliseconds; the bound leaves room for a machine that is busy
        // building.
        assert!(took < std::time::Duration::from_millis(500), "{took:?}");
        // Which labels a GPU has that never answered is the exporter's affair.
        let hung = metrics.lines().any(|line| {
            line.starts_with("gpu_collect_hung{")
                && line.contains("gpu=\"3\"")
                && line.rsplit(' ').next().and_then(|value| value.parse().ok()) == Some(1.0)
        });
        if hung {
            return Ok(());
        }
        Err("gpu_collect_hung is not 1".to_owned())
    })
    .await;
}
