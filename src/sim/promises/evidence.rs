//! Promises 1 and 8: only sound answers open, give back, and let an effect pass.

use jiff::{SignedDuration, Timestamp};

use super::cluster::{Cluster, Fault, Step};
use super::notes::{Notes, Series};
use super::{Findings, PromisesConfig, effects};
use crate::api::Phase;
use crate::api::fault_status::{Action, Attempt};
use crate::guards::condition::Condition;
use crate::remediation::proof::LONGEST_GAP;
use crate::rules::template::{Dialect, PolicyVariables, Template};
use crate::sim::api_server::Call;

/// Labels of the exporter that tell one GPU and one Xid from another.
const IDENTITY: [&str; 3] = ["UUID", "pci_bus_id", "xid"];

/// An eviction.
pub(super) fn called(
    call: &Call,
    config: &PromisesConfig,
    cluster: &Cluster,
    notes: &Notes,
    found: &mut Findings,
) {
    let Some((pod, uid)) = effects::evicted(call, cluster) else {
        return;
    };
    let node = pod.node.as_deref().unwrap_or_default();
    if let Some(fault) = effects::intends(cluster, node, &uid) {
        guards(call.at, "an eviction", fault, config, cluster, notes, found);
    }
}

pub(super) fn wrote(
    step: &Step<'_>,
    config: &PromisesConfig,
    cluster: &Cluster,
    notes: &Notes,
    found: &mut Findings,
) {
    let at = step.write.at;
    if let Some((Some(before), Some(after))) = &step.node {
        for (name, uid) in after.mark.iter().flat_map(|m| &m.faults) {
            let is_new = before.mark.as_ref().is_none_or(|m| !m.holds(name, uid));
            if let Some(fault) = cluster.faults.get(name).filter(|_| is_new) {
                guards(at, "a cordon", fault, config, cluster, notes, found);
            }
        }
    }
    match &step.fault {
        Some((None, Some(fault))) if config.evidence => {
            opened(at, fault, config, cluster, notes, found);
        }
        Some((Some(before), Some(after))) => {
            let (old, new) = (&before.status, &after.status);
            let again = old.occurrence > 0 && new.occurrence > old.occurrence;
            let back = new.round > old.round && new.reason == "Returned";
            if config.evidence && (again || back) {
                returned(at, after, notes, found);
            }
            let begun = |a: &&Attempt| a.action == Action::Uncordon;
            let count = |f: &Fault| {
                f.status
                    .attempts
                    .iter()
                    .filter(begun)
                    .map(|a| a.number)
                    .max()
            };
            let gives_back = after.status.phase == Phase::Recovering
                && !after.deleting
                && count(after) > count(before);
            let ends = after.status.phase == Phase::Recovered
                && before.status.phase != Phase::Recovered
                && count(before).is_none_or(|n| {
                    let last = before.status.attempts.iter().find(|a| a.number == n);
                    last.is_none_or(|a| a.round != before.status.round)
                });
            if gives_back || ends {
                proven(at, after, config, cluster, notes, found);
            }
        }
        _ => {}
    }
}

fn opened(
    at: Timestamp,
    fault: &Fault,
    config: &PromisesConfig,
    cluster: &Cluster,
    notes: &Notes,
    found: &mut Findings,
) {
    let Some(evidence) = &fault.object.spec.evidence else {
        found.check(1, at, false, || {
            format!("{} was opened without evidence", fault.name)
        });
        return;
    };
    let lately = notes.seen_lately(&evidence.query, at);
    let known = lately.filter(|(series, _)| {
        let mut labels = series.iter();
        labels.all(|(k, v)| evidence.labels.get(k) == Some(v))
    });
    let last = known.map(|(_, seen)| seen).max();
    // What was seen of the machine that had this name before says nothing of this one.
    let node = cluster.nodes.get(fault.node());
    let since = node.map(|node| node.created - config.latency);
    found.check(1, at, last.is_none() || last >= since, || {
        format!(
            "{} was opened on what was seen before its node joined",
            fault.name
        )
    });
    found.check(1, at, last.is_some(), || {
        format!(
            "{} was opened on a series that no sound answer had lately: {:?}",
            fault.name, evidence.labels
        )
    });
}

/// A fault that is there again: other labels may have come and gone, but node, GPU and Xid are those of the fault.
fn returned(at: Timestamp, fault: &Fault, notes: &Notes, found: &mut Findings) {
    let Some(evidence) = &fault.object.spec.evidence else {
        return;
    };
    let is_about_it = |series: &Series| {
        let named = series.values().any(|v| v == fault.node());
        let same = |label: &str| match (series.get(label), evidence.labels.get(label)) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        named && IDENTITY.into_iter().all(same)
    };
    let mut known = notes
        .seen_lately(&evidence.query, at)
        .filter(|(s, _)| is_about_it(s));
    found.check(1, at, known.next().is_some(), || {
        format!(
            "{} is said to have returned, and no sound answer had it lately: {:?}",
            fault.name, evidence.labels
        )
    });
}

