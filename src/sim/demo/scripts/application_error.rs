//! Xid 31, a page fault by an application: counted, and nothing more.

use super::{Checks, MINUTE, Stage, TooLate, checks};

/// Plays it.
pub(super) async fn play(stage: &Stage, checks: &mut Checks) -> Result<(), TooLate> {
    let node = stage.node_with_all_kinds();
    let before = stage.pod_uids();
    stage.application_error(&node);
    stage
        .until("Prometheus counts it", MINUTE, |s| {
            s.xid_errors(&node, 31) == Some(1.0)
        })
        .await?;
    stage.staged(&format!("Prometheus has gpu_xid_errors_total{{node=\"{node}\",xid=\"31\"}} = 1; no shipped rule looks at it"));
    stage.pass("nothing happens", 15 * MINUTE).await;

    checks.same("there is no fault", &stage.faults().len(), &0);
    checks.expect(
        "the node is schedulable",
        !stage.is_cordoned(&node),
        "it is cordoned",
    );
    checks.same("every pod is where it was", &stage.pod_uids(), &before);
    checks::nothing_was_done(stage, checks);
    Ok(())
}
