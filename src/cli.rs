//! The command line.

use crate::commands;
use crate::telemetry::LogOptions;

/// Closes the loop between a GPU fault and a healthy GPU on Kubernetes, judged by Prometheus
#[derive(Debug, clap::Parser)]
#[command(name = "gpu-remediator", version, propagate_version = true)]
pub struct Cli {
    /// How to log
    #[command(flatten)]
    pub log: LogOptions,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Serves what the GPU driver and the kernel log tell, as metrics
    Exporter(commands::exporter::ExporterArgs),
    /// Evaluates rules, opens faults, isolates, evicts, verifies and gives nodes back
    Controller(commands::controller::ControllerArgs),
    /// Tells what the product does about a fault, on a simulated cluster: no GPU and no Kubernetes are needed
    #[cfg(feature = "sim")]
    Demo(commands::demo::DemoArgs),
    /// Works with rule files
    #[command(subcommand)]
    Rules(Rules),
    /// Plays random days of simulated clusters and checks the promises in them
    #[cfg(feature = "sim")]
    Simulate(commands::simulate::SimulateArgs),
    /// Tells what Xids and lines of the kernel log mean, and what the shipped rules do about them
    #[command(subcommand)]
    Xid(commands::xid::XidCommand),
    /// Prints the custom resource definitions as YAML
    Crds(commands::crds::CrdsArgs),
}

/// What can be done with rule files.
#[derive(Debug, clap::Subcommand)]
pub enum Rules {
    /// Checks rule files and points at what is wrong
    Check(commands::rules_check::RulesCheckArgs),
}
