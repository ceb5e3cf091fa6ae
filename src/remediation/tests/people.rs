//! What people do in the middle: uncordon, cordon, retry, delete, replace the node.

use super::simulated::*;
use crate::api::fault_status::Phase;
use crate::remediation::decision::Effect;

/// Runs a fault until the stage is reached.
fn at(stage: &str) -> Sim {
    bring(Sim::new(&["a"]), stage)
}

/// Runs this fault, whose node has one GPU pod, until the stage is reached.
pub(super) fn bring(mut sim: Sim, stage: &str) -> Sim {
    match stage {
        "cordoning" => {
            let decision = sim.decide();
            assert_eq!(decision.effect, Some(Effect::Cordon));
            sim.apply(&decision, Fate::DiesAfterEffect);
        }
        "blocked" => {
            sim.set_allowed(0);
            sim.run(5);
        }
        "paused" => {
            sim.set_allowed(0);
            sim.run(5);
            sim.world.guards.as_mut().unwrap().pause = named("errors");
            sim.run(5);
        }
        "terminating" => sim.run(5),
        "verifying" => sim.drain(),
        "recovering" => {
            sim.verify = Some(true);
            sim.drain();
        }
        "uncordoning" => {
            (sim.verify, sim.health) = (Some(true), Some(true));
            sim.end_pods();
            loop {
                sim.now += seconds(1);
                sim.end_pods();
                let decision = sim.decide();
                let lost = decision.effect == Some(Effect::Uncordon);
                let fate = if lost {
                    Fate::DiesBeforeEffect
                } else {
                    Fate::Done
                };
                sim.apply(&decision, fate);
                if lost {
                    break;
                }
            }
        }
        "failed" => {
            sim.set_allowed(0);
            sim.run(302);
        }
        _ => panic!("{stage}"),
    }
    assert!(sim.is_cordoned() && sim.is_marked(), "{stage}");
    sim
}

/// Every stage at which the node is isolated on behalf of the fault.
pub(super) const STAGES: [&str; 8] = [
    "cordoning",
    "blocked",
    "paused",
    "terminating",
    "verifying",
    "recovering",
    "uncordoning",
    "failed",
];

#[test]
fn promise_5_a_person_who_uncordons_cancels_at_every_stage() {
    for stage in STAGES {
        let mut sim = at(stage);
        let before = sim.destructive_effects();
        sim.uncordon_by_person();
        sim.run(1);
        assert_eq!(
            (sim.phase(), sim.reason()),
            (Phase::Cancelled, "UncordonedByPerson"),
            "{stage}"
        );
        assert!(!sim.is_marked(), "{stage}");
        sim.world.guards = clear();
        sim.set_allowed(5);
        (sim.verify, sim.health) = (Some(true), Some(true));
        sim.run(60);
        assert!(!sim.is_cordoned(), "{stage}: cordoned again");
        assert_eq!(sim.destructive_effects(), before, "{stage}");
        assert_eq!(sim.phase(), Phase::Cancelled, "{stage}");
    }
}

#[test]
fn promise_5_a_node_that_a_person_had_cordoned_stays_cordoned() {
    let mut sim = Sim::new(&["a"]);
    sim.node.as_mut().unwrap().unschedulable = true;
    (sim.verify, sim.health) = (Some(true), Some(true));
    sim.drain();
    sim.run(20);
    assert_eq!(sim.phase(), Phase::Recovered);
    assert!(sim.is_cordoned() && !sim.is_marked());
    assert!(sim.fault.status.timeline.node_back_at.is_none());
}

#[test]
fn deleting_a_fault_undoes_its_isolation_at_every_stage() {
    for stage in STAGES {
        let mut sim = at(stage);
        sim.fault.deleting = true;
        sim.run(3);
        assert!(sim.gone, "{stage}");
        assert!(!sim.is_cordoned() && !sim.is_marked(), "{stage}");
    }
}

#[test]
fn deleting_a_fault_undoes_a_cordon_that_is_not_visible_yet() {
    let mut sim = Sim::new(&["a"]);
    sim.look();
    sim.lag = true;
    let decision = sim.decide();
    assert_eq!(decision.effect, Some(Effect::Cordon));
    sim.apply(&decision, Fate::Done);
    sim.fault.deleting = true;
    sim.run(3);
    assert!(sim.gone);
    assert!(!sim.is_cordoned() && !sim.is_marked());
}

