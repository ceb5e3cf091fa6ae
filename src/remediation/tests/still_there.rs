//! A fault that waited must still be there when it may act, and a drain must come to an end.

use super::simulated::*;
use crate::api::conditions;
use crate::api::fault_status::Phase;
use crate::remediation::drain;
use crate::remediation::world::RuleFacts;

/// A fault that a guard holds, whose rule says this.
fn held(rule: RuleFacts) -> Sim {
    let mut sim = Sim::new(&["a"]);
    sim.world.guards.as_mut().unwrap().pause = named("errors");
    sim.run(3);
    sim.world.rule = rule;
    sim
}

fn release(sim: &mut Sim) {
    sim.world.guards = clear();
    sim.run(3);
}

#[test]
fn a_silent_rule_and_a_healthy_gpu_leave_the_node_alone() {
    let mut sim = held(RuleFacts::Silent);
    sim.health = Some(true);
    release(&mut sim);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Pending, "RuleNotFiring")
    );
    sim.run(30);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Recovered, "HealthyWithoutAction")
    );
    assert_eq!(sim.destructive_effects(), 0);
}

#[test]
fn a_silent_rule_and_a_gpu_that_is_proven_ill_are_acted_on() {
    let mut sim = held(RuleFacts::Silent);
    sim.health = Some(false);
    release(&mut sim);
    assert_eq!(sim.phase(), Phase::Processing);
}

#[test]
fn promise_1_while_nobody_knows_what_the_rule_says_nothing_begins() {
    for health in [None, Some(true)] {
        let mut sim = held(RuleFacts::Unknown);
        sim.health = health;
        release(&mut sim);
        assert_eq!(
            (sim.phase(), sim.reason()),
            (Phase::Pending, "RuleNotFiring")
        );
        sim.world.rule = RuleFacts::Firing;
        sim.run(3);
        assert_eq!(sim.phase(), Phase::Processing);
    }
}

#[test]
fn a_deleted_rule_takes_its_held_faults_along_and_no_node() {
    let mut sim = held(RuleFacts::Gone);
    release(&mut sim);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Cancelled, "RuleDeleted")
    );
    assert_eq!(sim.destructive_effects(), 0);
}

#[test]
fn the_silence_of_the_rule_is_written_down_once() {
    let mut sim = Sim::new(&["a"]);
    sim.run(3);
    assert_eq!(sim.fault.status.timeline.rule_silent_at, None);
    sim.world.rule_was_silent = true;
    sim.run(1);
    let first = sim.fault.status.timeline.rule_silent_at;
    assert!(first.is_some());
    sim.run(5);
    assert_eq!(sim.fault.status.timeline.rule_silent_at, first);
}

#[test]
fn promise_4_a_pod_that_ignores_the_cordon_is_not_evicted_for_ever() {
    let mut sim = Sim::new(&["a"]);
    sim.set_allowed(1);
    sim.run(3);
    let mut late = pod("late");
    late.created = sim.now + seconds(10);
    sim.now += seconds(10);
    sim.pods.push(late);
    sim.drain();
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Failed, "PodsIgnoreCordon")
    );
    let stayed: Vec<_> = drain::stayed(&sim.fault.status)
        .iter()
        .map(|p| p.uid.as_str())
        .collect();
    assert_eq!(stayed, ["late"]);
    assert!(
        sim.pods
            .iter()
            .any(|p| p.pod.uid == "late" && !p.terminating)
    );
    let listed = sim.fault.status.attempts.iter().flat_map(|a| &a.pods);
    assert!(listed.into_iter().all(|p| p.uid != "late"));
    assert_eq!(
        sim.condition(conditions::DRAINED).unwrap().1,
        "PodsIgnoreCordon"
    );
}

#[test]
fn a_recovered_fault_leaves_the_illness_of_its_node_to_the_fault_that_is_open() {
    let mut sim = Sim::new(&[]);
    (sim.verify, sim.health) = (Some(true), Some(true));
    sim.run(60);
    assert_eq!(sim.phase(), Phase::Recovered);
    sim.health = Some(false);
    sim.world.node_has_open_fault = true;
    sim.run(5);
    assert_eq!(sim.phase(), Phase::Recovered);
    sim.world.node_has_open_fault = false;
    sim.run(5);
    assert_eq!(
        (sim.fault.status.occurrence, sim.phase()),
        (2, Phase::Processing)
    );
}
