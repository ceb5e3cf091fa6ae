//! What must hold once the cluster has come to rest.

use jiff::Timestamp;

use super::{Findings, Promises, Violation, effects};

pub(super) fn settled(promises: &Promises, now: Timestamp) -> Vec<Violation> {
    let mut found = Findings::default();
    let cluster = &promises.cluster;
    for fault in cluster.faults.values() {
        let reason = &fault.status.reason;
        found.check(
            9,
            now,
            !reason.is_empty() || fault.status.occurrence == 0,
            || format!("{} rests without a reason", fault.name),
        );
        for (key, pod) in cluster.pods_on(fault.node()) {
            let waits = promises.effects.refused.contains(&pod.uid)
                && effects::intends(cluster, fault.node(), &pod.uid)
                    .is_some_and(|f| f.uid == fault.uid);
            found.check(10, now, !waits, || {
                format!(
                    "the eviction of {key:?} was refused for good, and {} has not failed",
                    fault.name
                )
            });
        }
        let released = promises.ownership.released(fault);
        let ignored = released.is_some_and(|at| now.duration_since(at) > promises.config.latency)
            && !fault.status.phase.is_over();
        found.check(5, now, !ignored, || {
            format!(
                "a person uncordoned the node of {}, and it is still {:?}",
                fault.name, fault.status.phase
            )
        });
        found.check(7, now, reason != "HealthProven", || {
            format!(
                "{} is proven healthy, and its node was not given back",
                fault.name
            )
        });
    }
    for (name, node) in &cluster.nodes {
        let Some(mark) = &node.mark else { continue };
        for (fault, uid) in &mark.faults {
            let explains = cluster.faults.get(fault).filter(|f| f.uid == *uid);
            found.check(
                3,
                now,
                explains.is_some_and(|f| !f.status.phase.is_over()),
                || format!("node {name} is marked for {fault}, which is over or gone"),
            );
        }
        found.check(3, now, !mark.faults.is_empty(), || {
            format!("node {name} carries a mark of no fault")
        });
    }
    for (fault, reason, since) in promises.reasons.missing() {
        found.check(
            9,
            now,
            now.duration_since(since) <= promises.config.latency,
            || format!("{fault}: the Event {reason} never came"),
        );
    }
    found.violations
}
