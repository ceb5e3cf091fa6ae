//! A PodDisruptionBudget allows no disruption until a person adds a replica.

use super::{Checks, MINUTE, Stage, TooLate, checks};
use crate::api::fault_status::Action;
use crate::sim::demo::cast::LLM_REPLICAS;
use crate::sim::demo::happening::Happening;

/// Plays it.
pub(super) async fn play(stage: &Stage, checks: &mut Checks) -> Result<(), TooLate> {
    let node = stage.node_with_all_kinds();
    let pods = stage.gpu_pods_on(&node);
    stage.budget_allows_no_disruption();
    stage
        .until("the budget allows no disruption", MINUTE, |s| {
            s.disruptions_allowed() == Some(0)
        })
        .await?;
    stage.falls_off_the_bus(&node);
    stage.held_for("BlockedByDisruptionBudget").await?;
    stage
        .pass("the drain waits for the budget", 3 * MINUTE)
        .await;
    let evicted_while_blocked = checks::accepted(stage, "inference/");
    stage.person("one replica more for Deployment inference/llm, so that one may go");
    stage.scale_llm(LLM_REPLICAS + 1);
    stage.drained(&node).await?;
    stage.repaired(&node).await;
    stage.recovered(&node).await?;

    checks::one_recovered_fault(stage, checks, &node);
    checks::each_evicted_once_and_replaced(stage, checks, &pods);
    checks.same(
        "no pod of the Deployment was evicted while its budget allowed none",
        &evicted_while_blocked,
        &Vec::<String>::new(),
    );
    checks.expect(
        "the hold names the PodDisruptionBudget",
        stage.history().any(|h| {
            matches!(h, Happening::FaultMoved { reason, message, .. }
            if reason == "BlockedByDisruptionBudget" && message.contains("inference/llm"))
        }),
        "no such hold",
    );
    checks::attempts(stage, checks, Action::EvictPods, 1);
    Ok(())
}
