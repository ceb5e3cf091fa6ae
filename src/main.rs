//! The entry of the `gpu-remediator` binary.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use gpu_remediator::cli::{Cli, Command, Rules};
use gpu_remediator::{commands, telemetry};
use tokio::runtime::{Builder, Runtime};

/// Few: the work is waiting, and a GPU node has a hundred cores.
const WORKERS: usize = 2;

/// For good. A thread that begins takes memory of its own from the allocator, which keeps it when the thread has ended. Pages
/// are asked for more seldom than threads are kept otherwise, so that each would be written by a new one, with the memory of
/// a page, up to eight times the number of cores where they do not share it.
const KEPT: Duration = Duration::from_secs(365 * 24 * 3600);

/// More are of use where many threads take and give back memory at once.
#[cfg(target_env = "gnu")]
const PLACES_OF_MEMORY: i32 = 2;

fn main() -> ExitCode {
    // It fails only where a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    match runtime(&cli.command) {
        Ok(runtime) => runtime.block_on(start(cli)),
        Err(error) => {
            eprintln!("error: cannot start threads: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The exporter answers on one thread: what takes long has threads of its own there, and it runs on every GPU node, where
/// workers that wake each other are a good part of what it costs.
fn runtime(command: &Command) -> std::io::Result<Runtime> {
    let mut builder = match command {
        Command::Exporter(_) => {
            share_memory();
            Builder::new_current_thread()
        }
        _ => Builder::new_multi_thread(),
    };
    builder
        .worker_threads(WORKERS)
        .thread_keep_alive(KEPT)
        .enable_all()
        .build()
}

/// Has all threads take memory from two places. Otherwise glibc gives each its own, up to eight for each processor, and each
/// keeps what was once used there: of two threads for each GPU, that is more than all that the exporter knows.
fn share_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, PLACES_OF_MEMORY);
    }
}

async fn start(cli: Cli) -> ExitCode {
    match run(cli).await {
        Ok(code) => code,
        // Whoever reads our output has seen enough, as in `crds | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The causes on one line; a backtrace helps nobody who chose a port in use.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A task that panics takes nothing else with it: a controller that no longer reconciles would go on renewing its lease and
/// call itself healthy. Everything is on the API server, so the process ends, and the next one goes on. Not so the
/// exporter, which answers with what it has.
fn end_with_the_first_panic() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        std::process::abort();
    }));
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let level = match cli.command {
        #[cfg(feature = "sim")]
        Command::Demo(_) | Command::Simulate(_) => telemetry::SILENCE,
        _ => telemetry::OPERATION,
    };
    telemetry::start_logging(&cli.log, level)?;
    match cli.command {
        #[cfg(feature = "sim")]
        Command::Demo(args) => return commands::demo::run(args).await,
        Command::Exporter(args) => commands::exporter::run(args).await?,
        Command::Controller(args) => {
            end_with_the_first_panic();
            commands::controller::run(args).await?;
        }
        Command::Rules(Rules::Check(args)) => {
            return commands::rules_check::run(&args, &mut std::io::stdout().lock()).await;
        }
        #[cfg(feature = "sim")]
        Command::Simulate(args) => return commands::simulate::run(args).await,
        Command::Xid(command) => {
            return commands::xid::run(&command, &mut std::io::stdout().lock());
        }
        Command::Crds(args) => commands::crds::run(&args, &mut std::io::stdout().lock())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
