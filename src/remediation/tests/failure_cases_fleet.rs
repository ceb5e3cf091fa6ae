//! Cases that happened to others, named after their ids in `docs/failure-cases.md`: several faults at once.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;

use super::simulated::*;
use crate::api::fault_status::Phase;
use crate::api::policy::Budget;
use crate::guards::budget::{Usage, limit};
use crate::remediation::world::{FleetFacts, GuardFindings};

/// Two faults on one node.
struct Pair {
    faults: [Sim; 2],
}

impl Pair {
    fn new() -> Self {
        let mut other = Sim::new(&["a"]);
        (other.fault.name, other.fault.uid) = ("g".into(), "g-uid".into());
        Self {
            faults: [Sim::new(&["a"]), other],
        }
    }

    /// Lets one of them look and act, on the node and the pods that they share.
    fn step(&mut self, index: usize) {
        let other = &self.faults[1 - index];
        let (node, pods, now) = (other.node.clone(), other.pods.clone(), other.now);
        let sim = &mut self.faults[index];
        (sim.node, sim.pods, sim.now) = (node, pods, now.max(sim.now));
        sim.run(1);
        sim.end_pods();
        let (node, pods, now) = (sim.node.clone(), sim.pods.clone(), sim.now);
        let other = &mut self.faults[1 - index];
        (other.node, other.pods, other.now) = (node, pods, now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn b4_a_node_with_two_faults_comes_back_when_both_are_over(
        turns in prop::collection::vec(0usize..2, 20..60),
        first in 0usize..2,
        between in prop::collection::vec(0usize..2, 1..60),
    ) {
        let mut pair = Pair::new();
        // Both are seen at the same moment, and take their turns in any order.
        for index in [vec![0, 1], turns].concat() {
            pair.step(index);
            prop_assert!(pair.faults[index].is_cordoned());
        }
        for sim in &pair.faults {
            prop_assert_eq!(sim.fault.status.occurrence, 1);
            prop_assert!(sim.is_marked());
        }
        (pair.faults[first].verify, pair.faults[first].health) = (Some(true), Some(true));
        for index in [vec![first; 40], between].concat() {
            pair.step(index);
            prop_assert!(pair.faults[index].is_cordoned(), "the other fault is open");
        }
        prop_assert_eq!(pair.faults[first].phase(), Phase::Recovered);
        let second = 1 - first;
        prop_assert!(!pair.faults[second].phase().is_over());
        (pair.faults[second].verify, pair.faults[second].health) = (Some(true), Some(true));
        for _ in 0..40 {
            pair.step(second);
        }
        prop_assert_eq!(pair.faults[second].phase(), Phase::Recovered);
        prop_assert!(!pair.faults[second].is_cordoned());
        prop_assert!(pair.faults[second].node.as_ref().unwrap().mark.is_none());
    }
}

/// Nodes of one pool, each with its fault.
struct Fleet {
    nodes: usize,
    budget: Budget,
    faults: Vec<Sim>,
}

impl Fleet {
    fn new(nodes: usize, faulty: usize, budget: Budget) -> Self {
        let faults = (0..faulty).map(|i| {
            let mut sim = Sim::new(&["a"]);
            sim.fault.name = format!("f-{i}");
            sim.world.policy.as_mut().unwrap().budget = budget.clone();
            sim
        });
        Self {
            nodes,
            faults: faults.collect(),
            budget,
        }
    }

    fn out(&self) -> usize {
        self.faults.iter().filter(|s| s.is_cordoned()).count()
    }

    /// Lets each of them look and act once, in this order. The budget is counted anew for each, as the controller does.
    fn step(&mut self, order: impl Iterator<Item = usize>) -> Result<(), TestCaseError> {
        for index in order {
            let others = || self.faults.iter().enumerate().filter(|(i, _)| *i != index);
            let usage = Usage {
                nodes: self.nodes,
                unavailable_others: others().filter(|(_, s)| s.is_cordoned()).count(),
                node_is_out: self.faults[index].is_cordoned(),
                processing_others: others()
                    .filter(|(_, s)| s.phase() == Phase::Processing)
                    .count(),
            };
            let sim = &mut self.faults[index];
            sim.world.fleet.usage = Some(usage);
            sim.run(1);
            sim.end_pods();
            let (limit, out) = (limit(&self.budget, self.nodes), self.out());
            prop_assert!(out <= limit, "{out} nodes are out, and {limit} may be");
        }
        Ok(())
    }
}

fn any_budget() -> impl Strategy<Value = Budget> {
    let most = prop_oneof![
        (1i32..8).prop_map(|n| Some(IntOrString::Int(n))),
        (1u32..60).prop_map(|p| Some(IntOrString::String(format!("{p}%")))),
        Just(None),
    ];
    (most, 1i32..6).prop_map(|(max_unavailable, most)| Budget {
        max_unavailable,
        max_concurrent: Some(most),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Three quarters of the pool at once, asked in any order; each node is repaired a while after it was isolated.
    #[test]
    fn b8_many_nodes_at_once_stay_within_the_budget_and_each_has_its_turn(
        nodes in 4usize..24,
        budget in any_budget(),
        starts in prop::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let faulty = (nodes * 3).div_ceil(4);
        let mut fleet = Fleet::new(nodes, faulty, budget);
        for round in 0..60 * faulty {
            let start = starts[round % starts.len()].index(faulty);
            fleet.step((0..faulty).map(|i| (start + i) % faulty))?;
            for sim in &mut fleet.faults {
                if sim.is_cordoned() {
                    (sim.verify, sim.health) = (Some(true), Some(true));
                }
                if sim.phase() == Phase::Pending {
                    prop_assert!(sim.reason().starts_with("BudgetMax"), "{}", sim.reason());
                }
            }
            if fleet.faults.iter().all(|s| s.phase() == Phase::Recovered) {
                break;
            }
        }
        let open: Vec<_> = fleet.faults.iter().filter(|s| s.phase() != Phase::Recovered).map(|s| &s.fault.name).collect();
        prop_assert!(open.is_empty(), "these never had their turn: {open:?}");
    }

    /// A rule that is wrong about the hardware marks every node, and no node ever becomes what it takes for healthy.
    #[test]
    fn a16_a_rule_that_marks_every_node_takes_out_no_more_than_the_budget(
        nodes in 2usize..30,
        budget in any_budget(),
        starts in prop::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let mut fleet = Fleet::new(nodes, nodes, budget);
        for start in starts {
            let start = start.index(nodes);
            fleet.step((0..nodes).map(|i| (start + i) % nodes))?;
        }
        prop_assert!(fleet.out() >= 1);
        for sim in fleet.faults.iter().filter(|s| !s.is_cordoned()) {
            prop_assert_eq!(sim.phase(), Phase::Pending);
            prop_assert!(sim.reason().starts_with("BudgetMax"), "{}", sim.reason());
            prop_assert_eq!(sim.destructive_effects(), 0);
        }
    }

    /// What may hold an action back is no business of a recovery.
    #[test]
    fn b12_a_node_that_is_healthy_comes_back_whatever_the_budget_says(
        usage in prop::option::of((0usize..50, 0usize..50, 0usize..50)),
        stops in any::<bool>(),
        asked in any::<bool>(),
        selected in any::<bool>(),
    ) {
        let mut sim = Sim::new(&["a"]);
        sim.verify = Some(true);
        sim.drain();
        prop_assert_eq!(sim.phase(), Phase::Recovering);
        sim.world.fleet = FleetFacts {
            selects_node: selected,
            usage: usage.map(|(nodes, out, processing)| Usage {
                nodes,
                unavailable_others: out,
                node_is_out: true,
                processing_others: processing,
            }),
        };
        sim.world.guards = asked.then(|| GuardFindings {
            stop: named("floor"),
            pause: named("errors"),
            unknown: named("latency"),
        });
        sim.world.stopped_by = stops.then(|| "floor".to_string());
        sim.health = Some(true);
        sim.run(11);
        prop_assert_eq!(sim.phase(), Phase::Recovered);
        prop_assert!(!sim.is_cordoned() && !sim.is_marked());
    }
}
