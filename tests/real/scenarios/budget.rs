//! Two nodes fail at once, and the budget lets one go at a time.

use gpu_remediator::api::{GpuFaultStatus, Phase, conditions};

use super::policy::Policy;
use super::world::{Application, FAULTY, FINE, SPARE, World};
use crate::harness::product::sample;
use crate::harness::wait::{eventually, seconds, throughout};

#[tokio::test]
async fn no_more_nodes_are_out_than_the_budget_allows() {
    one_after_the_other(
        Policy::drain_node().budget("50%", 2),
        "BudgetMaxUnavailable",
        "1 of 2 nodes",
    )
    .await;
}

#[tokio::test]
async fn no_more_nodes_are_worked_on_than_the_budget_allows() {
    one_after_the_other(
        Policy::drain_node().budget("100%", 1),
        "BudgetMaxConcurrent",
        "at most 1",
    )
    .await;
}

/// Status of the one fault of `node`.
async fn status_of(world: &World, node: &str) -> Result<GpuFaultStatus, String> {
    let mut faults = world.faults().await?;
    faults.retain(|fault| fault.spec.node_name == node);
    assert!(faults.len() < 2, "two faults of {node}: {faults:#?}");
    let fault = faults.pop().ok_or("there is no fault")?;
    fault.status.ok_or_else(|| "no status".to_owned())
}

async fn one_after_the_other(policy: Policy, reason: &str, said: &str) {
    let mut world = World::start(policy.gate_after_cordon()).await;
    let controller = world.controller().await;
    world.fail_gpu();
    world
        .until(seconds(30), "the first node to be cordoned", |status| {
            status.isolation.is_some()
        })
        .await;
    world.spare.fall_off_the_bus(0);
    eventually(seconds(30), "the second fault to be held", async || {
        let status = status_of(&world, SPARE).await?;
        if status.reason != reason {
            return Err(format!("{}: {}", status.reason, status.message));
        }
        let admitted = conditions::get(&status.conditions, conditions::ADMITTED)
            .ok_or("no condition Admitted")?;
        assert_eq!(
            (admitted.status.as_str(), admitted.reason.as_str()),
            ("False", reason)
        );
        assert!(admitted.message.contains(said), "{}", admitted.message);
        Ok(())
    })
    .await;
    throughout(seconds(4), "a held fault touches nothing", async || {
        let status = status_of(&world, SPARE).await?;
        match (status.phase, world.isolation_of(SPARE).await) {
            (Phase::Pending, (false, None)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let held = format!("gpu_remediator_faults_held{{reason=\"{reason}\"}}");
    assert_eq!(sample(&controller.metrics().await, &held), 1.0);

    // The first goes through its steps and comes back, and only then the second goes.
    world.application(Application { gate: 1, ..FINE }).await;
    eventually(seconds(60), "the first node to be drained", async || {
        let status = status_of(&world, FAULTY).await?;
        match status.timeline.drained_at {
            Some(_) => Ok(()),
            None => Err(format!("{}: {}", status.reason, status.message)),
        }
    })
    .await;
    assert_eq!(world.isolation_of(SPARE).await, (false, None));
    world.repair();
    eventually(
        seconds(60),
        "the second node to be cordoned",
        async || match world.isolation_of(SPARE).await {
            (true, Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    let first = status_of(&world, FAULTY).await.expect("the first fault");
    let second = status_of(&world, SPARE).await.expect("the second fault");
    let steps_done = first
        .timeline
        .handled_at
        .expect("the first is through its steps");
    let admitted = second.timeline.admitted_at.expect("the second is admitted");
    assert!(steps_done <= admitted, "{steps_done} {admitted}");
    if reason == "BudgetMaxUnavailable" {
        let back = first.timeline.node_back_at.expect("the first node is back");
        assert!(back <= admitted, "{back} {admitted}");
    }
    world.spare.heal(0);
    for node in [FAULTY, SPARE] {
        eventually(seconds(90), "the node to come back", async || {
            let status = status_of(&world, node).await?;
            match (status.phase, world.isolation_of(node).await) {
                (Phase::Recovered, (false, None)) => Ok(()),
                other => Err(format!(
                    "{node} {other:?} {}: {}",
                    status.reason, status.message
                )),
            }
        })
        .await;
    }
    assert_eq!(world.forbidden(), Vec::<String>::new());
}
