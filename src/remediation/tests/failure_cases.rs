//! Cases that happened to others, named after their ids in `docs/failure-cases.md`: metrics, people, restarts.

use jiff::Timestamp;
use proptest::prelude::*;

use super::people::{STAGES, bring};
use super::simulated::*;
use crate::api::fault_status::Phase;
use crate::remediation::decision::{Effect, Next};
use crate::remediation::refire::{Refire, refire};
use crate::remediation::world::RuleFacts;

/// A fault that has run its whole course.
fn recovered() -> Sim {
    let mut sim = Sim::new(&["a"]);
    (sim.verify, sim.health) = (Some(true), Some(true));
    sim.drain();
    sim.run(20);
    assert_eq!(sim.phase(), Phase::Recovered);
    sim
}

/// Another process takes over: it has asked nothing yet.
fn restart(sim: &mut Sim) {
    sim.watched = [None, None];
}

fn unproven() -> impl Strategy<Value = Option<bool>> {
    prop_oneof![Just(None), Just(Some(true))]
}

fn not_silent() -> impl Strategy<Value = RuleFacts> {
    prop_oneof![
        3 => Just(RuleFacts::Firing),
        1 => Just(RuleFacts::Unknown),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The value of one event stays where it is for days; Prometheus comes and goes, and so do our processes.
    #[test]
    fn a1_a_value_that_stays_after_the_event_opens_one_fault_and_never_another(
        days in prop::collection::vec((1i64..20_000, unproven(), not_silent(), any::<bool>()), 1..60),
    ) {
        let mut sim = recovered();
        let effects = sim.effects.len();
        for (length, health, rule, dies) in days {
            sim.now += seconds(length);
            (sim.health, sim.world.rule) = (health, rule);
            if dies {
                restart(&mut sim);
            }
            sim.settle();
            prop_assert_eq!((sim.phase(), sim.fault.status.occurrence), (Phase::Recovered, 1));
            // Whatever a process that has forgotten takes for the beginning.
            for began in [sim.fault.status.active_at.unwrap(), sim.now] {
                prop_assert_eq!(refire(&sim.fault, false, began, sim.now), Refire::Nothing);
            }
        }
        prop_assert_eq!(sim.effects.len(), effects);
        prop_assert!(!sim.is_cordoned() && !sim.gone);
    }

    /// The series of the fault, and those that would prove health, go stale: the node may even be switched off.
    #[test]
    fn a4_series_that_go_stale_never_give_the_node_back(
        stage in prop::sample::select(vec!["blocked", "terminating", "verifying", "recovering"]),
        gaps in prop::collection::vec((1i64..600, any::<bool>(), any::<bool>()), 1..40),
    ) {
        let mut sim = bring(Sim::new(&["a"]), stage);
        sim.end_pods();
        sim.set_allowed(9);
        (sim.health, sim.verify) = (None, None);
        for (length, silent, dies) in gaps {
            sim.world.rule = if silent { RuleFacts::Silent } else { RuleFacts::Unknown };
            if dies {
                restart(&mut sim);
            }
            for _ in 0..length.min(30) {
                sim.run(1);
                sim.end_pods();
            }
            sim.now += seconds(length);
            sim.settle();
            prop_assert!(sim.is_cordoned() && sim.is_marked());
            prop_assert!(!sim.phase().is_over(), "{:?}", sim.phase());
        }
        let says = ["HealthUnknown", "Verifying"];
        prop_assert!(says.contains(&sim.reason()), "{}", sim.reason());
        prop_assert!(sim.fault.status.message.contains("has no answer"), "{}", sim.fault.status.message);
    }

    /// Wherever our process dies on the way, and however often: once the node is back, it stays in service.
    #[test]
    fn d3_a_restart_after_recovery_touches_nothing(
        fates in prop::collection::vec(prop_oneof![
            3 => Just(Fate::Done), 1 => Just(Fate::DiesBeforeEffect), 1 => Just(Fate::DiesAfterEffect)
        ], 60),
        later in prop::collection::vec((1i64..5_000, unproven(), not_silent(), any::<bool>()), 1..40),
    ) {
        let mut sim = Sim::new(&["a"]);
        (sim.verify, sim.health) = (Some(true), Some(true));
        for fate in fates {
            sim.now += seconds(1);
            let decision = sim.decide();
            sim.apply(&decision, fate);
            sim.end_pods();
        }
        sim.run(40);
        prop_assert_eq!(sim.phase(), Phase::Recovered);
        prop_assert_eq!(sim.evicted.as_slice(), ["a"]);
        let before = sim.effects.len();
        sim.pods = vec![pod("new work"), pod("more work")];
        for (length, health, rule, dies) in later {
            sim.now += seconds(length);
            (sim.health, sim.world.rule) = (health, rule);
            if dies {
                restart(&mut sim);
            }
            sim.settle();
        }
        prop_assert_eq!(sim.effects.len(), before);
        prop_assert!(!sim.is_cordoned());
        prop_assert!(sim.pods.iter().all(|p| !p.terminating));
    }
}

#[test]
fn b1_a_node_that_a_person_had_cordoned_stays_cordoned_however_the_fault_ends() {
    let cordoned = || {
        let mut sim = Sim::new(&["a"]);
        sim.node.as_mut().unwrap().unschedulable = true;
        sim
    };
    for stage in STAGES {
        let mut deleted = bring(cordoned(), stage);
        deleted.fault.deleting = true;
        deleted.run(3);
        assert!(
            deleted.gone && deleted.is_cordoned() && !deleted.is_marked(),
            "{stage}"
        );

        let mut sim = bring(cordoned(), stage);
        sim.world.guards = clear();
        sim.fault.retry_requested = stage == "failed";
        sim.set_allowed(9);
        (sim.verify, sim.health) = (Some(true), Some(true));
        sim.drain();
        sim.run(20);
        assert_eq!(sim.phase(), Phase::Recovered, "{stage}");
        assert!(sim.is_cordoned() && !sim.is_marked(), "{stage}");
    }
    let mut stopped = bring(cordoned(), "blocked");
    stopped.world.stopped_by = Some("floor".into());
    stopped.run(3);
    assert_eq!(stopped.phase(), Phase::Pending);
    assert!(stopped.is_cordoned() && !stopped.is_marked());
}

#[test]
fn b2_a_person_who_uncordons_ends_this_occurrence_and_not_the_next() {
    for stage in STAGES {
        let mut sim = bring(Sim::new(&["a"]), stage);
        let before = sim.destructive_effects();
        sim.uncordon_by_person();
        sim.world.guards = clear();
        sim.set_allowed(9);
        for health in [None, Some(false), Some(true)] {
            (sim.health, sim.verify) = (health, health);
            restart(&mut sim);
            sim.run(30);
            let began = sim.fault.status.active_at.unwrap();
            assert_eq!(
                refire(&sim.fault, true, began, sim.now),
                Refire::Nothing,
                "{stage}"
            );
            assert_eq!(sim.phase(), Phase::Cancelled, "{stage}");
            assert_eq!(sim.reason(), "UncordonedByPerson", "{stage}");
        }
        assert_eq!(sim.destructive_effects(), before, "{stage}");
        assert!(!sim.is_cordoned() && !sim.is_marked(), "{stage}");
        // The rule was silent, and fires anew: that is another occurrence, and is acted on.
        let Refire::Again(status) = refire(&sim.fault, true, sim.now, sim.now) else {
            panic!("{stage}: a new occurrence is nothing new");
        };
        sim.fault.status = *status;
        sim.run(2);
        assert_eq!(
            (sim.phase(), sim.fault.status.occurrence),
            (Phase::Processing, 2),
            "{stage}"
        );
        assert!(sim.is_cordoned() && sim.is_marked(), "{stage}");
    }
}

#[test]
fn d5_a_node_that_is_deleted_closes_its_fault_at_every_stage() {
    for stage in STAGES.into_iter().chain(["held"]) {
        let mut sim = Sim::new(&["a"]);
        if stage == "held" {
            sim.world.guards = None;
            sim.run(3);
        } else {
            sim = bring(sim, stage);
        }
        let before = sim.effects.len();
        (sim.node, sim.pods, sim.health, sim.verify) = (None, Vec::new(), None, None);
        (sim.world.rule, sim.world.candidates) = (RuleFacts::Silent, Some(Vec::new()));
        sim.run(1);
        assert_eq!(
            (sim.phase(), sim.reason()),
            (Phase::Cancelled, "NodeGone"),
            "{stage}"
        );
        for _ in 0..100 {
            sim.now += seconds(7);
            // Nothing is tried, and nobody is asked every second.
            assert_ne!(sim.settle(), Next::Now, "{stage}");
        }
        assert_eq!(sim.effects.len(), before, "{stage}: {:?}", sim.effects);
        sim.now += seconds(3600);
        sim.run(2);
        assert!(sim.gone, "{stage}: kept for its retention, then deleted");
    }
}

#[test]
fn d14_a_node_whose_gpu_was_replaced_comes_back_although_the_old_gpu_is_never_seen_again() {
    // The series of the old GPU are gone for good: its rule is silent, or nobody knows.
    for rule in [RuleFacts::Silent, RuleFacts::Unknown] {
        for stage in ["terminating", "verifying", "recovering"] {
            let mut sim = bring(Sim::new(&["a"]), stage);
            sim.end_pods();
            sim.world.rule = rule;
            (sim.health, sim.verify) = (None, None);
            sim.run(600);
            assert!(sim.is_cordoned(), "{stage}: the node is being repaired");
            (sim.health, sim.verify) = (Some(true), Some(true));
            sim.run(30);
            assert_eq!(sim.phase(), Phase::Recovered, "{stage}");
            assert!(!sim.is_cordoned() && !sim.is_marked(), "{stage}");
        }
    }
    let mut held = Sim::new(&["a"]);
    held.world.guards = None;
    held.run(3);
    (held.world.rule, held.health) = (RuleFacts::Silent, Some(true));
    held.run(20);
    assert_eq!(held.reason(), "HealthyWithoutAction");
    assert_eq!(held.destructive_effects(), 0);
}

#[test]
fn d18_an_event_that_is_reported_again_and_again_changes_nothing_and_adds_nothing() {
    for stage in ["terminating", "verifying", "failed"] {
        let mut sim = bring(Sim::new(&["a"]), stage);
        let began = sim.fault.status.active_at.unwrap();
        let size = serde_json::to_string(&sim.fault.status).unwrap().len();
        for n in 0..20_000 {
            // As other labels, or another process, would date it.
            for active_at in [began, began + seconds(n)] {
                assert_eq!(
                    refire(&sim.fault, false, active_at, sim.now),
                    Refire::Nothing,
                    "{stage}"
                );
            }
        }
        sim.run(50);
        let cordons = sim.effects.iter().filter(|e| **e == Effect::Cordon).count();
        assert!(cordons <= 1 && sim.evicted.len() <= 1, "{stage}");
        let now = serde_json::to_string(&sim.fault.status).unwrap().len();
        assert!(now <= size + 512, "{stage}: {size} became {now}");
    }
    // One that does come back for ever: each time it is another occurrence, but the object does not outgrow etcd.
    let mut sim = recovered();
    for n in 0..200 {
        sim.now += seconds(60);
        let at: Timestamp = sim.now;
        let Refire::Again(status) = refire(&sim.fault, true, at, at) else {
            panic!("{n}");
        };
        sim.fault.status = *status;
        sim.drain();
        sim.run(20);
        assert_eq!(sim.phase(), Phase::Recovered, "{n}");
    }
    assert!(sim.fault.status.attempts.len() <= 50);
    assert_eq!(sim.fault.status.occurrence, 201);
}
