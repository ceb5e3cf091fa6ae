//! A story from the fault to the node's return.

use super::*;
use crate::sim::run::{block_on, shipped};

#[test]
fn a_controller_leads_and_another_takes_over_after_a_crash() {
    block_on(async {
        let setup = Setup::new(WorldPlan, shipped::rules(None).unwrap(), shipped::policy().unwrap());
        let mut simulation = Simulation::start(setup).unwrap();
        simulation.start_controller("controller-1").unwrap();
        simulation
            .run_until("a leader", Duration::from_secs(60), |s| s.leader().as_deref() == Some("controller-1"))
            .await
            .unwrap();
        simulation.run_for(Duration::from_secs(60)).await;
        let began = std::time::Instant::now();
        simulation.run_for(Duration::from_secs(3600)).await;
        println!("an hour takes {:?}; calls {}", began.elapsed(), simulation.digest.calls());
        simulation.restart(0).unwrap();
        simulation
            .run_until("a leader", Duration::from_secs(60), |s| s.leader().as_deref() == Some("controller-2"))
            .await
            .unwrap();
        assert_eq!(simulation.violations(), []);
    })
    .unwrap();
}
