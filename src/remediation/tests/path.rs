//! The way of a fault, from the first visit to recovery or failure.

use super::simulated::*;
use crate::api::conditions;
use crate::api::fault_status::{Action, Outcome, Phase};
use crate::remediation::decision::{Effect, Next, Observation};
use crate::remediation::drain;
use crate::remediation::world::{RuleFacts, StayReason};

#[test]
fn the_whole_way() {
    let mut sim = Sim::new(&["a", "b"]);
    sim.run(1);
    assert_eq!(sim.phase(), Phase::Processing);
    assert!(sim.is_cordoned() && sim.is_marked());
    assert_eq!(sim.evicted, ["a", "b"]);
    assert_eq!(sim.effects.len(), 2, "{:?}", sim.effects);
    sim.end_pods();
    sim.replace_pods();
    sim.run(3);
    assert_eq!(sim.reason(), "Verifying");
    sim.verify = Some(true);
    sim.run(5);
    assert_eq!(sim.phase(), Phase::Processing, "held for 4 s");
    sim.run(1);
    assert_eq!(sim.phase(), Phase::Recovering);
    sim.health = Some(true);
    sim.run(10);
    assert_eq!(sim.phase(), Phase::Recovering, "held for 9 s");
    sim.run(1);
    assert_eq!(sim.phase(), Phase::Recovered);
    assert!(!sim.is_cordoned() && !sim.is_marked());
    let attempts = sim.fault.status.attempts.iter();
    let done: Vec<_> = attempts.map(|a| (a.number, a.action, a.outcome)).collect();
    assert_eq!(
        done,
        [
            (1, Action::Cordon, Outcome::Succeeded),
            (2, Action::EvictPods, Outcome::Succeeded),
            (3, Action::Verify, Outcome::Succeeded),
            (4, Action::Uncordon, Outcome::Succeeded),
        ]
    );
    let count = |o: fn(&Observation) -> bool| sim.observations.iter().filter(|x| o(x)).count();
    assert_eq!(count(|o| matches!(o, Observation::Isolated(_))), 1);
    assert_eq!(count(|o| matches!(o, Observation::WorkloadRecovered(_))), 1);
    assert_eq!(count(|o| matches!(o, Observation::NodeBack(_))), 1);
    assert_eq!(count(|o| matches!(o, Observation::Rescheduled(None))), 2);
}

#[test]
fn one_at_a_time_under_a_disruption_budget() {
    let mut sim = Sim::new(&["a", "b", "c"]);
    sim.set_allowed(1);
    sim.run(5);
    assert_eq!(sim.evicted, ["a"]);
    assert_eq!(sim.reason(), "BlockedByDisruptionBudget");
    assert!(sim.fault.status.message.contains("ml/llm"));
    sim.end_pods();
    sim.run(3);
    assert_eq!(sim.evicted, ["a", "b"]);
    sim.drain();
    assert_eq!(sim.evicted, ["a", "b", "c"]);
    let evictions = |e: &&Effect| matches!(e, Effect::Evict(_));
    assert_eq!(sim.effects.iter().filter(evictions).count(), 3);
    assert_eq!(sim.fault.status.displaced_pods.len(), 3);
}

#[test]
fn a_terminating_pod_still_holds_its_gpu() {
    let mut sim = Sim::new(&["a"]);
    sim.run(100);
    assert_eq!(sim.reason(), "PodsTerminating");
    assert_eq!(sim.evicted, ["a"], "asked for once");
    assert!(sim.fault.status.timeline.drained_at.is_none());
    sim.end_pods();
    sim.run(1);
    assert!(sim.fault.status.timeline.drained_at.is_some());
}

#[test]
fn an_accepted_eviction_is_not_repeated_while_the_watch_is_late() {
    let mut sim = Sim::new(&["a"]);
    sim.run(1);
    sim.pods[0].terminating = false; // as the late watch still shows it
    sim.run(20);
    assert_eq!(sim.evicted, ["a"]);
}

