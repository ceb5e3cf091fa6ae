//! A `pauseIf` guard over the error rate of a service holds the fault until the service is well.

use super::{Checks, MINUTE, Stage, TooLate, checks};
use crate::sim::demo::cast::{ERRORS, FEW_ERRORS};
use crate::sim::demo::happening::Happening;

/// Plays it.
pub(super) async fn play(stage: &Stage, checks: &mut Checks) -> Result<(), TooLate> {
    let node = stage.node_with_all_kinds();
    let pods = stage.gpu_pods_on(&node);
    stage.staged("the service llm answers 20 % of its requests with errors; the guard \"error-rate\" holds above 5 %");
    stage.service_fails(ERRORS);
    stage.pass("the error rate is seen", 3 * MINUTE).await;
    stage.falls_off_the_bus(&node);
    stage.held_for("PausedByGuard").await?;
    stage.pass("the guard holds", 2 * MINUTE).await;
    let touched_while_held = !checks::accepted(stage, "").is_empty() || stage.is_cordoned(&node);
    stage.staged("the service llm is well again");
    stage.service_fails(FEW_ERRORS);
    stage.drained(&node).await?;
    stage.repaired(&node).await;
    stage.recovered(&node).await?;

    checks::one_recovered_fault(stage, checks, &node);
    checks::each_evicted_once_and_replaced(stage, checks, &pods);
    checks.expect(
        "nothing was touched while the guard held",
        !touched_while_held,
        "the node was cordoned, or a pod evicted",
    );
    checks.expect(
        "the hold names the guard",
        stage.history().any(|h| {
            matches!(h, Happening::FaultMoved { reason, message, .. }
            if reason == "PausedByGuard" && message.contains("error-rate"))
        }),
        "no such hold",
    );
    Ok(())
}
