//! The whole loop: a GPU falls off the bus, its node is drained, repaired and given back.

use super::{Checks, MINUTE, Stage, TooLate, checks};

/// Plays it.
pub(super) async fn play(stage: &Stage, checks: &mut Checks) -> Result<(), TooLate> {
    let node = stage.node_with_all_kinds();
    let pods = stage.gpu_pods_on(&node);
    stage.falls_off_the_bus(&node);
    stage.drained(&node).await?;
    stage.workload_recovered().await?;
    stage.repaired(&node).await;
    stage.recovered(&node).await?;
    stage.pass("the cluster stays quiet", MINUTE).await;

    checks::one_recovered_fault(stage, checks, &node);
    checks::each_evicted_once_and_replaced(stage, checks, &pods);
    checks::intent_before_effect(stage, checks);
    Ok(())
}
