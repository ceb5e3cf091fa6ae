//! What holds a fault back, and what no hold may delay.

use super::simulated::*;
use crate::api::conditions;
use crate::api::fault_status::{Outcome, Phase};
use crate::api::policy::Mode;
use crate::remediation::world::{FleetFacts, GuardFindings};

/// What ends a hold.
type Release = fn(&mut Sim);

#[test]
fn promise_9_every_hold_has_its_reason_in_its_order() {
    let mut sim = Sim::new(&["a"]);
    sim.world.policy = None;
    sim.world.stopped_by = Some("floor".into());
    sim.world.guards = Some(GuardFindings {
        stop: named("floor"),
        pause: named("errors"),
        unknown: named("latency"),
    });
    sim.world.fleet = FleetFacts::default();
    sim.world
        .fleet
        .usage
        .get_or_insert_default()
        .unavailable_others = 9;
    sim.world
        .fleet
        .usage
        .get_or_insert_default()
        .processing_others = 9;
    let release: [(&str, Release); 9] = [
        ("PolicyNotFound", |s| {
            s.world.policy = Some(policy());
            s.world.policy.as_mut().unwrap().mode = Mode::Observe;
        }),
        ("ObserveOnly", |s| {
            s.world.policy.as_mut().unwrap().mode = Mode::Enforce;
        }),
        ("NodeNotSelected", |s| s.world.fleet.selects_node = true),
        ("StoppedByGuard", |s| s.world.stopped_by = None),
        ("StoppedByGuard", |s| {
            s.world.guards.as_mut().unwrap().stop = None;
        }),
        ("GuardUnknown", |s| {
            s.world.guards.as_mut().unwrap().unknown = None;
        }),
        ("PausedByGuard", |s| {
            s.world.guards.as_mut().unwrap().pause = None;
        }),
        ("BudgetMaxUnavailable", |s| {
            s.world
                .fleet
                .usage
                .get_or_insert_default()
                .unavailable_others = 0;
        }),
        ("BudgetMaxConcurrent", |s| {
            s.world
                .fleet
                .usage
                .get_or_insert_default()
                .processing_others = 0;
        }),
    ];
    for (reason, release) in release {
        sim.run(3);
        assert_eq!((sim.phase(), sim.reason()), (Phase::Pending, reason));
        let admitted = sim.condition(conditions::ADMITTED).unwrap();
        assert_eq!(admitted, ("False".into(), reason.into()));
        assert_eq!(sim.destructive_effects(), 0, "{reason}");
        release(&mut sim);
    }
    sim.run(1);
    assert_eq!(sim.phase(), Phase::Processing);
    assert!(sim.is_cordoned());
}

#[test]
fn guards_that_were_not_asked_hold() {
    let mut sim = Sim::new(&["a"]);
    sim.world.guards = None;
    sim.run(3);
    assert_eq!(sim.reason(), "GuardUnknown");
    assert_eq!(sim.destructive_effects(), 0);
}

#[test]
fn a_fault_waits_while_another_of_its_node_evicts_and_counts_nobody_twice() {
    let mut sim = Sim::new(&["a", "b"]);
    sim.world.drained_for = Some("another".into());
    sim.run(5_000);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Processing, "DrainedForAnotherFault")
    );
    assert!(sim.is_cordoned() && sim.evicted.is_empty());
    // The other one has failed, and left a pod behind: the time of the wait counts against no deadline.
    sim.pods.pop();
    sim.world.drained_for = None;
    sim.run(5);
    assert_eq!(sim.evicted, ["a"]);
    // Or its drain is done although the turn has not been given back yet.
    let mut sim = Sim::new(&["a"]);
    sim.world.drained_for = Some("another".into());
    sim.run(5);
    sim.pods.clear();
    sim.run(5);
    assert!(sim.evicted.is_empty() && sim.fault.status.displaced_pods.is_empty());
    assert!(sim.fault.status.timeline.drained_at.is_some());
}