#[test]
fn promise_12_only_gpu_pods_that_may_go() {
    let mut sim = Sim::new(&["a", "daemon", "static", "system", "finished"]);
    sim.pods[1].stays = Some(StayReason::DaemonSet);
    sim.pods[2].stays = Some(StayReason::Static);
    sim.pods[3].stays = Some(StayReason::ProtectedNamespace);
    sim.pods[4].finished = true;
    sim.drain();
    assert_eq!(sim.evicted, ["a"]);
    assert!(sim.fault.status.timeline.drained_at.is_some());
    assert_eq!(sim.fault.status.displaced_pods.len(), 1);
}

#[test]
fn a_new_pod_is_written_down_before_it_is_evicted() {
    let mut sim = Sim::new(&["a"]);
    sim.run(1);
    sim.pods.push(pod("late"));
    sim.now += seconds(1);
    let decision = sim.decide();
    let status = decision.status.clone().unwrap();
    let listed = &status.attempts.last().unwrap().pods;
    assert!(listed.iter().any(|p| p.uid == "late"));
    assert_eq!(
        decision.effect,
        Some(Effect::Evict(vec![pod("late").pod])),
        "and only the new one"
    );
}

#[test]
fn promise_10_one_pod_that_stays_is_failed() {
    let mut sim = Sim::new(&["goes", "hangs", "stays"]);
    sim.set_allowed(2);
    sim.run(1);
    sim.pods.retain(|p| p.pod.uid != "goes");
    sim.run(299);
    assert_eq!(sim.phase(), Phase::Processing);
    sim.run(1);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Failed, "EvictionTimedOut")
    );
    let stayed = drain::stayed(&sim.fault.status);
    let stayed: Vec<_> = stayed.iter().map(|p| p.uid.as_str()).collect();
    assert_eq!(stayed, ["hangs", "stays"]);
    assert!(sim.fault.status.message.contains("ml/stays"));
    let displaced = sim.fault.status.displaced_pods.iter();
    let displaced: Vec<_> = displaced.map(|d| d.pod.uid.as_str()).collect();
    assert_eq!(displaced, ["goes", "hangs"]);
    let drained = sim.condition(conditions::DRAINED).unwrap();
    assert_eq!(drained, ("False".into(), "EvictionTimedOut".into()));
    sim.health = Some(true);
    sim.verify = Some(true);
    sim.run(60);
    assert_eq!(sim.phase(), Phase::Failed, "isolation stays");
    assert!(sim.is_cordoned() && sim.is_marked());
}

#[test]
fn a_pod_that_others_end_is_waited_for_but_not_displaced() {
    let mut sim = Sim::new(&["a"]);
    sim.pods[0].terminating = true;
    sim.run(5);
    assert!(sim.fault.status.displaced_pods.is_empty());
    assert!(sim.fault.status.timeline.drained_at.is_none());
    sim.end_pods();
    sim.run(1);
    assert!(sim.fault.status.timeline.drained_at.is_some());
}

#[test]
fn a_pod_that_finishes_by_itself_is_not_displaced() {
    let mut sim = Sim::new(&["a", "job"]);
    sim.set_allowed(1);
    sim.run(1);
    sim.pods[1].finished = true;
    sim.drain();
    let displaced = sim.fault.status.displaced_pods.iter();
    let displaced: Vec<_> = displaced.map(|d| d.pod.uid.as_str()).collect();
    assert_eq!(displaced, ["a"]);
    assert!(sim.fault.status.timeline.drained_at.is_some());
}

#[test]
fn a_verification_that_is_disproved_for_its_whole_time_fails() {
    let mut sim = Sim::new(&[]);
    sim.verify = Some(false);
    sim.run(602);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Failed, "VerifyTimedOut")
    );
}

#[test]
fn an_outage_of_prometheus_does_not_fail_a_verification() {
    let mut sim = Sim::new(&[]);
    sim.verify = None;
    sim.run(3_000);
    assert_eq!(
        (sim.phase(), sim.reason()),
        (Phase::Processing, "Verifying")
    );
    sim.verify = Some(true);
    sim.run(10);
    assert_eq!(sim.phase(), Phase::Recovering);
}