/// The health query of a fault, as it is asked.
fn health_query(fault: &Fault, expr: &str) -> Option<String> {
    let gpu = fault.object.spec.gpu.clone().unwrap_or_default();
    let variables = PolicyVariables {
        node: fault.node().to_owned(),
        gpu: gpu.index,
        uuid: gpu.uuid,
        xid: fault.object.spec.xid,
    };
    let template = Template::parse(expr, Dialect::Policy).ok()?;
    template.expand_query(&variables).ok()
}

fn proven(
    at: Timestamp,
    fault: &Fault,
    config: &PromisesConfig,
    cluster: &Cluster,
    notes: &Notes,
    found: &mut Findings,
) {
    let Some(policy) = cluster.policy_of(fault) else {
        return;
    };
    let healthy = &policy.spec.recovery.healthy;
    let hold = healthy.hold.as_signed();
    let from = at - hold;
    let slack = config.latency + config.clock_skew;
    let broken = notes.broken_since(fault.node(), from - slack);
    found.check(1, at, broken.is_none(), || {
        format!(
            "{} recovers although GPU {} is broken",
            fault.name,
            broken.unwrap_or_default()
        )
    });
    let changed = at.duration_since(policy.changed) <= hold + slack;
    let query = health_query(fault, &healthy.expr).filter(|_| config.evidence && !changed);
    let Some(query) = query else { return };
    let all = notes.answers(&query).map(|a| &a.lately);
    let within = |t: Timestamp, earlier: SignedDuration| t >= from - earlier && t <= at;
    let mut last = None;
    let mut gap = false;
    let mut starts = false;
    for (t, _) in all.into_iter().flatten().filter(|(_, o)| *o == Some(true)) {
        if !within(*t, LONGEST_GAP) {
            continue;
        }
        starts |= *t <= from + config.clock_skew;
        gap |= last.is_some_and(|l| t.duration_since(l) > LONGEST_GAP + config.clock_skew);
        last = Some(*t);
    }
    let ends = last.is_some_and(|l| at.duration_since(l) <= LONGEST_GAP + config.clock_skew);
    found.check(1, at, starts && ends && !gap, || {
        format!(
            "{} recovers without sound answers over {hold:#} to {query:?}",
            fault.name
        )
    });
    // Where no other fault asks the same, each answer was this fault's.
    if cluster.faults_on(fault.node()).count() == 1 {
        let mut bad = all.into_iter().flatten().filter(|(t, outcome)| {
            *outcome != Some(true) && *t > from + config.clock_skew && *t <= at
        });
        found.check(1, at, bad.next().is_none(), || {
            format!(
                "{} recovers although {query:?} was not shown to hold in between",
                fault.name
            )
        });
    }
}

fn guards(
    at: Timestamp,
    what: &str,
    fault: &Fault,
    config: &PromisesConfig,
    cluster: &Cluster,
    notes: &Notes,
    found: &mut Findings,
) {
    let Some(policy) = cluster.policy_of(fault) else {
        return;
    };
    if at.duration_since(policy.changed) <= config.latency {
        return;
    }
    found.check(8, at, !policy.stopped, || {
        format!("{what} for {} although its policy is stopped", fault.name)
    });
    let all = &policy.spec.guards;
    for guard in all.pause_if.iter().chain(&all.stop_if) {
        // What such a comparison returns is never empty; whether it is true is in its value, which is not told.
        if !config.evidence || guard.expr.contains("bool") {
            continue;
        }
        let answers = notes.answers(&guard.expr);
        let lately = answers.into_iter().flat_map(|a| a.lately.iter().rev());
        let false_at = lately
            .take_while(|(t, _)| at.duration_since(*t) <= config.latency)
            .find(|(_, outcome)| *outcome == Some(false));
        found.check(8, at, false_at.is_some(), || {
            format!(
                "{what} for {} although guard {:?} was not shown to be false",
                fault.name, guard.name
            )
        });
        // Nothing at all is False only where something exists: whatever is counted besides must have been found.
        let condition = Condition::guard(&guard.expr);
        let exists = condition
            .queries()
            .into_iter()
            .filter(|q| *q != guard.expr && q.starts_with("count("))
            .all(|query| {
                let lately = notes
                    .answers(query)
                    .into_iter()
                    .flat_map(|a| a.lately.iter().rev());
                lately
                    .take_while(|(t, _)| at.duration_since(*t) <= config.latency)
                    .any(|(_, outcome)| *outcome == Some(true))
            });
        found.check(8, at, exists, || {
            format!(
                "{what} for {} although guard {:?} has no data",
                fault.name, guard.name
            )
        });
        found.check(1, at, false_at.is_some() || answers.is_some(), || {
            format!(
                "{what} for {} although guard {:?} was never asked",
                fault.name, guard.name
            )
        });
    }
}
