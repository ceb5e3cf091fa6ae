//! Many seeds, or one.

use std::io::{IsTerminal, Write};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Context;

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
    failed: Option<PlayError>,
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
                            lock().failed = Some(error);
                            return;
                        }
                    };
                    let small = outcome.broken().map(|first| small(&plan, first.promise));
                    let mut sum = lock();
                    sum.add(seed, &outcome);
                    match small {
                        Some(Ok(small)) => tell(&outcome, &small),
                        Some(Err(error)) => sum.failed = Some(error),
                        None => {}
                    }
                    progress(&sum, total);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = sum.failed {
        return Err(error).context("a seed cannot be played");
    }
    let seconds = began.elapsed().as_secs_f64();
    let simulated = sum.simulated.as_secs_f64() / 86_400.0;
    println!(
        "{} seeds, {} faults of GPUs, {} faults on the line",
        sum.played, sum.faults, sum.injected
    );
    println!(
        "{} broken promises in {} seeds",
        sum.promises,
        sum.broken.len()
    );
    if !sum.broken.is_empty() {
        println!("seeds with broken promises: {:?}", sum.broken);
    }
    println!(
        "{simulated:.1} simulated days in {seconds:.1} s: {:.2} days a second",
        simulated / seconds
    );
    println!(
        "{} checks: {:.0} a second",
        sum.checks,
        sum.checks as f64 / seconds
    );
    Ok(super::code(sum.broken.is_empty()))
}

impl Sum {
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
    println!("seed {seed}: {}", world(&plan));
    for (at, what) in &outcome.story {
        println!("{at:.3} {what}");
    }
    for violation in outcome.violations.iter().chain(&outcome.settled) {
        println!("{}", line(violation));
    }
    println!("digest {}", outcome.digest);
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
fn tell(outcome: &Outcome, (plan, small): &(Plan, Outcome)) {
    clear();
    println!("seed {}: {}", plan.seed, world(plan));
    for violation in outcome.violations.iter().chain(&outcome.settled) {
        println!("  {}", line(violation));
    }
    println!("  what is left of the story:");
    for (at, what) in plan.story(origin()) {
        println!("    {at:.3} {what}");
    }
    for violation in small.violations.iter().chain(&small.settled) {
        println!("    {}", line(violation));
    }
}

fn clear() {
    if std::io::stderr().is_terminal() {
        // Whether the terminal takes it is its own business.
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

/// One line that is written over on a terminal; in a pipe, one line a hundred seeds.
fn progress(sum: &Sum, total: u64) {
    let terminal = std::io::stderr().is_terminal();
    if !terminal && !sum.played.is_multiple_of(100) {
        return;
    }
    clear();
    let text = format!(
        "{} of {total} seeds, {} with broken promises",
        sum.played,
        sum.broken.len()
    );
    let _ = write!(
        std::io::stderr(),
        "{text}{}",
        if terminal && sum.played < total {
            ""
        } else {
            "\n"
        }
    );
}