#[test]
fn a_pause_in_the_middle_does_not_burn_the_deadline() {
    let mut sim = Sim::new(&["a", "b"]);
    sim.set_allowed(1);
    sim.run(100);
    sim.end_pods();
    sim.world.guards.as_mut().unwrap().pause = named("errors");
    sim.run(5_000);
    assert_eq!(sim.evicted, ["a"], "no eviction while a guard holds");
    assert_eq!(sim.phase(), Phase::Processing);
    assert_eq!(
        sim.condition(conditions::PAUSED).unwrap(),
        ("True".into(), "PausedByGuard".into())
    );
    sim.set_allowed(0);
    sim.world.guards = clear();
    sim.run(190);
    assert_eq!(sim.phase(), Phase::Processing);
    assert_eq!(sim.condition(conditions::PAUSED).unwrap().0, "False");
    sim.run(20);
    assert_eq!(sim.phase(), Phase::Failed, "300 s without the pause");
}

#[test]
fn a_pause_of_the_cordon_ends_with_it() {
    let mut sim = Sim::new(&[]);
    let decision = sim.decide();
    sim.apply(&decision, Fate::DiesBeforeEffect);
    sim.world.guards.as_mut().unwrap().pause = named("errors");
    sim.run(5);
    assert_eq!(sim.condition(conditions::PAUSED).unwrap().0, "True");
    assert!(!sim.is_cordoned());
    sim.world.guards = clear();
    sim.run(2);
    assert_eq!(sim.condition(conditions::PAUSED).unwrap().0, "False");
}

#[test]
fn a_stop_undoes_what_has_displaced_nobody() {
    let mut sim = Sim::new(&["a"]);
    sim.set_allowed(0);
    sim.run(5);
    assert!(sim.is_cordoned());
    sim.world.guards.as_mut().unwrap().stop = named("floor");
    sim.world.stopped_by = Some("floor".into());
    sim.run(1);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Pending, "StoppedByGuard")
    );
    assert!(!sim.is_cordoned() && !sim.is_marked());
    assert!(sim.fault.status.isolation.is_none());
    let running = |a: &&_| -> bool {
        let a: &crate::api::fault_status::Attempt = a;
        a.outcome == Outcome::Running
    };
    assert_eq!(sim.fault.status.attempts.iter().filter(running).count(), 0);
    sim.run(60);
    assert!(!sim.is_cordoned(), "latched");
    sim.world.guards = clear();
    sim.world.stopped_by = None;
    sim.set_allowed(1);
    sim.run(2);
    assert_eq!(sim.evicted, ["a"], "a person resumed");
    assert_eq!(sim.condition(conditions::STOPPED).unwrap().0, "False");
}

#[test]
fn a_crash_between_the_stop_and_its_uncordon_is_made_good() {
    let mut sim = Sim::new(&["a"]);
    sim.set_allowed(0);
    sim.run(5);
    sim.world.stopped_by = Some("floor".into());
    sim.now += seconds(1);
    let decision = sim.decide();
    sim.apply(&decision, Fate::DiesBeforeEffect);
    assert!(sim.is_cordoned(), "the effect was lost");
    sim.run(1);
    assert!(!sim.is_cordoned() && !sim.is_marked());
    assert_eq!(sim.phase(), Phase::Pending);
}

#[test]
fn a_stop_holds_what_has_displaced_somebody() {
    let mut sim = Sim::new(&["a", "b"]);
    sim.set_allowed(1);
    sim.run(1);
    sim.end_pods();
    sim.world.stopped_by = Some("floor".into());
    sim.run(30);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Processing, "StoppedByGuard")
    );
    assert!(sim.is_cordoned());
    assert_eq!(sim.evicted, ["a"]);
    assert_eq!(sim.condition(conditions::STOPPED).unwrap().0, "True");
    sim.world.stopped_by = None;
    sim.run(2);
    assert_eq!(sim.evicted, ["a", "b"]);
    assert_eq!(sim.condition(conditions::STOPPED).unwrap().0, "False");
}

#[test]
fn promise_7_nothing_delays_recovery() {
    let mut sim = Sim::new(&[]);
    sim.verify = Some(true);
    sim.run(8);
    sim.world.guards = Some(GuardFindings {
        stop: named("a"),
        pause: named("b"),
        unknown: named("c"),
    });
    sim.world.stopped_by = Some("a".into());
    sim.world.fleet = FleetFacts::default();
    sim.world
        .fleet
        .usage
        .get_or_insert_default()
        .unavailable_others = 100;
    sim.health = Some(true);
    sim.run(11);
    assert_eq!(sim.phase(), Phase::Recovered);
    assert!(!sim.is_cordoned());
}
