//! `gpu-remediator simulate`: random days of simulated clusters, by seed.

mod crash_points;
mod progress;
mod quiet_day;
mod seeds;
mod serve;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::ExitCode;

use clap::Args;

/// Arguments of `simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// Seeds to play, the last one included, as in `1..1000`.
    #[arg(long, value_name = "A..B", value_parser = seeds_of, default_value = "1..10")]
    pub seeds: RangeInclusive<u64>,

    /// How many days each seed has; a part of a day, as in 0.25, as well. A quiet end of two hours comes after them.
    #[arg(long, value_name = "N", value_parser = days_of, default_value = "1",
        conflicts_with_all = ["crash_points", "quiet_day", "serve"])]
    pub days: f64,

    /// How many seeds or crash points are played at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: u16,

    /// Plays one seed and tells its whole story.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "jobs"])]
    pub replay: Option<u64>,

    /// Tells one story again and again, with the controller dying before and after each of its calls.
    #[arg(long, conflicts_with_all = ["seeds", "replay"])]
    pub crash_points: bool,

    /// Plays one day in which nothing happens, with the shipped rules, and tells how long that took.
    #[arg(long, conflicts_with_all = ["seeds", "jobs", "replay", "crash_points"])]
    pub quiet_day: bool,

    /// Serves a cluster at the pace of the machine's clock, for measurements of a controller, until it is interrupted.
    #[arg(long, conflicts_with_all = ["seeds", "jobs", "replay", "crash_points", "quiet_day"])]
    pub serve: bool,

    /// Nodes of `--quiet-day` and `--serve`.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["seeds", "replay", "crash_points"])]
    pub nodes: u32,

    /// Pods of `--serve`.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "serve")]
    pub pods: u32,

    /// With `--serve`: reports Xid 79 on so many nodes after 30 seconds.
    #[arg(long, value_name = "K", default_value_t = 0, requires = "serve")]
    pub faults: u32,

    /// With `--serve`: where the API server listens.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:0",
        requires = "serve"
    )]
    pub listen_api: SocketAddr,

    /// With `--serve`: where Prometheus listens.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:0",
        requires = "serve"
    )]
    pub listen_prometheus: SocketAddr,
}

fn seeds_of(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text
        .split_once("..")
        .ok_or("seeds are given as A..B, for example 1..1000")?;
    let number = |text: &str| {
        text.trim()
            .parse::<u64>()
            .map_err(|error| format!("{text:?} is no seed: {error}"))
    };
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(format!(
            "there is no seed from {first} to {last}: the first comes first"
        ));
    }
    Ok(first..=last)
}

fn days_of(text: &str) -> Result<f64, String> {
    let days: f64 = text
        .parse()
        .map_err(|error| format!("{text:?} is no number of days: {error}"))?;
    if (0.01..=3650.0).contains(&days) {
        Ok(days)
    } else {
        Err("a run has between 0.01 and 3650 days".to_owned())
    }
}

/// Runs the command.
///
/// # Errors
///
/// A simulation cannot begin, or an address cannot be listened on. A broken promise is no error, but exit code 1.
pub async fn run(args: SimulateArgs) -> anyhow::Result<ExitCode> {
    if args.serve {
        serve::serve(&args).await?;
        return Ok(ExitCode::SUCCESS);
    }
    // A simulation has a runtime of its own, on a thread of its own.
    let done = tokio::task::spawn_blocking(move || {
        if args.quiet_day {
            quiet_day::run(args.nodes)
        } else if args.crash_points {
            crash_points::run(args.jobs)
        } else if let Some(seed) = args.replay {
            seeds::replay(seed, args.days)
        } else {
            seeds::run(&args.seeds, args.days, args.jobs)
        }
    });
    done.await?
}

fn code(all_hold: bool) -> ExitCode {
    if all_hold {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_that_goes_up() {
        assert_eq!(seeds_of("3..7").unwrap(), 3..=7);
        assert_eq!(seeds_of("3..3").unwrap(), 3..=3);
        for (text, why) in [
            ("7..3", "the first comes first"),
            ("7", "A..B"),
            ("a..3", "\"a\" is no seed"),
            ("1..", "\"\" is no seed"),
            ("-1..2", "\"-1\" is no seed"),
        ] {
            let error = seeds_of(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn days_are_positive_and_finite() {
        assert!((days_of("0.25").unwrap() - 0.25).abs() < f64::EPSILON);
        for text in ["0", "-1", "NaN", "inf", "1d"] {
            assert!(days_of(text).is_err(), "{text}");
        }
    }
}
