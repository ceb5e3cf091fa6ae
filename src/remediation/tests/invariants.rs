//! Whatever happens, in whatever order, and wherever the process dies: the promises hold after each step, and once the
//! world is quiet the fault comes to rest.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::simulated::*;
use crate::api::conditions;
use crate::api::fault_status::{Action, Outcome, Phase};
use crate::remediation::decision::{Decision, Effect, Next};
use crate::remediation::world::{FleetFacts, GuardFindings, RuleFacts, StayReason, World};
use crate::remediation::{decide, drain};

#[derive(Clone, Debug)]
enum Event {
    Time(i64),
    Pause(bool),
    GuardsUnknown,
    Stop(bool),
    BudgetFull(bool),
    Health(Option<bool>),
    Verify(Option<bool>),
    Rule(RuleFacts),
    Allowed(i32),
    PodsEnd,
    PodFinishes,
    NewPod(Option<StayReason>),
    NodesLate(bool),
    PersonUncordons,
    PersonCordons,
    PersonRetries,
    PersonDeletes,
    NodeGone,
    NodeReplaced,
}

fn event() -> impl Strategy<Value = Event> {
    let three = || prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    prop_oneof![
        12 => (0i64..20).prop_map(Event::Time),
        2 => (20i64..400).prop_map(Event::Time),
        1 => Just(Event::Time(4_000)),
        2 => any::<bool>().prop_map(Event::Pause),
        1 => Just(Event::GuardsUnknown),
        2 => any::<bool>().prop_map(Event::Stop),
        2 => any::<bool>().prop_map(Event::BudgetFull),
        4 => three().prop_map(Event::Health),
        4 => three().prop_map(Event::Verify),
        3 => prop_oneof![Just(RuleFacts::Unknown), Just(RuleFacts::Firing), Just(RuleFacts::Silent)]
            .prop_map(Event::Rule),
        3 => (0i32..3).prop_map(Event::Allowed),
        4 => Just(Event::PodsEnd),
        1 => Just(Event::PodFinishes),
        2 => prop_oneof![3 => Just(None), 1 => Just(Some(StayReason::DaemonSet))].prop_map(Event::NewPod),
        2 => any::<bool>().prop_map(Event::NodesLate),
        1 => Just(Event::PersonUncordons),
        1 => Just(Event::PersonCordons),
        2 => Just(Event::PersonRetries),
        1 => Just(Event::PersonDeletes),
        1 => Just(Event::NodeGone),
        1 => Just(Event::NodeReplaced),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Done),
        1 => Just(Fate::Conflict),
        1 => Just(Fate::DiesBeforeEffect),
        1 => Just(Fate::DiesAfterEffect),
    ]
}

/// The simulation, and what the invariants must remember.
struct Watch {
    sim: Sim,
    /// A person has cordoned the node, and nobody of us had.
    persons_cordon: bool,
    /// Occurrence in which a person's uncordoning was recorded.
    cancelled_by_person: Option<u32>,
    pods_made: usize,
}

impl Watch {
    fn happen(&mut self, event: Event) {
        let sim = &mut self.sim;
        let guards = |w: &mut World| w.guards.get_or_insert_with(GuardFindings::default).clone();
        match event {
            Event::Time(n) => sim.now += seconds(n),
            Event::Pause(on) => {
                let mut found = guards(&mut sim.world);
                found.pause = on.then(|| named("errors")).flatten();
                sim.world.guards = Some(found);
            }
            Event::GuardsUnknown => sim.world.guards = None,
            Event::Stop(on) => sim.world.stopped_by = on.then(|| "floor".to_string()),
            Event::BudgetFull(full) => {
                sim.world.fleet.usage.unavailable_others = if full { 9 } else { 0 };
            }
            Event::Health(holds) => sim.health = holds,
            Event::Verify(holds) => sim.verify = holds,
            Event::Rule(says) => sim.world.rule = says,
            Event::Allowed(n) => sim.set_allowed(n),
            Event::PodsEnd => sim.end_pods(),
            Event::PodFinishes => {
                if let Some(pod) = sim.pods.first_mut() {
                    pod.finished = true;
                }
            }
            Event::NewPod(stays) => {
                self.pods_made += 1;
                let mut new = pod(&format!("new-{}", self.pods_made));
                new.stays = stays;
                sim.pods.push(new);
            }
            Event::NodesLate(late) => sim.lag = late,
            Event::PersonUncordons => {
                if let Some(node) = &mut sim.node {
                    node.unschedulable = false;
                    self.persons_cordon = false;
                }
            }
            Event::PersonCordons => {
                // While our mark is on the node nobody can tell a person's cordon from ours.
                if let Some(node) = sim.node.as_mut().filter(|n| n.mark.is_none()) {
                    node.unschedulable = true;
                    self.persons_cordon = true;
                }
            }
            Event::PersonRetries => sim.fault.retry_requested = true,
            Event::PersonDeletes => sim.fault.deleting = true,
            Event::NodeGone => (sim.node, self.persons_cordon) = (None, false),
            Event::NodeReplaced => {
                (sim.node, self.persons_cordon) = (Some(node("other-uid")), false);
                sim.pods.clear();
            }
        }
    }

