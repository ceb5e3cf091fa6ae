//! The entry.

use clap::Parser;
use gpu_remediator::cli::{Cli, Command};
use gpu_remediator::{commands, telemetry};
use std::process::ExitCode;

// Few threads: the work is waiting, and a GPU node has a hundred cores.
#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    // It fails only where a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The causes on one line; a backtrace helps nobody who chose a port in use.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    telemetry::start_logging(&cli.log)?;
    match cli.command {
        Command::Exporter(args) => commands::exporter::run(args).await,
    }
}
