//! Proof of [`super::matching`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::matching::{Candidate, OwnerState, Search, follow};
use crate::api::fault_status::{DisplacedPod, OwnerRef, PodRef, RescheduleOutcome};

/// What makes a good candidate a bad one.
type Change = fn(&mut Candidate);

const BAD: &str = "bad-node";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000 + second).unwrap()
}

fn owner(uid: &str) -> OwnerRef {
    OwnerRef {
        kind: "Deployment".into(),
        name: uid.into(),
        uid: uid.into(),
    }
}

fn displaced(uid: &str, evicted: i64) -> DisplacedPod {
    DisplacedPod {
        pod: PodRef {
            namespace: "ml".into(),
            name: uid.into(),
            uid: uid.into(),
        },
        owner: Some(owner("o")),
        slot: None,
        evicted_at: Some(at(evicted)),
        evicted_after: None,
        replacement: None,
        outcome: RescheduleOutcome::Awaited,
        failure_reason: None,
    }
}

fn candidate(uid: &str, created: i64) -> Candidate {
    Candidate {
        name: uid.into(),
        uid: uid.into(),
        namespace: "ml".into(),
        owner: Some(owner("o")),
        slot: None,
        created: at(created),
        node: Some("good-node".into()),
        ready_since: Some(at(created + 1)),
        ending: false,
        gated: false,
        unschedulable: false,
        start_failure: false,
    }
}

#[derive(Default)]
struct Around {
    taken: BTreeSet<String>,
    owners: BTreeMap<String, OwnerState>,
}

impl Around {
    fn follow(
        &self,
        pods: &mut [DisplacedPod],
        candidates: &[Candidate],
        now: i64,
    ) -> Vec<Option<String>> {
        follow(
            pods,
            &Search {
                candidates,
                taken: &self.taken,
                owners: &self.owners,
                faulty_node: BAD,
                deadline: SignedDuration::from_secs(600),
                now: at(now),
            },
        )
    }
}

fn replaced_by(pod: &DisplacedPod) -> Option<&str> {
    pod.replacement.as_ref().map(|r| r.uid.as_str())
}

#[test]
fn a_ready_pod_on_another_node_is_a_success() {
    let mut pods = [displaced("a", 0)];
    let verdicts = Around::default().follow(&mut pods, &[candidate("r", 1)], 5);
    assert_eq!(verdicts, [None]);
    assert_eq!(pods[0].outcome, RescheduleOutcome::Rescheduled);
    assert_eq!(pods[0].replacement.as_ref().unwrap().ready_at, Some(at(2)));
    assert!(Around::default().follow(&mut pods, &[], 6).is_empty());
}

#[test]
fn only_a_later_pod_of_the_same_owner_namespace_and_slot_counts() {
    let wrong: [Change; 6] = [
        |c| c.created = at(-3),
        |c| c.owner = Some(owner("other")),
        |c| c.owner = None,
        |c| c.namespace = "other".into(),
        |c| c.slot = Some("1".into()),
        |c| c.ending = true,
    ];
    for change in wrong {
        let mut pods = [displaced("a", 0)];
        let mut other = candidate("r", 1);
        change(&mut other);
        assert!(
            Around::default()
                .follow(&mut pods, &[other.clone()], 5)
                .is_empty(),
            "{other:?}"
        );
        assert_eq!(replaced_by(&pods[0]), None, "{other:?}");
    }
}

#[test]
fn each_slot_has_its_own_replacement() {
    let mut pods = [displaced("zero", 0), displaced("one", 0)];
    pods[0].slot = Some("0".into());
    pods[1].slot = Some("1".into());
    let mut candidates = [candidate("x", 1), candidate("y", 2)];
    candidates[0].slot = Some("1".into());
    candidates[1].slot = Some("0".into());
    Around::default().follow(&mut pods, &candidates, 5);
    assert_eq!(
        (replaced_by(&pods[0]), replaced_by(&pods[1])),
        (Some("y"), Some("x"))
    );
}

#[test]
fn without_slots_the_oldest_goes_first_and_none_goes_twice() {
    let mut pods = [displaced("a", 0), displaced("b", 1), displaced("c", 1)];
    let candidates = [candidate("late", 4), candidate("early", 2)];
    let verdicts = Around::default().follow(&mut pods, &candidates, 5);
    assert_eq!(verdicts.len(), 2);
    let found: Vec<_> = pods.iter().map(replaced_by).collect();
    assert_eq!(found, [Some("early"), Some("late"), None]);
}

#[test]
fn a_pod_that_replaces_another_or_was_displaced_itself_is_taken() {
    let mut around = Around::default();
    around.taken.insert("r".into());
    let mut pods = [displaced("a", 0), displaced("b", 0)];
    let candidates = [candidate("r", 1), candidate("b", 1)];
    assert!(around.follow(&mut pods, &candidates, 5).is_empty());
}

#[test]
fn a_replacement_that_dies_before_it_is_ready_is_followed_by_the_next() {
    let mut pods = [displaced("a", 0)];
    let mut first = candidate("first", 1);
    first.ready_since = None;
    Around::default().follow(&mut pods, &[first.clone()], 2);
    assert_eq!(replaced_by(&pods[0]), Some("first"));
    first.ending = true;
    Around::default().follow(&mut pods, &[first, candidate("second", 9)], 12);
    assert_eq!(replaced_by(&pods[0]), Some("second"));
    assert_eq!(pods[0].outcome, RescheduleOutcome::Rescheduled);
}

