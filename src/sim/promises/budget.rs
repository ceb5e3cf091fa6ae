//! Promise 7: never beyond the budget, and recovery is not held.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::cluster::{Cluster, Fault, Step, selects};
use super::{Findings, PromisesConfig};
use crate::api::Phase;
use crate::api::policy::Budget;

/// What may hold an admission, and never a recovery.
const HOLDS: [&str; 5] = [
    "PausedByGuard",
    "StoppedByGuard",
    "GuardUnknown",
    "BudgetMaxUnavailable",
    "BudgetMaxConcurrent",
];

/// The documented limit: a number, or a share rounded down but at least one; ten percent where nothing is said.
fn limit(budget: &Budget, nodes: usize) -> usize {
    let share = match &budget.max_unavailable {
        Some(IntOrString::Int(n)) => return usize::try_from(*n).unwrap_or(0),
        Some(IntOrString::String(s)) => s.trim_end_matches('%').parse().unwrap_or(0),
        None => 10,
    };
    std::cmp::max(nodes * share / 100, 1)
}

pub(super) fn wrote(
    step: &Step<'_>,
    config: &PromisesConfig,
    cluster: &Cluster,
    found: &mut Findings,
) {
    let Some((Some(before), Some(after))) = &step.fault else {
        return;
    };
    let at = step.write.at;
    let recovers = matches!(after.status.phase, Phase::Handled | Phase::Recovering);
    found.check(
        7,
        at,
        !recovers || !HOLDS.contains(&after.status.reason.as_str()),
        || {
            format!(
                "the recovery of {} is held: {}",
                after.name, after.status.reason
            )
        },
    );
    if before.status.phase == Phase::Pending && after.status.phase == Phase::Processing {
        admitted(step, after, config, cluster, found);
    }
}

fn admitted(
    step: &Step<'_>,
    fault: &Fault,
    config: &PromisesConfig,
    cluster: &Cluster,
    found: &mut Findings,
) {
    let at = step.write.at;
    let recent = |t| at.duration_since(t) <= config.latency;
    // What changed a moment ago may not have been seen.
    let Some(policy) = cluster.policy_of(fault).filter(|p| !recent(p.changed)) else {
        return;
    };
    if cluster.nodes_changed.is_some_and(recent) {
        return;
    }
    let own = fault.node();
    let (mut held, mut processing) = (BTreeSet::new(), BTreeSet::new());
    for other in cluster.faults.values().filter(|f| f.node() != own) {
        if other.holds_node() {
            held.insert(other.node());
        }
        let same = other.object.spec.policy_ref == fault.object.spec.policy_ref;
        if same && other.status.phase == Phase::Processing {
            processing.insert(other.node());
        }
    }
    let selected = cluster
        .nodes
        .iter()
        .filter(|(_, n)| selects(&policy.spec, n));
    let (mut nodes, mut out) = (0, 0);
    for (name, node) in selected {
        nodes += 1;
        let others = node.is_out() && !recent(node.since);
        if name != own && (others || held.contains(name.as_str())) {
            out += 1;
        }
    }
    let is_out = cluster.nodes.get(own).is_some_and(|n| n.is_out())
        || cluster
            .faults_on(own)
            .any(|f| f.name != fault.name && f.holds_node())
        || fault.status.isolation.is_some();
    let budget = &policy.spec.budget;
    let limit = limit(budget, nodes);
    found.check(7, at, is_out || out < limit, || {
        format!(
            "{} is admitted although {out} of {nodes} nodes are out, and {limit} may be",
            fault.name
        )
    });
    let most = usize::try_from(budget.max_concurrent.unwrap_or(1)).unwrap_or(0);
    found.check(7, at, processing.len() < most, || {
        format!(
            "{} is admitted although {} nodes are in their steps, and {most} may be",
            fault.name,
            processing.len()
        )
    });
}
