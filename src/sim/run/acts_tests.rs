//! What the checks believe of the hardware is what it is like, whatever was done to it.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::sim::run::{Setup, block_on, shipped};
use crate::sim::world::WorldPlan;

const NODE: &str = "gpu-1";

#[test]
fn the_checks_know_the_hardware_as_it_is() {
    block_on(async {
        let setup = Setup::new(
            WorldPlan::new().nodes(2, 8),
            shipped::rules(None).unwrap(),
            shipped::policy().unwrap(),
        );
        let mut simulation = Simulation::start(setup).unwrap();
        let mut believes_broken = |act: Act| {
            act.perform(&mut simulation).unwrap();
            let now = simulation.clock.now();
            simulation.promises.with(|p| p.believes_broken(now, NODE))
        };
        let node = NODE.to_owned();
        let breaks = [
            Act::Xid(node.clone(), 4, 95),
            Act::Lose(node.clone(), 4),
            Act::Vanish(node.clone(), 4),
            Act::Hang(node.clone(), 4),
        ];
        for breaks in breaks {
            assert!(believes_broken(breaks.clone()), "{breaks}");
            assert!(believes_broken(Act::DeleteNode(node.clone())));
            // A machine that joins again is one that works.
            assert!(!believes_broken(Act::Rejoin(node.clone())));
            assert!(believes_broken(breaks.clone()));
            assert!(!believes_broken(Act::Replace(node.clone(), 4)));
            assert!(believes_broken(breaks));
            assert!(!believes_broken(Act::Repair(node.clone())));
        }
    })
    .unwrap();
}