#[test]
fn deleting_never_waits_for_another_node_of_the_same_name() {
    let mut sim = at("blocked");
    sim.node.as_mut().unwrap().uid = "restored".into(); // with our annotation, out of a backup
    sim.fault.deleting = true;
    sim.run(3);
    assert!(sim.gone);
}

#[test]
fn a_node_that_is_gone_or_replaced_cancels() {
    for stage in STAGES {
        let mut sim = at(stage);
        sim.node = None;
        sim.run(3);
        assert_eq!((sim.phase(), sim.reason()), (Phase::Cancelled, "NodeGone"));
        let mut sim = at(stage);
        sim.node = Some(node("other"));
        sim.run(30);
        let end = (sim.phase(), sim.reason());
        assert_eq!(end, (Phase::Cancelled, "NodeReplaced"), "{stage}");
        assert_eq!(sim.node, Some(node("other")), "{stage}: untouched");
    }
}

#[test]
fn a_fault_made_by_hand_for_a_missing_node_fails_and_touches_nothing() {
    let mut sim = Sim::new(&[]);
    sim.fault.spec.rule_ref = None;
    sim.node = None;
    sim.run(10);
    assert_eq!((sim.phase(), sim.reason()), (Phase::Failed, "NodeNotFound"));
    assert!(sim.effects.is_empty());
    sim.fault.retry_requested = true;
    sim.run(10);
    assert_eq!((sim.phase(), sim.reason()), (Phase::Failed, "NodeNotFound"));
    sim.fault.deleting = true;
    sim.run(1);
    assert!(sim.gone);
}

#[test]
fn a_person_who_asks_for_another_try_gets_one() {
    let mut sim = at("failed");
    sim.set_allowed(1);
    sim.fault.retry_requested = true;
    sim.run(1);
    assert!(!sim.fault.retry_requested);
    assert_eq!(sim.fault.status.round, 2);
    assert_eq!(sim.evicted, ["a"]);
    sim.drain();
    assert_eq!(sim.reason(), "Verifying");
    sim.uncordon_by_person();
    sim.run(1);
    assert_eq!(sim.phase(), Phase::Cancelled);
}

#[test]
fn a_retry_whose_annotation_could_not_be_removed_does_not_run_twice() {
    let mut sim = at("failed");
    sim.fault.retry_requested = true;
    sim.now += seconds(1);
    let decision = sim.decide();
    sim.apply(&decision, Fate::DiesBeforeEffect);
    sim.run(2);
    assert_eq!(sim.fault.status.round, 2);
    assert_eq!(sim.phase(), Phase::Processing);
    sim.run(400);
    assert_eq!((sim.phase(), sim.fault.status.round), (Phase::Failed, 2));
}

#[test]
fn a_retry_that_is_held_can_be_cancelled_and_given_back() {
    let mut sim = at("failed");
    sim.world.guards = None;
    sim.fault.retry_requested = true;
    sim.run(5);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Pending, "GuardUnknown")
    );
    assert!(sim.is_cordoned(), "what was isolated stays so");
    let mut other = sim.clone();
    other.uncordon_by_person();
    other.run(1);
    assert_eq!(other.phase(), Phase::Cancelled);
    sim.world.rule = crate::remediation::world::RuleFacts::Silent;
    sim.health = Some(true);
    sim.run(12);
    assert_eq!(sim.phase(), Phase::Recovered, "no guard delays this");
    assert!(!sim.is_cordoned() && !sim.is_marked());
}

#[test]
fn a_mark_of_a_former_occurrence_does_not_cancel_the_next() {
    let mut sim = at("blocked");
    sim.uncordon_by_person();
    sim.now += seconds(1);
    let decision = sim.decide();
    sim.apply(&decision, Fate::DiesBeforeEffect);
    assert!(sim.is_marked() && sim.phase() == Phase::Cancelled);
    let mut draft = crate::remediation::draft::Draft::new(&sim.fault, sim.now);
    draft.reopen(sim.now, "It fired again");
    sim.fault.status = draft.status;
    sim.run(3);
    assert_eq!(
        (sim.phase(), sim.fault.status.occurrence),
        (Phase::Processing, 2)
    );
    assert!(sim.is_cordoned() && sim.node.as_ref().unwrap().mark.as_ref().unwrap().owned);
}
