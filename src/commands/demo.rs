//! `gpu-remediator demo`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anstream::AutoStream;
use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::sim::demo::keep::Addresses;
use crate::sim::demo::pace::Pace;
use crate::sim::demo::scenario::Scenario;
use crate::sim::demo::stage::{self, Staging};
use crate::sim::demo::summary;
use crate::sim::demo::teller::Page;

/// Tells what the product does about a fault, on a simulated cluster: no GPU and no Kubernetes are needed
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Which story
    // The names are listed by `--list`, with what they mean, and in the error.
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    pub scenario: Scenario,
    /// List the stories and end
    #[arg(long, conflicts_with_all = ["scenario", "output", "keep", "speed"])]
    pub list: bool,
    /// How the story is written
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Afterwards, leave the cluster running in real time, on addresses for curl and kubectl, until Ctrl-C
    #[arg(long)]
    pub keep: bool,
    /// Simulated seconds a second. Not given: slow where something happens and fast where nothing does, on a terminal; else
    /// as fast as possible
    #[arg(long, value_name = "RATE", value_parser = speed)]
    pub speed: Option<f64>,
}

/// How the story is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people, as it happens.
    Text,
    /// For programs, as one document at the end.
    Json,
}

/// Tells the story. The exit code is 0 only if it ended as the scenario says.
///
/// # Errors
///
/// The story cannot be written, or the addresses cannot be served.
pub async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        list(&mut AutoStream::auto(std::io::stdout()))?;
        return Ok(ExitCode::SUCCESS);
    }
    // The story has a runtime of its own, with one thread and a clock that is paused.
    let told = tokio::task::spawn_blocking(move || tell(&args)).await;
    told.context("the story broke off")?
}

fn list(out: &mut impl Write) -> std::io::Result<()> {
    for scenario in Scenario::ALL {
        writeln!(out, "{:<18} {}", scenario.name(), scenario.summary())?;
    }
    out.flush()
}

fn tell(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .context("cannot start the simulation")?;
    let text = args.output == Output::Text;
    let for_people = text && std::io::stdout().is_terminal();
    let pace = match args.speed {
        Some(rate) => Pace::Steady(rate),
        None if for_people => Pace::Reader,
        None => Pace::Free,
    };
    // Colours and styles only where the terminal has them, and NO_COLOR is not set.
    let page = Page::new(Box::new(AutoStream::auto(std::io::stdout())));
    let staging = Staging {
        scenario: args.scenario,
        page: text.then(|| page.clone()),
        progress: for_people,
        pace,
    };
    let ending = runtime.block_on(async {
        let (stage, ending) = stage::perform(&staging).await?;
        if text {
            page.write(&summary::page(&ending));
        } else {
            page.write(&format!("{}\n", ending.document()?));
        }
        if args.keep {
            stage.keep(|addresses| invite(&addresses)).await?;
        }
        anyhow::Ok(ending)
    })?;
    page.finish()?;
    Ok(if ending.is_as_expected() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Says where the cluster is. To standard error, so that a document stays one.
fn invite(addresses: &Addresses) {
    let Addresses {
        kubernetes,
        prometheus,
    } = addresses;
    eprintln!(
        "\nThe cluster goes on in real time until Ctrl-C:\n\
         \x20 kubectl --server http://{kubernetes} get gpufaults,nodes,pods -A\n\
         \x20 curl http://{kubernetes}/apis/gpu-remediator.dev/v1alpha1/gpufaults\n\
         \x20 curl 'http://{prometheus}/api/v1/query?query=gpu_up'"
    );
}

/// A rate that makes a story neither stand still nor end before it is seen.
fn speed(text: &str) -> anyhow::Result<f64> {
    let rate: f64 = text.parse().context("not a number")?;
    if !(0.1..=10_000.0).contains(&rate) {
        bail!("must be from 0.1 to 10000");
    }
    Ok(rate)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_sensible_number() {
        assert_eq!(speed("10").unwrap(), 10.0);
        for text in ["0", "-1", "nan", "inf", "fast"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }
}
