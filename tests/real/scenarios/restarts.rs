//! The controller dies at the worst moments, and another goes on.

use gpu_remediator::api::fault_status::Action;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use super::policy::Policy;
use super::world::{Application, FINE, INFERENCE, World};
use crate::harness::chart::{LEASE, NAMESPACE};
use crate::harness::product::{CHART_ELECTION, Controller, sample};
use crate::harness::wait::{eventually, seconds, throughout};
use crate::harness::workload;

/// The gate between cordon and eviction is open.
const OPEN: Application = Application { gate: 1, ..FINE };

/// Waits until the node is cordoned and the steps stand before the gate.
async fn at_the_gate(world: &World) {
    world
        .until(
            seconds(30),
            "the steps to stand before the gate",
            |status| {
                status.isolation.is_some()
                    && status
                        .attempts
                        .iter()
                        .any(|attempt| attempt.action == Action::Verify)
            },
        )
        .await;
    assert!(matches!(world.isolation().await, (true, Some(_))));
    assert_eq!(world.evicted(), Vec::<String>::new());
}

#[tokio::test]
async fn killed_between_cordon_and_eviction_and_again_in_the_drain_it_ends_the_same() {
    let mut world = World::start(Policy::drain_node().gate_after_cordon()).await;
    workload::disruption_budget(&world.cluster.admin, INFERENCE, "llm", 1).await;
    let mut first = world.controller().await;
    world.fail_gpu();
    at_the_gate(&world).await;
    first.kill();

    // While nobody acts, nothing happens, although it now might.
    world.application(OPEN).await;
    throughout(seconds(2), "a dead controller does nothing", async || {
        if world.evicted().is_empty() {
            return Ok(());
        }
        Err(format!("{:?}", world.evicted()))
    })
    .await;

    let mut second = world.controller().await;
    eventually(seconds(30), "the first eviction", async || {
        match world.evicted().len() {
            0 => Err("none yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    second.kill();
    let evicted = world.evicted().len();
    assert!(evicted < world.before.len(), "the drain was over already");

    let _third = world.controller().await;
    world
        .until(seconds(60), "the drain to be over", |status| {
            status.timeline.drained_at.is_some()
        })
        .await;
    world.repair();
    world.expect_recovered().await;
}

#[tokio::test]
async fn of_two_controllers_one_acts_and_the_other_goes_on_within_the_lease_time() {
    let mut world = World::start(Policy::drain_node().gate_after_cordon()).await;
    let mut first = world.controller_with(CHART_ELECTION).await;
    let leases: Api<Lease> = Api::namespaced(world.cluster.admin.clone(), NAMESPACE);
    let holder = async |is: &str| -> Result<(), String> {
        let lease = leases.get(LEASE).await.map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        if holder.as_deref() == Some(is) {
            return Ok(());
        }
        Err(format!("{holder:?} holds the lease"))
    };
    eventually(seconds(20), "the first to lead", async || {
        holder(first.identity()).await
    })
    .await;
    let second = world.controller_with(CHART_ELECTION).await;
    world.scrape(&[&first, &second]).await;

    world.fail_gpu();
    at_the_gate(&world).await;
    assert_eq!(leading(&first).await, 1.0);
    assert_eq!(leading(&second).await, 0.0);
    let idle = second.metrics().await;
    for action in ["Cordon", "EvictPods", "Verify", "Uncordon"] {
        let series = format!("gpu_remediator_actions_total{{action=\"{action}\"}}");
        assert_eq!(
            sample(&idle, &series),
            0.0,
            "the one that does not lead has acted"
        );
    }

    first.kill();
    world.application(OPEN).await;
    // The lease runs out 15 s after its last renewal, and is then taken within
    // one retry; the rest is what a busy machine may add.
    let within = CHART_ELECTION.lease + CHART_ELECTION.retry + seconds(3);
    eventually(within, "the second to lead", async || {
        holder(second.identity()).await
    })
    .await;
    world
        .until(seconds(60), "the drain to be over", |status| {
            status.timeline.drained_at.is_some()
        })
        .await;
    world.repair();
    world.expect_recovered().await;
    assert_eq!(leading(&second).await, 1.0);
}

/// What the controller says about leading.
async fn leading(controller: &Controller) -> f64 {
    sample(&controller.metrics().await, "gpu_remediator_leader")
}
