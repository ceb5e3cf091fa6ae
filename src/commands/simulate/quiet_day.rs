//! How long a day takes in which nothing happens.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::ensure;

use crate::sim::run::random::DAY;
use crate::sim::run::{Setup, Simulation, block_on, shipped};
use crate::sim::world::{Owner, Workload, WorldPlan};

/// Plays it.
pub(super) fn run(nodes: u32) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let checks = block_on(async {
        let world = WorldPlan::new().nodes(nodes, 8).workload(
            Workload::new("inference", "llm", Owner::Deployment, nodes, 4).min_available("90%"),
        );
        let mut setup = Setup::new(world, shipped::rules(None)?, shipped::policy()?);
        setup.scrape_interval = std::time::Duration::from_secs(15);
        let mut simulation = Simulation::start(setup)?;
        simulation.start_controller("controller-1")?;
        simulation.run_for(DAY).await;
        ensure!(
            simulation.leader().as_deref() == Some("controller-1"),
            "no controller leads at the end of the day"
        );
        ensure!(
            simulation.violations().is_empty(),
            "a promise broke on a quiet day: {:?}",
            simulation.violations()
        );
        Ok(simulation.checked())
    })??;
    writeln!(
        std::io::stdout(),
        "a quiet day of {nodes} nodes with 8 GPUs each, shipped rules: {:.2} s, {checks} checks",
        began.elapsed().as_secs_f64()
    )?;
    Ok(ExitCode::SUCCESS)
}