#[test]
fn promise_1_unknown_health_never_gives_the_node_back() {
    let mut sim = Sim::new(&[]);
    sim.verify = Some(true);
    sim.run(10);
    assert_eq!(sim.phase(), Phase::Recovering);
    for _ in 0..50 {
        sim.health = Some(true);
        sim.run(9);
        sim.health = None;
        sim.run(1);
    }
    assert_eq!(sim.phase(), Phase::Recovering);
    assert_eq!(sim.reason(), "HealthUnknown");
    assert!(sim.is_cordoned());
}

#[test]
fn promise_1_an_old_proof_does_not_uncordon_after_a_restart() {
    let mut sim = Sim::new(&[]);
    (sim.verify, sim.health) = (Some(true), Some(true));
    let decision = loop {
        sim.now += seconds(1);
        let decision = sim.decide();
        if decision.effect == Some(Effect::Uncordon) {
            break decision;
        }
        sim.apply(&decision, Fate::Done);
    };
    sim.apply(&decision, Fate::DiesBeforeEffect);
    sim.health = None;
    sim.now += seconds(3600);
    sim.run(30);
    assert!(sim.is_cordoned());
    sim.health = Some(true);
    sim.run(12);
    assert_eq!(sim.phase(), Phase::Recovered);
    assert!(!sim.is_cordoned());
}

#[test]
fn two_faults_on_one_node_give_it_back_once_both_are_over() {
    let mut sim = Sim::new(&[]);
    sim.run(1);
    let other = sim.node.as_ref().unwrap();
    let change = crate::remediation::mark::cordon(other, "g", "g-uid").unwrap();
    crate::remediation::mark::tests::apply(sim.node.as_mut().unwrap(), change);
    (sim.verify, sim.health) = (Some(true), Some(true));
    sim.run(20);
    assert_eq!(sim.phase(), Phase::Recovered);
    assert!(sim.is_cordoned() && !sim.is_marked());
    assert!(sim.fault.status.timeline.node_back_at.is_none());
}

#[test]
fn after_its_retention_a_recovered_fault_is_deleted_when_its_rule_is_silent() {
    let mut sim = Sim::new(&[]);
    (sim.verify, sim.health) = (Some(true), Some(true));
    sim.run(20);
    assert_eq!(sim.phase(), Phase::Recovered);
    sim.now += seconds(3600);
    sim.run(5);
    assert!(!sim.gone && !sim.fault.deleting, "its rule still fires");
    sim.world.rule = RuleFacts::Unknown;
    sim.run(5);
    assert!(!sim.fault.deleting, "unknown is not silent");
    sim.world.rule = RuleFacts::Silent;
    sim.run(1);
    assert!(sim.gone);
}

#[test]
fn a_recovered_fault_that_is_disproved_is_opened_again() {
    let mut sim = Sim::new(&["a"]);
    (sim.verify, sim.health) = (Some(true), Some(true));
    sim.drain();
    sim.run(20);
    assert_eq!(sim.phase(), Phase::Recovered);
    sim.run(30);
    assert_eq!(sim.fault.status.occurrence, 1, "health holds");
    sim.health = None;
    sim.run(30);
    assert_eq!(sim.fault.status.occurrence, 1, "unknown opens nothing");
    sim.health = Some(false);
    sim.run(1);
    assert_eq!(sim.fault.status.occurrence, 2);
    assert!(sim.is_cordoned());
    assert_eq!(sim.evicted, ["a"]);
}

#[test]
fn a_fault_that_never_acted_ends_when_it_is_proven_healthy() {
    let mut sim = Sim::new(&[]);
    sim.world.guards = None;
    sim.world.rule = RuleFacts::Silent;
    sim.run(30);
    assert_eq!(sim.phase(), Phase::Pending, "silence alone is no evidence");
    sim.health = Some(true);
    sim.run(12);
    assert_eq!(sim.reason(), "HealthyWithoutAction");
    assert_eq!(sim.destructive_effects(), 0);
    assert_ne!(sim.settle(), Next::Now);
}
