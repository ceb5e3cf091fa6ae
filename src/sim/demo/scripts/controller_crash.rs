//! The leader dies after its first eviction: the next one goes on from the objects.

use super::{Checks, MINUTE, Stage, TooLate, checks};
use crate::sim::demo::happening::Happening;

/// Plays it.
pub(super) async fn play(stage: &Stage, checks: &mut Checks) -> Result<(), TooLate> {
    let node = stage.node_with_all_kinds();
    let pods = stage.gpu_pods_on(&node);
    let first = stage.leader();
    stage.crash_after_first_eviction();
    stage.falls_off_the_bus(&node);
    stage
        .until("the first eviction", MINUTE, |s| {
            !checks::accepted(s, "").is_empty()
        })
        .await?;
    stage
        .until("another controller leads", MINUTE, |s| {
            s.leader() != first && s.leader().is_some()
        })
        .await?;
    stage.drained(&node).await?;
    stage.repaired(&node).await;
    stage.recovered(&node).await?;

    checks::one_recovered_fault(stage, checks, &node);
    checks::each_evicted_once_and_replaced(stage, checks, &pods);
    checks::intent_before_effect(stage, checks);
    let evictions = stage.history().events().into_iter();
    let by: Vec<_> = evictions
        .filter_map(|e| match e.happening {
            Happening::EvictionAnswered {
                by, code: 200..300, ..
            } => Some(by),
            _ => None,
        })
        .collect();
    let mine = by.iter().filter(|by| Some(*by) == first.as_ref()).count();
    checks.same(
        "the first controller evicted one pod before it died",
        &mine,
        &1,
    );
    checks.same(
        "the other evicted the rest",
        &(by.len() - mine),
        &(pods.len() - 1),
    );
    checks.expect(
        "another controller leads now",
        stage.leader() != first,
        "the dead one",
    );
    Ok(())
}
