//! A controller that leads again, after another has led, acts on nothing that it learned in its first term.

use std::time::Duration;

use super::acts::Act;
use super::{Setup, Simulation, block_on, shipped};
use crate::api::{GpuFault, Phase};
use crate::sim::api_server::resources::GPU_FAULTS;
use crate::sim::world::WorldPlan;

const NODE: &str = "gpu-2";
const MINUTE: Duration = Duration::from_secs(60);

fn leads(simulation: &Simulation, identity: &str) -> bool {
    simulation.leader().as_deref() == Some(identity)
}

fn phases(simulation: &Simulation) -> Vec<Phase> {
    let all = simulation.api.store("observer").list(GPU_FAULTS);
    let all = all
        .iter()
        .map(|fault| serde_json::from_value::<GpuFault>((**fault).clone()).unwrap());
    all.map(|fault| fault.status.unwrap_or_default().phase)
        .collect()
}

/// In its first term it saw the rule fire. By its second the fault has long recovered and the rule is silent, and another GPU
/// of the node is ill, of which no rule says anything.
#[test]
fn a_rule_that_fired_in_an_earlier_term_reopens_nothing() {
    block_on(async {
        let setup = Setup::new(
            WorldPlan::new().nodes(4, 8),
            shipped::rules(None).unwrap(),
            shipped::policy().unwrap(),
        );
        let mut simulation = Simulation::start(setup).unwrap();
        simulation.start_controller("controller-1").unwrap();
        simulation
            .run_until("the first leads", MINUTE, |s| leads(s, "controller-1"))
            .await
            .unwrap();
        simulation.start_controller("controller-2").unwrap();
        simulation.run_for(2 * MINUTE).await;
        Act::Xid(NODE.to_owned(), 3, 119)
            .perform(&mut simulation)
            .unwrap();
        let processing = |s: &Simulation| phases(s) == [Phase::Processing];
        simulation
            .run_until("the fault is processed", MINUTE, processing)
            .await
            .unwrap();
        Act::Partition(3 * MINUTE).perform(&mut simulation).unwrap();
        simulation
            .run_until("the second leads", 2 * MINUTE, |s| leads(s, "controller-2"))
            .await
            .unwrap();
        Act::Repair(NODE.to_owned())
            .perform(&mut simulation)
            .unwrap();
        let recovered = |s: &Simulation| phases(s) == [Phase::Recovered];
        simulation
            .run_until("the fault recovers", 20 * MINUTE, recovered)
            .await
            .unwrap();
        simulation.run_for(15 * MINUTE).await;
        Act::Lose(NODE.to_owned(), 4)
            .perform(&mut simulation)
            .unwrap();
        simulation.run_for(2 * MINUTE).await;
        Act::Crash.perform(&mut simulation).unwrap();
        simulation
            .run_until("the first leads again", 3 * MINUTE, |s| {
                leads(s, "controller-1")
            })
            .await
            .unwrap();
        simulation.run_for(3 * MINUTE).await;
        assert_eq!(phases(&simulation), [Phase::Recovered]);
        assert_eq!(simulation.violations(), []);
    })
    .unwrap();
}
