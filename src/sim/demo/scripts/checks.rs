//! What several stories expect.

use std::collections::BTreeSet;

use super::Checks;
use crate::api::fault_status::{Action, Phase, RescheduleOutcome};
use crate::api::names::CORDON_ANNOTATION;
use crate::sim::demo::happening::Happening;
use crate::sim::demo::stage::Stage;
use crate::sim::demo::views::GpuPod;

/// The pods whose eviction was accepted, whose names begin so; in order.
pub(super) fn accepted(stage: &Stage, prefix: &str) -> Vec<String> {
    let events = stage.history().events().into_iter();
    events
        .filter_map(|event| match event.happening {
            Happening::EvictionAnswered {
                pod,
                code: 200..300,
                ..
            } if pod.starts_with(prefix) => Some(pod),
            _ => None,
        })
        .collect()
}

/// There is one fault, it has recovered, and the node is as it was.
pub(super) fn one_recovered_fault(stage: &Stage, checks: &mut Checks, node: &str) {
    checks.same("there is one fault", &stage.faults().len(), &1);
    let status = stage.status().unwrap_or_default();
    checks.same("the fault is Recovered", &status.phase, &Phase::Recovered);
    let times = &status.timeline;
    let reached = [times.isolated_at, times.node_back_at];
    checks.expect(
        "it was isolated first and the node was back last",
        reached.iter().all(Option::is_some) && reached.is_sorted(),
        format!("{times:?}"),
    );
    let marked = stage.node(node).is_some_and(|n| {
        n["metadata"]["annotations"]
            .get(CORDON_ANNOTATION)
            .is_some()
    });
    checks.expect(
        format!("{node} is schedulable and bears no mark"),
        !stage.is_cordoned(node) && !marked,
        "it is cordoned or marked",
    );
    only_this_node(stage, checks, node);
    other_pods_untouched(stage, checks);
}

/// Every GPU pod of the node was evicted once, and each has a replacement on another node.
pub(super) fn each_evicted_once_and_replaced(stage: &Stage, checks: &mut Checks, pods: &[GpuPod]) {
    let mut evicted = accepted(stage, "");
    evicted.sort();
    let mut wanted: Vec<_> = pods.iter().map(|pod| pod.name.clone()).collect();
    wanted.sort();
    checks.same(
        "every GPU pod of the node was evicted, each once",
        &evicted,
        &wanted,
    );
    no_uid_twice(stage, checks);
    let displaced = stage.status().unwrap_or_default().displaced_pods;
    let rescheduled = displaced
        .iter()
        .filter(|d| d.outcome == RescheduleOutcome::Rescheduled)
        .count();
    checks.same(
        "every one was replaced on another node",
        &rescheduled,
        &pods.len(),
    );
}

/// No pod was evicted a second time, whoever asked.
pub(super) fn no_uid_twice(stage: &Stage, checks: &mut Checks) {
    let mut seen = BTreeSet::new();
    let mut twice = Vec::new();
    for event in stage.history().events() {
        if let Happening::EvictionAnswered {
            pod,
            uid,
            code: 200..300,
            ..
        } = event.happening
            && !seen.insert(uid)
        {
            twice.push(pod);
        }
    }
    checks.same("no pod was evicted twice", &twice, &Vec::new());
}

/// Each eviction stands in an attempt that was written down before.
pub(super) fn intent_before_effect(stage: &Stage, checks: &mut Checks) {
    let mut intended = BTreeSet::new();
    let mut unannounced = Vec::new();
    for event in stage.history().events() {
        match event.happening {
            Happening::AttemptBegun { pods, .. } => intended.extend(pods),
            Happening::EvictionAnswered { pod, .. } if !intended.contains(&pod) => {
                unannounced.push(pod);
            }
            _ => {}
        }
    }
    checks.same(
        "each eviction was written down before it was asked for",
        &unannounced,
        &Vec::new(),
    );
}

/// Only this node was cordoned.
pub(super) fn only_this_node(stage: &Stage, checks: &mut Checks, node: &str) {
    let mut cordoned = BTreeSet::new();
    for event in stage.history().events() {
        if let Happening::NodeCordoned { node, .. } = event.happening {
            cordoned.insert(node);
        }
    }
    let wanted = BTreeSet::from([node.to_owned()]);
    checks.same("no other node was cordoned", &cordoned, &wanted);
}

/// Pods without a GPU are the same as before, on the same nodes.
pub(super) fn other_pods_untouched(stage: &Stage, checks: &mut Checks) {
    checks.same(
        "pods without a GPU are where they were",
        &stage.other_pods(),
        stage.other_pods_before(),
    );
}

/// So many attempts of an action.
pub(super) fn attempts(stage: &Stage, checks: &mut Checks, action: Action, wanted: usize) {
    let attempts = stage.status().unwrap_or_default().attempts;
    let found = attempts.iter().filter(|a| a.action == action).count();
    checks.same(
        format!(
            "there is {wanted} attempt of {}: a hold spends none",
            action.as_str()
        ),
        &found,
        &wanted,
    );
}

/// Neither a fault nor a cordon nor an eviction is in the history.
pub(super) fn nothing_was_done(stage: &Stage, checks: &mut Checks) {
    let done = stage.history().any(|h| {
        matches!(
            h,
            Happening::FaultOpened { .. }
                | Happening::NodeCordoned { .. }
                | Happening::EvictionAnswered { .. }
        )
    });
    checks.expect(
        "nothing was opened, cordoned or evicted",
        !done,
        "something was",
    );
}