    /// Decides until there is nothing more to do at this moment.
    fn act(&mut self, fate: Fate) -> Result<(), TestCaseError> {
        for round in 0..12 {
            if self.sim.gone {
                return Ok(());
            }
            let world = self.sim.look();
            let decision = decide(&self.sim.fault, &world, self.sim.now);
            self.check(&world, &decision)?;
            let evicted = self.sim.evicted.clone();
            self.sim
                .apply(&decision, if round == 0 { fate } else { Fate::Done });
            self.check_cluster(&evicted)?;
            let late = self.sim.lag && decision.effect.is_some();
            if decision.next != Next::Now || late {
                return Ok(());
            }
        }
        Err(TestCaseError::fail(format!(
            "no end: {:#?}",
            self.sim.effects
        )))
    }

    fn check(&mut self, world: &World, decision: &Decision) -> Result<(), TestCaseError> {
        let before = &self.sim.fault.status;
        let after = decision.status.as_ref().unwrap_or(before);
        let running = |action: Action| {
            let mut all = after.attempts.iter().rev();
            all.find(|a| a.action == action && a.outcome == Outcome::Running)
        };
        let destructive = matches!(decision.effect, Some(Effect::Cordon | Effect::Evict(_)));
        if destructive {
            // 8: guards fail closed; 4: the attempt stands in the status first.
            prop_assert_eq!(&world.guards, &clear());
            prop_assert_eq!(&world.stopped_by, &None);
            prop_assert!(conditions::is_true(&after.conditions, conditions::ADMITTED));
            prop_assert_eq!(after.phase, Phase::Processing);
            prop_assert_ne!(self.cancelled_by_person, Some(after.occurrence));
        }
        if decision.effect == Some(Effect::Cordon) {
            prop_assert!(running(Action::Cordon).is_some());
        }
        if let Some(Effect::Evict(pods)) = &decision.effect {
            let attempt = running(Action::EvictPods);
            prop_assert!(attempt.is_some());
            for pod in pods {
                prop_assert!(
                    attempt.is_some_and(|a| a.pods.contains(pod)),
                    "{pod} is not intended"
                );
                let seen = self.sim.pods.iter().find(|p| p.pod == *pod);
                // 12: only GPU pods that may go.
                prop_assert!(seen.is_some_and(|p| drain::holds_gpu(p) && !p.terminating));
            }
        }
        self.check_recovery(world, decision)?;
        // 10: a failed step is never Handled.
        if matches!(after.phase, Phase::Handled | Phase::Recovering) {
            for step in 0..after.plan.len() as u32 {
                let done = |a: &&_| -> bool {
                    let a: &crate::api::fault_status::Attempt = a;
                    a.round == after.round
                        && a.step == Some(step)
                        && a.outcome == Outcome::Succeeded
                };
                prop_assert!(
                    after.attempts.iter().any(|a| done(&a)),
                    "step {step} is not done"
                );
            }
        }
        // 9: nothing waits without a reason.
        prop_assert!(!after.reason.is_empty() || self.sim.fault.deleting);
        if after.reason == "UncordonedByPerson" {
            self.cancelled_by_person = Some(after.occurrence);
        }
        let unique: BTreeSet<_> = after.displaced_pods.iter().map(|d| &d.pod.uid).collect();
        prop_assert_eq!(unique.len(), after.displaced_pods.len());
        Ok(())
    }

