//! Many seeds, or one.

use std::io::Write;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::progress::{clear, progress};

use crate::sim::promises::Violation;
use crate::sim::run::play::{PlayError, origin};
use crate::sim::run::{Outcome, Plan, play, random_world, shrink};

/// A plan that fails is played at most so often to make it small.
const SHRINKING: u32 = 60;

/// What all seeds came to.
#[derive(Default)]
struct Sum {
    next: Option<u64>,
    played: u64,
    broken: Vec<u64>,
    promises: u64,
    faults: u64,
    injected: u64,
    checks: u64,
    simulated: Duration,
    failed: Option<anyhow::Error>,
}

/// Plays all seeds.
pub(super) fn run(seeds: &RangeInclusive<u64>, days: f64, jobs: u16) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let sum = Mutex::new(Sum {
        next: Some(*seeds.start()),
        ..Sum::default()
    });
    let lock = || sum.lock().unwrap_or_else(PoisonError::into_inner);
    let take = || {
        let mut sum = lock();
        if sum.failed.is_some() {
            return None;
        }
        let seed = sum.next.filter(|seed| seed <= seeds.end())?;
        sum.next = seed.checked_add(1);
        Some(seed)
    };
    let total = (seeds.end() - seeds.start()).saturating_add(1);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(seed) = take() {
                    let plan = random_world(seed, days);
                    let outcome = match play(&plan) {
                        Ok(outcome) => outcome,
                        Err(error) => {
                            let what = format!("seed {seed} cannot be played");
                            lock().failed = Some(anyhow::Error::new(error).context(what));
                            return;
                        }
                    };
                    let small = outcome.broken().map(|first| small(&plan, first.promise));
                    let mut sum = lock();
                    sum.add(seed, &outcome);
                    let told = match small {
                        Some(Ok(small)) => tell(&outcome, &small).map_err(anyhow::Error::new),
                        Some(Err(error)) => Err(error.into()),
                        None => Ok(()),
                    };
                    sum.failed = sum.failed.take().or(told.err());
                    let text = format!(
                        "{} of {}, {} with broken promises",
                        sum.played,
                        seeds_in_words(total),
                        sum.broken.len()
                    );
                    progress(sum.played, total, &text);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    clear();
    sum.print(began.elapsed().as_secs_f64())?;
    match sum.failed {
        Some(error) => Err(error),
        None => Ok(super::code(sum.broken.is_empty())),
    }
}

impl Sum {
    fn print(&self, seconds: f64) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        let days = self.simulated.as_secs_f64() / 86_400.0;
        writeln!(
            out,
            "{} played, {} faults of GPUs, {} faults on the line",
            seeds_in_words(self.played),
            self.faults,
            self.injected
        )?;
        if self.broken.is_empty() {
            writeln!(out, "no promise was broken")?;
        } else {
            writeln!(
                out,
                "{} promises were broken, in the seeds {:?}",
                self.promises, self.broken
            )?;
        }
        writeln!(
            out,
            "{days:.2} simulated days, the quiet end of each seed with them, in {seconds:.1} s: {:.2} days a second",
            days / seconds
        )?;
        writeln!(
            out,
            "{} checks: {:.0} a second",
            self.checks,
            self.checks as f64 / seconds
        )
    }

    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.played += 1;
        let broken = outcome.violations.len() + outcome.settled.len();
        self.promises += broken as u64;
        if broken > 0 {
            self.broken.push(seed);
        }
        self.faults += outcome.faults;
        self.injected += outcome.injected;
        self.checks += outcome.checks;
        self.simulated += outcome.simulated;
    }
}

/// Plays one seed and tells everything.
pub(super) fn replay(seed: u64, days: f64) -> anyhow::Result<ExitCode> {
    let plan = random_world(seed, days);
    let outcome = play(&plan).context("the seed cannot be played")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "seed {seed}: {}", world(&plan))?;
    for (at, what) in &outcome.story {
        writeln!(out, "{at:.3} {what}")?;
    }
    for violation in outcome.violations.iter().chain(&outcome.settled) {
        writeln!(out, "{}", line(violation))?;
    }
    writeln!(out, "digest {}", outcome.digest)?;
    Ok(super::code(outcome.broken().is_none()))
}

/// The plan made small, and what it breaks.
fn small(plan: &Plan, promise: u8) -> Result<(Plan, Outcome), PlayError> {
    let small = shrink(plan, promise, SHRINKING, |plan| {
        Ok::<_, PlayError>(play(plan)?.broken().map(|v| v.promise))
    })?;
    let outcome = play(&small.plan)?;
    Ok((small.plan, outcome))
}

fn world(plan: &Plan) -> String {
    let [pauses, stops] = plan.guards;
    let guards = match (pauses, stops) {
        (false, false) => "no guard",
        (true, false) => "a guard that pauses",
        (false, true) => "a guard that stops",
        (true, true) => "a guard that pauses and one that stops",
    };
    format!(
        "{} nodes, {} controllers, maxUnavailable {}, maxConcurrent {}, {guards}, rules each {}s, {:.1} hours",
        plan.nodes,
        plan.controllers,
        plan.max_unavailable,
        plan.max_concurrent,
        plan.interval.as_secs(),
        plan.length.as_secs_f64() / 3600.0
    )
}

fn line(violation: &Violation) -> String {
    format!(
        "{:.3} BROKEN PROMISE {}: {}",
        violation.at, violation.promise, violation.what
    )
}

/// Tells of a seed that failed, with what is left of its story.
fn tell(outcome: &Outcome, (plan, small): &(Plan, Outcome)) -> std::io::Result<()> {
    clear();
    let mut out = std::io::stdout().lock();
    writeln!(out, "seed {}: {}", plan.seed, world(plan))?;
    for violation in outcome.violations.iter().chain(&outcome.settled) {
        writeln!(out, "  {}", line(violation))?;
    }
    writeln!(out, "  what is left of the story:")?;
    for (at, what) in plan.story(origin()) {
        writeln!(out, "    {at:.3} {what}")?;
    }
    for violation in small.violations.iter().chain(&small.settled) {
        writeln!(out, "    {}", line(violation))?;
    }
    Ok(())
}

fn seeds_in_words(number: u64) -> String {
    match number {
        1 => "1 seed".to_owned(),
        _ => format!("{number} seeds"),
    }
}
