//! One story with a crash before and after each call of the controller.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;

use super::progress::{clear, progress};
use crate::sim::faults::Side;
use crate::sim::run::crash::{CrashError, FellOffTheBus, points, tell};

/// What all runs came to.
#[derive(Default)]
struct Sum {
    next: usize,
    different: u64,
    checked: u64,
    told: u64,
    failed: Option<anyhow::Error>,
}

/// Tells the story with each crash.
pub(super) fn run(jobs: u16) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let story = FellOffTheBus;
    let whole = tell(&story, None).context("the story without a crash cannot be told")?;
    anyhow::ensure!(
        whole.differences(&whole).is_empty(),
        "the story breaks promises without a crash: {:?}",
        whole.differences(&whole)
    );
    let points = points(whole.calls, u64::MAX);
    let total = points.len() as u64;
    writeln!(
        std::io::stdout(),
        "{} calls, a crash before and after each: {total} runs",
        whole.calls
    )?;
    let sum = Mutex::new(Sum::default());
    let lock = || sum.lock().unwrap_or_else(PoisonError::into_inner);
    let take = || {
        let mut sum = lock();
        let next = sum.next;
        sum.next += 1;
        points.get(next).filter(|_| sum.failed.is_none()).copied()
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(point) = take() {
                    let told = tell(&story, Some(point));
                    let mut sum = lock();
                    let differences = match told {
                        Ok(crashed) => {
                            sum.checked += crashed.checked;
                            whole.differences(&crashed)
                        }
                        Err(error @ CrashError::Late(..)) => {
                            vec![format!("{:#}", anyhow::Error::new(error))]
                        }
                        Err(error) => {
                            sum.failed = Some(error.into());
                            return;
                        }
                    };
                    sum.told += 1;
                    sum.different += u64::from(!differences.is_empty());
                    if let Err(error) = print(point, &differences) {
                        sum.failed = Some(error.into());
                        return;
                    }
                    let text = format!("{} of {total} runs, {} differ", sum.told, sum.different);
                    progress(sum.told, total, &text);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = sum.failed {
        return Err(error).context("the story cannot be told with a crash");
    }
    clear();
    let mut out = std::io::stdout().lock();
    match sum.different {
        0 => writeln!(out, "each came to the same end, and no promise was broken")?,
        some => writeln!(out, "{some} of them ended otherwise or broke a promise")?,
    }
    writeln!(
        out,
        "{} checks in {:.1} s",
        sum.checked,
        began.elapsed().as_secs_f64()
    )?;
    Ok(super::code(sum.different == 0))
}

fn print((call, side): (u64, Side), differences: &[String]) -> std::io::Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    clear();
    let mut out = std::io::stdout().lock();
    writeln!(out, "a crash {side:?} call {call}:")?;
    differences
        .iter()
        .try_for_each(|what| writeln!(out, "  {what}"))
}
