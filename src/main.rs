//! The entry.

use clap::Parser;
use gpu_remediator::cli::{Cli, Command};
use gpu_remediator::{commands, telemetry};

// Few threads: the work is waiting, and a GPU node has a hundred cores.
#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    // It fails only where a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    telemetry::start_logging(&cli.log)?;
    match cli.command {
        Command::Exporter(args) => commands::exporter::run(args).await,
    }
}
