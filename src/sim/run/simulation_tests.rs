//! A story from the fault to the node's return.

use super::*;
use crate::api::GpuFault;
use crate::api::Phase;
use crate::sim::run::{block_on, shipped};
use crate::sim::world::{Owner, Workload, WorldPlan};

fn faults(simulation: &Simulation) -> Vec<GpuFault> {
    let store = simulation.api.store("observer");
    let all = store.list(resources::GPU_FAULTS);
    all.iter()
        .map(|f| serde_json::from_value((**f).clone()).unwrap())
        .collect()
}

fn phase(simulation: &Simulation) -> Option<Phase> {
    faults(simulation).first()?.status.as_ref().map(|s| s.phase)
}

/// From the fault to the node's return, with a crash of the leader in the middle; answers the digest.
fn story() -> String {
    block_on(async {
        let world = WorldPlan::new().nodes(3, 8).workload(
            Workload::new("inference", "llm", Owner::Deployment, 3, 2).min_available("2"),
        );
        let setup = Setup::new(
            world,
            shipped::rules(None).unwrap(),
            shipped::policy().unwrap(),
        );
        let mut simulation = Simulation::start(setup).unwrap();
        simulation.start_controller("controller-1").unwrap();
        let minute = Duration::from_secs(60);
        simulation
            .run_until("a leader", minute, |s| {
                s.leader().as_deref() == Some("controller-1")
            })
            .await
            .unwrap();
        simulation.run_for(minute).await;
        simulation.world.hardware().xid("gpu-1", 0, 79);
        simulation.world.hardware().lose("gpu-1", 0);
        simulation
            .run_until("a fault", minute, |s| phase(s) == Some(Phase::Processing))
            .await
            .unwrap();
        simulation.restart(0).unwrap();
        simulation
            .run_until("another leader", minute, |s| {
                s.leader().as_deref() == Some("controller-2")
            })
            .await
            .unwrap();
        simulation
            .run_until("drained", 5 * minute, |s| {
                faults(s)[0]
                    .status
                    .as_ref()
                    .unwrap()
                    .timeline
                    .drained_at
                    .is_some()
            })
            .await
            .unwrap();
        simulation.world.hardware().repair("gpu-1");
        simulation
            .run_until("recovered", 30 * minute, |s| {
                phase(s) == Some(Phase::Recovered)
            })
            .await
            .unwrap();
        assert_eq!(simulation.violations(), []);
        simulation.digest.value()
    })
    .unwrap()
}

#[test]
fn a_node_comes_back_though_its_controller_died_on_the_way() {
    story();
}

#[test]
fn the_same_seed_gives_the_same_history() {
    assert_eq!(story(), story());
}
