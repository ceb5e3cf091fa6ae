//! A pod hangs while it ends: the step fails, and the node stays cordoned for people.

use super::{Checks, MINUTE, Stage, TooLate, checks};
use crate::api::fault_status::{Action, Outcome, Phase};

/// Plays it.
pub(super) async fn play(stage: &Stage, checks: &mut Checks) -> Result<(), TooLate> {
    let node = stage.node_with_all_kinds();
    stage.staged("the pods of StatefulSet training/trainer will hang while they end");
    stage.pods_hang("training", "trainer");
    let stuck: Vec<String> = stage
        .gpu_pods_on(&node)
        .into_iter()
        .map(|pod| pod.name)
        .filter(|name| name.starts_with("training/"))
        .collect();
    stage.falls_off_the_bus(&node);
    stage.in_phase(Phase::Failed, 20 * MINUTE).await?;
    stage
        .pass("nothing more is done by itself", 5 * MINUTE)
        .await;

    let fault = stage.fault();
    let status = fault.and_then(|f| f.status).unwrap_or_default();
    checks.same("the fault is Failed", &status.phase, &Phase::Failed);
    checks.same(
        "its reason is EvictionTimedOut",
        &status.reason.as_str(),
        &"EvictionTimedOut",
    );
    let failed = status
        .attempts
        .iter()
        .find(|a| a.action == Action::EvictPods);
    let stayed: Vec<String> = failed
        .map(|a| a.stayed.iter().map(ToString::to_string).collect())
        .unwrap_or_default();
    checks.same("the attempt lists the pods that stayed", &stayed, &stuck);
    checks.same(
        "the attempt is Failed, not Succeeded",
        &failed.map(|a| a.outcome),
        &Some(Outcome::Failed),
    );
    checks.expect(
        "the node stays cordoned",
        stage.is_cordoned(&node),
        "it is schedulable",
    );
    checks::only_this_node(stage, checks, &node);
    checks::no_uid_twice(stage, checks);
    checks::other_pods_untouched(stage, checks);
    Ok(())
}
