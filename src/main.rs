//! The entry of the `gpu-remediator` binary.
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gpu_remediator::commands::rules_check::{self, RulesCheckArgs};

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Work with rule files.
    #[command(subcommand)]
    Rules(Rules),
}

#[derive(Subcommand)]
enum Rules {
    /// Check rule files and point at what is wrong.
    Check(RulesCheckArgs),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let Command::Rules(Rules::Check(args)) = Cli::parse().command;
    rules_check::run(&args, &mut std::io::stdout().lock()).await
}
