//! Prometheus is gone while health is being proven: no answer proves nothing.

use super::{Checks, MINUTE, Stage, TooLate, checks};
use crate::api::fault_status::Phase;
use crate::sim::demo::happening::Happening;

/// Plays it.
pub(super) async fn play(stage: &Stage, checks: &mut Checks) -> Result<(), TooLate> {
    let node = stage.node_with_all_kinds();
    let pods = stage.gpu_pods_on(&node);
    stage.falls_off_the_bus(&node);
    stage.drained(&node).await?;
    stage.repaired(&node).await;
    stage
        .until("health is being proven", 20 * MINUTE, |s| {
            s.status()
                .is_some_and(|s| s.phase == Phase::Recovering && s.healthy_since.is_some())
        })
        .await?;
    stage.pass("health is being proven", 2 * MINUTE).await;
    stage.staged("Prometheus does not answer any more");
    stage.prometheus_down(true);
    stage.held_for("HealthUnknown").await?;
    stage
        .pass(
            "Prometheus is gone; longer than the proof would have needed",
            15 * MINUTE,
        )
        .await;
    let kept = stage.is_cordoned(&node);
    stage.staged("Prometheus answers again");
    stage.prometheus_down(false);
    let back = stage.now();
    stage.recovered(&node).await?;

    checks::one_recovered_fault(stage, checks, &node);
    checks::each_evicted_once_and_replaced(stage, checks, &pods);
    checks.expect(
        "the node stayed cordoned while Prometheus was gone",
        kept,
        "it was given back",
    );
    checks.expect(
        "the fault said that health was unknown",
        stage.history().any(
            |h| matches!(h, Happening::FaultMoved { reason, .. } if reason == "HealthUnknown"),
        ),
        "it did not",
    );
    let proven = stage.status().and_then(|s| s.timeline.node_back_at);
    let proven = proven.map(|at| at.duration_since(back).as_secs());
    checks.expect(
        "the whole proof, 5 minutes, was made after Prometheus came back",
        proven.is_some_and(|seconds| seconds >= 300),
        format!("{proven:?} seconds"),
    );
    Ok(())
}