    fn check_recovery(&self, world: &World, decision: &Decision) -> Result<(), TestCaseError> {
        let fault = &self.sim.fault;
        let after = decision.status.as_ref().unwrap_or(&fault.status);
        let proven = world.health.as_ref().and_then(|h| h.holds) == Some(true);
        // 1: without proof no recovery ends, and nothing is given back.
        let ended = after.phase == Phase::Recovered && fault.status.phase != Phase::Recovered;
        let uncordoned = fault
            .status
            .attempts
            .iter()
            .any(|a| a.action == Action::Uncordon && a.outcome == Outcome::Running);
        prop_assert!(!ended || proven || uncordoned, "recovered without proof");
        let gives_back =
            decision.effect == Some(Effect::Uncordon) && after.phase == Phase::Recovering;
        prop_assert!(
            !gives_back || proven || fault.deleting,
            "given back without proof"
        );
        // 7: no guard and no budget makes a difference to a recovery.
        let recovers = matches!(
            fault.status.phase,
            Phase::Handled | Phase::Recovering | Phase::Recovered
        );
        if recovers || fault.deleting {
            let held = World {
                guards: None,
                stopped_by: named("floor").map(|(name, _)| name),
                fleet: FleetFacts::default(),
                ..world.clone()
            };
            prop_assert_eq!(&decide(fault, &held, self.sim.now), decision);
        }
        Ok(())
    }

    fn check_cluster(&self, evicted_before: &[String]) -> Result<(), TestCaseError> {
        let sim = &self.sim;
        let unique: BTreeSet<_> = sim.evicted.iter().collect();
        prop_assert_eq!(unique.len(), sim.evicted.len(), "evicted twice");
        for uid in &sim.evicted[evicted_before.len()..] {
            let pod = sim.pods.iter().find(|p| p.pod.uid == *uid);
            prop_assert!(pod.is_some_and(|p| p.stays.is_none()), "{uid} stays");
        }
        // 5: we undo only what we did.
        if self.persons_cordon {
            prop_assert!(sim.is_cordoned(), "a person's cordon was undone");
        }
        if sim.node.as_ref().is_some_and(|n| n.uid == "other-uid") {
            let untouched = sim.node.as_ref().is_some_and(|n| n.mark.is_none());
            prop_assert!(untouched || sim.fault.status.node_uid.as_deref() == Some("other-uid"));
        }
        Ok(())
    }

    /// The world becomes quiet and healthy. 3: the end is the same, whatever was before.
    fn rest(&mut self) -> Result<(), TestCaseError> {
        let sim = &mut self.sim;
        sim.lag = false;
        sim.world.guards = clear();
        sim.world.stopped_by = None;
        sim.world.fleet.usage.unavailable_others = 0;
        sim.world.rule = RuleFacts::Silent;
        (sim.health, sim.verify) = (Some(true), Some(true));
        sim.set_allowed(100);
        for _ in 0..60 {
            self.sim.now += seconds(1);
            self.sim.end_pods();
            self.act(Fate::Done)?;
        }
        let done = self.sim.effects.len();
        let phase = self.sim.phase();
        let cordoned = self.sim.is_cordoned();
        if self.sim.gone || phase.is_over() {
            prop_assert!(!self.sim.is_marked(), "{phase:?}: our mark was left behind");
            prop_assert_eq!(cordoned, self.persons_cordon, "{:?}", phase);
        } else {
            prop_assert_eq!(phase, Phase::Failed);
            let missing = self.sim.reason() == "NodeNotFound";
            prop_assert!(missing || self.sim.is_marked(), "isolation stays");
        }
        for _ in 0..20 {
            self.sim.now += seconds(1);
            self.act(Fate::Done)?;
        }
        prop_assert_eq!(self.sim.effects.len(), done, "not at rest");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_promises_hold_whatever_happens(
        pods in 0usize..4,
        // Half of the runs start where recovery is near, so that its last steps are met often enough.
        healthy in any::<bool>(),
        events in prop::collection::vec((event(), fate()), 1..60),
    ) {
        let names: Vec<String> = (0..pods).map(|i| format!("pod-{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut watch = Watch {
            sim: Sim::new(&names),
            persons_cordon: false,
            cancelled_by_person: None,
            pods_made: 0,
        };
        if healthy {
            (watch.sim.verify, watch.sim.health) = (Some(true), Some(true));
        }
        for (event, fate) in events {
            watch.happen(event);
            watch.act(fate)?;
        }
        watch.rest()?;
    }
}
