//! A guard that has no answer any more holds an eviction that waits.

use std::time::Duration;

use super::acts::{Act, NAMESPACE};
use super::{Setup, Simulation, block_on, shipped};
use crate::api::policy::Guard;
use crate::api::{GpuFault, GpuFaultStatus};
use crate::sim::api_server::resources;
use crate::sim::faults::{Fault, QueryFault};
use crate::sim::world::{Owner, Workload, WorldPlan};

const MINUTE: Duration = Duration::from_secs(60);

fn status(simulation: &Simulation) -> Option<GpuFaultStatus> {
    let store = simulation.api.store("observer");
    let fault = store.list(resources::GPU_FAULTS).first()?.clone();
    let fault: GpuFault = serde_json::from_value((*fault).clone()).unwrap();
    fault.status
}

fn is_drained(simulation: &Simulation) -> bool {
    status(simulation).is_some_and(|status| status.timeline.drained_at.is_some())
}

#[test]
fn an_eviction_that_waited_for_its_budget_waits_for_a_guard_without_an_answer() {
    block_on(async {
        // The budget lets nobody go until there is one replica more.
        let llm = Workload::new(NAMESPACE, "llm", Owner::Deployment, 3, 2).min_available("3");
        let world = WorldPlan::new().nodes(3, 8).workload(llm);
        let mut policy = shipped::policy().unwrap();
        policy.spec.guards.pause_if.push(Guard {
            name: "llm-suffers".to_owned(),
            expr: "kube_deployment_status_replicas_available{deployment=\"llm\"} < 1".to_owned(),
        });
        let setup = Setup::new(world, shipped::rules(None).unwrap(), policy);
        let mut simulation = Simulation::start(setup).unwrap();
        simulation.start_controller("controller-1").unwrap();
        simulation.run_for(2 * MINUTE).await;
        simulation.world.hardware().xid("gpu-1", 0, 79);
        let blocked = |s: &Simulation| {
            status(s).is_some_and(|status| status.reason == "BlockedByDisruptionBudget")
        };
        simulation
            .run_until("the budget blocks", 2 * MINUTE, blocked)
            .await
            .unwrap();
        let nothing = Fault::Query(QueryFault::Empty);
        simulation.injector.begin(nothing);
        simulation.run_for(MINUTE).await;
        Act::Scale("llm".to_owned(), 4)
            .perform(&mut simulation)
            .unwrap();
        simulation.run_for(5 * MINUTE).await;
        assert_eq!(simulation.violations(), []);
        assert_eq!(status(&simulation).unwrap().reason, "GuardUnknown");
        assert!(!is_drained(&simulation));
        simulation.injector.end(nothing);
        simulation
            .run_until("the node is drained", 5 * MINUTE, is_drained)
            .await
            .unwrap();
        assert_eq!(simulation.violations(), []);
    })
    .unwrap();
}
