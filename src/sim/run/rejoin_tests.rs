//! A node that was deleted and joins again is another node, whether or not a controller saw it happen.

use std::time::Duration;

use super::acts::Act;
use super::{Setup, Simulation, block_on, shipped};
use crate::api::GpuFault;
use crate::sim::api_server::resources::{GPU_FAULTS, NODES};
use crate::sim::world::WorldPlan;

const NODE: &str = "gpu-2";
const MINUTE: Duration = Duration::from_secs(60);

fn uid(simulation: &Simulation) -> Option<String> {
    let node = simulation.api.store("observer").get(NODES, None, NODE)?;
    Some(node["metadata"]["uid"].as_str()?.to_owned())
}

fn is_cordoned(simulation: &Simulation) -> bool {
    let node = simulation.api.store("observer").get(NODES, None, NODE);
    node.is_some_and(|node| node["spec"]["unschedulable"] == true)
}

/// The faults that are about the node as it is now.
fn faults(simulation: &Simulation) -> Vec<GpuFault> {
    let all = simulation.api.store("observer").list(GPU_FAULTS);
    let all = all
        .iter()
        .map(|fault| serde_json::from_value::<GpuFault>((**fault).clone()).unwrap());
    all.filter(|fault| fault.spec.node_uid == uid(simulation))
        .collect()
}

/// A cluster in which a GPU has broken, a controller has isolated its node, and some time has passed.
async fn broken(wait: Duration) -> Simulation {
    let setup = Setup::new(
        WorldPlan::new().nodes(4, 8),
        shipped::rules(None).unwrap(),
        shipped::policy().unwrap(),
    );
    let mut simulation = Simulation::start(setup).unwrap();
    simulation.start_controller("controller-1").unwrap();
    simulation.run_for(2 * MINUTE).await;
    Act::Xid(NODE.to_owned(), 4, 95)
        .perform(&mut simulation)
        .unwrap();
    simulation
        .run_until("the node is isolated", MINUTE, is_cordoned)
        .await
        .unwrap();
    simulation.run_for(wait).await;
    Act::DeleteNode(NODE.to_owned())
        .perform(&mut simulation)
        .unwrap();
    simulation
}

/// The rule is kept firing for ten minutes, and the machine that has joined is a sound one.
#[test]
fn a_mended_machine_is_left_alone_though_the_rule_is_kept_firing() {
    for restarts in [false, true] {
        block_on(async {
            let mut simulation = broken(6 * MINUTE).await;
            simulation.run_for(Duration::from_secs(20)).await;
            Act::Rejoin(NODE.to_owned())
                .perform(&mut simulation)
                .unwrap();
            if restarts {
                simulation.restart(0).unwrap();
            }
            simulation.run_for(15 * MINUTE).await;
            assert_eq!(faults(&simulation), [], "restarts: {restarts}");
            assert!(!is_cordoned(&simulation));
            assert_eq!(simulation.violations(), []);
        })
        .unwrap();
    }
}

/// Somebody has deleted the node's object alone: its kubelet makes another, and the GPU is as broken as before.
#[test]
fn a_machine_that_is_still_broken_is_isolated_again() {
    for restarts in [false, true] {
        block_on(async {
            let mut simulation = broken(MINUTE).await;
            simulation.run_for(Duration::from_secs(20)).await;
            simulation.world.register(NODE);
            if restarts {
                simulation.restart(0).unwrap();
            }
            simulation
                .run_until("the node is isolated again", 3 * MINUTE, is_cordoned)
                .await
                .unwrap();
            assert_eq!(faults(&simulation).len(), 1, "restarts: {restarts}");
            assert_eq!(simulation.violations(), []);
        })
        .unwrap();
    }
}
