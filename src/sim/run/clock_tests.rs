//! A controller whose clock is not that of Prometheus decides nothing: it would ask about another time than now.

use std::time::Duration;

use super::acts::Act;
use super::{Setup, Simulation, block_on, shipped};
use crate::api::{GpuFault, Phase};
use crate::sim::api_server::resources::GPU_FAULTS;
use crate::sim::world::WorldPlan;

const NODE: &str = "gpu-2";
const MINUTE: Duration = Duration::from_secs(60);

fn phases(simulation: &Simulation) -> Vec<Phase> {
    let all = simulation.api.store("observer").list(GPU_FAULTS);
    let all = all
        .iter()
        .map(|fault| serde_json::from_value::<GpuFault>((**fault).clone()).unwrap());
    all.map(|fault| fault.status.unwrap_or_default().phase)
        .collect()
}

/// A cluster that has been healthy for longer than a proof takes.
async fn healthy() -> Simulation {
    let setup = Setup::new(
        WorldPlan::new().nodes(4, 8),
        shipped::rules(None).unwrap(),
        shipped::policy().unwrap(),
    );
    let mut simulation = Simulation::start(setup).unwrap();
    simulation.start_controller("controller-1").unwrap();
    simulation.run_for(15 * MINUTE).await;
    simulation
}

/// A GPU breaks, and the controller sees it.
async fn break_gpu(simulation: &mut Simulation) {
    Act::Xid(NODE.to_owned(), 5, 79)
        .perform(simulation)
        .unwrap();
    let processing = |s: &Simulation| phases(s) == [Phase::Processing];
    simulation
        .run_until("the fault is processed", MINUTE, processing)
        .await
        .unwrap();
}

/// The clock is two hours ahead for ten minutes; what happens after that is not waited for.
#[test]
fn a_clock_that_is_right_again_is_right_at_once() {
    block_on(async {
        let mut simulation = healthy().await;
        for seconds in [7200, -7200] {
            Act::ClockJump(seconds).perform(&mut simulation).unwrap();
            simulation.run_for(10 * MINUTE).await;
        }
        break_gpu(&mut simulation).await;
        assert_eq!(simulation.violations(), []);
    })
    .unwrap();
}

/// The alert begins before the clock goes wrong, and nobody knows more of it until the clock is right again. Meanwhile a
/// person has deleted the fault, and the GPU was mended.
#[test]
fn what_was_seen_before_the_clock_went_wrong_opens_nothing_hours_later() {
    block_on(async {
        let mut simulation = healthy().await;
        break_gpu(&mut simulation).await;
        Act::ClockJump(119).perform(&mut simulation).unwrap();
        Act::DeleteFaults(NODE.to_owned())
            .perform(&mut simulation)
            .unwrap();
        simulation.run_for(5 * MINUTE).await;
        Act::Repair(NODE.to_owned())
            .perform(&mut simulation)
            .unwrap();
        simulation.run_for(120 * MINUTE).await;
        Act::ClockJump(-119).perform(&mut simulation).unwrap();
        simulation.restart(0).unwrap();
        simulation.run_for(20 * MINUTE).await;
        assert_eq!(phases(&simulation), []);
        assert_eq!(simulation.violations(), []);
    })
    .unwrap();
}

/// Eight minutes ago every GPU was healthy, and had been for longer than a proof takes.
#[test]
fn a_clock_that_is_set_back_or_forward_holds_a_fault_until_it_is_right_again() {
    for seconds in [-480, 480] {
        block_on(async move {
            let mut simulation = healthy().await;
            break_gpu(&mut simulation).await;
            Act::ClockJump(seconds).perform(&mut simulation).unwrap();
            simulation.run_for(20 * MINUTE).await;
            assert_eq!(phases(&simulation), [Phase::Processing], "{seconds}");
            Act::ClockJump(-seconds).perform(&mut simulation).unwrap();
            Act::Repair(NODE.to_owned())
                .perform(&mut simulation)
                .unwrap();
            let recovered = |s: &Simulation| phases(s) == [Phase::Recovered];
            simulation
                .run_until("the fault recovers", 30 * MINUTE, recovered)
                .await
                .unwrap();
            assert_eq!(simulation.violations(), [], "{seconds}");
        })
        .unwrap();
    }
}
