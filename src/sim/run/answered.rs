//! Whether the product did anything at all: a product that does nothing breaks none of the promises about what it must not
//! do.

use std::time::Duration;

use jiff::Timestamp;

use super::acts::Act;
use super::random::{Event, Happening, Plan};
use crate::api::GpuFault;
use crate::sim::promises::Violation;

/// Xids about which the shipped rules open a fault.
const FATAL: [u32; 6] = [46, 48, 79, 95, 119, 140];

/// How long before an Xid nothing else may have happened: a partition lasts up to five minutes, and a lease is taken over
/// within one.
const BEFORE: Duration = Duration::from_secs(400);

/// How long after it: as long as the shipped rules fire.
const AFTER: Duration = Duration::from_secs(300);

/// The Xids that nothing disturbed, and a violation for each about which there is no fault.
pub(super) fn unanswered(
    plan: &Plan,
    faults: &[GpuFault],
    now: Timestamp,
) -> (u64, Vec<Violation>) {
    let mut looked_at = 0;
    let mut found = Vec::new();
    for event in &plan.events {
        let Happening::Act(Act::Xid(node, gpu, code)) = &event.what else {
            continue;
        };
        if !FATAL.contains(code) || is_disturbed(plan, event.at, node) {
            continue;
        }
        looked_at += 1;
        let is_about = |fault: &&GpuFault| {
            let index = fault.spec.gpu.as_ref().and_then(|g| g.index.as_deref());
            fault.spec.node_name == *node
                && index == Some(gpu.to_string().as_str())
                && fault.spec.xid == Some(*code)
        };
        if !faults.iter().any(|fault| is_about(&fault)) {
            found.push(Violation {
                promise: 9,
                at: now,
                what: format!(
                    "there is no fault about Xid {code} on GPU {gpu} of {node}, {}s after the beginning",
                    event.at.as_secs()
                ),
            });
        }
    }
    (looked_at, found)
}

/// Something may have kept the product from seeing it, or has taken its fault away.
fn is_disturbed(plan: &Plan, at: Duration, node: &str) -> bool {
    let (from, until) = (at.saturating_sub(BEFORE), at + AFTER);
    let mut controllers = i64::from(plan.controllers);
    let mut disturbed = until > plan.length;
    for Event { at: when, what } in &plan.events {
        let near = (from..=until).contains(when);
        match what {
            Happening::Spell(spell) => disturbed |= spell.from <= until && spell.until >= from,
            Happening::Act(act) => {
                let is_about_it = |other: &String| other == node;
                match act {
                    Act::Xid(..) => {}
                    // What is deleted tells nothing any more, and clocks that are off judge by other times.
                    Act::DeleteFaults(other) | Act::DeleteNode(other) | Act::Rejoin(other) => {
                        disturbed |= near || is_about_it(other);
                    }
                    Act::ClockJump(_) => disturbed |= *when <= until,
                    Act::Crash | Act::Start => {
                        if *when <= at {
                            controllers += if *act == Act::Start { 1 } else { -1 };
                        }
                        disturbed |= near;
                    }
                    // The node may be dark for a long time, and a GPU that is gone has no number.
                    Act::PowerOff(other)
                    | Act::ExporterDown(other)
                    | Act::Vanish(other, _)
                    | Act::Replace(other, _)
                    | Act::Hang(other, _) => {
                        disturbed |= near || (*when <= at && is_about_it(other));
                    }
                    _ => disturbed |= near,
                }
            }
        }
    }
    disturbed || controllers < 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::super::random::random_world;
    use super::*;

    fn plan(events: Vec<(u64, Act)>) -> Plan {
        let mut plan = random_world(0, 1.0);
        plan.controllers = 1;
        plan.events = events
            .into_iter()
            .map(|(at, act)| Event {
                at: Duration::from_secs(at),
                what: Happening::Act(act),
            })
            .collect();
        plan
    }

    fn looked_at_and_found(plan: &Plan, faults: &[GpuFault]) -> (u64, usize) {
        let (looked_at, found) = unanswered(plan, faults, Timestamp::UNIX_EPOCH);
        (looked_at, found.len())
    }

    #[test]
    fn a_product_that_does_nothing_is_found_out() {
        let xid = |code| Act::Xid("gpu-1".to_owned(), 3, code);
        let one = plan(vec![(1000, xid(79))]);
        assert_eq!(looked_at_and_found(&one, &[]), (1, 1));
        let fault: GpuFault = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "f"},
            "spec": {"nodeName": "gpu-1", "xid": 79, "gpu": {"index": "3"}, "policyRef": {"name": "p"}},
        }))
        .unwrap();
        assert_eq!(looked_at_and_found(&one, &[fault]), (1, 0));
        let application = plan(vec![(1000, xid(31))]);
        assert_eq!(looked_at_and_found(&application, &[]), (0, 0));
    }

    #[test]
    fn what_was_disturbed_is_not_asked_for() {
        let xid = (1000, Act::Xid("gpu-1".to_owned(), 3, 79));
        for other in [
            (700, Act::Partition(Duration::from_secs(200))),
            (10, Act::Crash),
            (10, Act::PowerOff("gpu-1".to_owned())),
            (9000, Act::DeleteFaults("gpu-1".to_owned())),
        ] {
            let plan = plan(vec![xid.clone(), other.clone()]);
            assert_eq!(looked_at_and_found(&plan, &[]), (0, 0), "{other:?}");
        }
        let elsewhere = (10, Act::PowerOff("gpu-2".to_owned()));
        assert_eq!(
            looked_at_and_found(&plan(vec![elsewhere, xid]), &[]),
            (1, 1)
        );
    }
}
