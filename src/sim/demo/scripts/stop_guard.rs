//! A `stopIf` guard latches before a pod is displaced: the isolation is undone, and only a person lets it go on.

use super::{Checks, MINUTE, Stage, TooLate, checks};
use crate::sim::demo::cast::LLM_REPLICAS;
use crate::sim::demo::happening::Happening;

/// Plays it.
pub(super) async fn play(stage: &Stage, checks: &mut Checks) -> Result<(), TooLate> {
    let node = stage.node_with_all_kinds();
    let other = stage.another_node_with_llm(&node);
    stage.budget_allows_no_disruption();
    stage
        .until("the budget allows no disruption", MINUTE, |s| {
            s.disruptions_allowed() == Some(0)
        })
        .await?;
    stage.falls_off_the_bus(&node);
    stage.held_for("BlockedByDisruptionBudget").await?;
    stage.staged(&format!("{other} loses its power: the guard \"capacity-floor\" stops below {LLM_REPLICAS} available replicas"));
    stage.power(&other, false);
    stage.held_for("StoppedByGuard").await?;
    stage
        .until("the cordon is undone", MINUTE, |s| !s.is_cordoned(&node))
        .await?;
    stage.person(&format!("looks into it, and gives {other} its power back"));
    stage.power(&other, true);
    stage
        .until("every replica is available", 10 * MINUTE, |s| {
            s.llm_available() == LLM_REPLICAS
        })
        .await?;
    stage
        .pass(
            "the policy stays stopped, although the guard is false",
            2 * MINUTE,
        )
        .await;
    let acted_while_stopped = stage.is_cordoned(&node) || !checks::accepted(stage, "").is_empty();
    stage.person("resumes the policy: kubectl annotate remediationpolicy drain-node gpu-remediator.dev/resume=yes");
    stage.resume_policy();
    stage.person("one replica more for Deployment inference/llm, so that one may go");
    stage.scale_llm(LLM_REPLICAS + 1);
    stage.drained(&node).await?;
    stage.repaired(&node).await;
    stage.recovered(&node).await?;

    checks::one_recovered_fault(stage, checks, &node);
    checks.expect(
        "the latch held after the guard had become false",
        !acted_while_stopped,
        "something was done while the policy was stopped",
    );
    let events = stage.history().events();
    let place =
        |is_it: &dyn Fn(&Happening) -> bool| events.iter().position(|e| is_it(&e.happening));
    let cordoned = place(&|h| matches!(h, Happening::NodeCordoned { node: n, .. } if *n == node));
    let stopped = place(
        &|h| matches!(h, Happening::PolicyStopped { guard, .. } if guard == "capacity-floor"),
    );
    let undone = place(&|h| matches!(h, Happening::NodeUncordoned { node: n, .. } if *n == node));
    let resumed = place(&|h| matches!(h, Happening::PolicyResumed { .. }));
    let order = [cordoned, stopped, undone, resumed];
    checks.expect(
        "cordoned, stopped, undone and resumed came in this order",
        order.iter().all(Option::is_some) && order.is_sorted(),
        format!("{order:?}"),
    );
    Ok(())
}