#[test]
fn an_eviction_that_was_found_out_late_keeps_its_early_replacement() {
    let mut pods = [displaced("a", 100)];
    let early = [candidate("r", 40)];
    assert!(
        Around::default()
            .follow(&mut pods.clone(), &early, 100)
            .is_empty()
    );
    pods[0].evicted_after = Some(at(39));
    assert_eq!(Around::default().follow(&mut pods, &early, 100), [None]);
}

#[test]
fn every_failure_has_its_reason() {
    let cases: [(&str, Change); 5] = [
        ("gated", |c| (c.gated, c.node) = (true, None)),
        ("unschedulable", |c| {
            (c.unschedulable, c.node) = (true, None)
        }),
        ("same_node", |c| c.node = Some(BAD.into())),
        ("start_failure", |c| c.start_failure = true),
        ("not_ready", |_| {}),
    ];
    for (reason, change) in cases {
        let mut pods = [displaced("a", 0)];
        let mut c = candidate("r", 1);
        c.ready_since = (reason == "same_node").then(|| at(2));
        change(&mut c);
        let candidates = [c];
        let around = Around::default();
        assert!(around.follow(&mut pods, &candidates, 599).is_empty());
        let verdicts = around.follow(&mut pods, &candidates, 600);
        assert_eq!(verdicts, [Some(reason.to_string())]);
        assert_eq!(pods[0].outcome, RescheduleOutcome::Failed);
        assert_eq!(pods[0].failure_reason.as_deref(), Some(reason));
    }
    let mut pods = [displaced("a", 0)];
    let verdicts = Around::default().follow(&mut pods, &[], 600);
    assert_eq!(verdicts, [Some("no_replacement".to_string())]);
}

#[test]
fn an_owner_that_failed_fails_and_one_that_is_done_is_excluded() {
    for (state, outcome, verdicts) in [
        (
            OwnerState::Failed,
            RescheduleOutcome::Failed,
            vec![Some("owner_failed".to_string())],
        ),
        (OwnerState::Done, RescheduleOutcome::Excluded, vec![]),
        (OwnerState::Active, RescheduleOutcome::Awaited, vec![]),
    ] {
        let mut around = Around::default();
        around.owners.insert("o".into(), state);
        let mut pods = [displaced("a", 0)];
        assert_eq!(around.follow(&mut pods, &[], 5), verdicts);
        assert_eq!(pods[0].outcome, outcome);
    }
}

#[test]
fn a_pod_without_owner_is_unmanaged_and_one_not_evicted_is_not_followed() {
    let mut pods = [displaced("a", 0), displaced("b", 0)];
    pods[0].owner = None;
    pods[1].evicted_at = None;
    assert!(
        Around::default()
            .follow(&mut pods, &[candidate("r", 1)], 5)
            .is_empty()
    );
    assert_eq!(pods[0].outcome, RescheduleOutcome::Unmanaged);
    assert_eq!(pods[1].outcome, RescheduleOutcome::Awaited);
    assert_eq!(replaced_by(&pods[1]), None);
}

proptest! {
    /// However pods and candidates are mixed, and however often it is looked at, no pod replaces two.
    #[test]
    fn no_pod_replaces_two(
        pods in prop::collection::vec((0i64..50, 0u8..3, any::<bool>()), 1..12),
        candidates in prop::collection::vec((0i64..60, 0u8..3, any::<bool>(), any::<bool>()), 0..16),
        looks in prop::collection::vec((0i64..700, prop::collection::vec(any::<bool>(), 16)), 1..5),
    ) {
        let slot = |s: u8| (s > 0).then(|| s.to_string());
        let mut all: Vec<_> = pods.iter().enumerate().map(|(i, (evicted, s, lost))| {
            let mut d = displaced(&format!("d{i}"), *evicted);
            d.slot = slot(*s);
            d.evicted_after = lost.then(|| at(*evicted - 20));
            d
        }).collect();
        for (now, alive) in looks {
            let offered: Vec<_> = candidates.iter().enumerate().map(|(i, (created, s, ready, same))| {
                let mut c = candidate(&format!("c{i}"), *created);
                c.slot = slot(*s);
                if !ready { c.ready_since = None; }
                if *same { c.node = Some(BAD.into()); }
                c.ending = !alive[i];
                c
            }).collect();
            let awaited = all.iter().filter(|d| d.outcome == RescheduleOutcome::Awaited).count();
            let verdicts = Around::default().follow(&mut all, &offered, now);
            prop_assert!(verdicts.len() <= awaited);
            let mut seen = BTreeSet::new();
            for d in &all {
                if let Some(r) = &d.replacement {
                    prop_assert!(seen.insert(r.uid.clone()), "{} replaces two pods", r.uid);
                }
                if d.outcome == RescheduleOutcome::Rescheduled {
                    let r = d.replacement.as_ref().unwrap();
                    prop_assert!(r.ready_at.is_some() && r.node.as_deref() != Some(BAD));
                }
            }
        }
    }
}
