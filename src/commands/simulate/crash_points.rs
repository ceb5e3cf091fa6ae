//! One story with a crash before and after each call of the controller.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;

use crate::sim::run::crash::{CrashError, FellOffTheBus, points, tell};

/// What all runs came to.
#[derive(Default)]
struct Sum {
    next: usize,
    different: usize,
    checked: u64,
    failed: Option<CrashError>,
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
                    let crashed = match told {
                        Ok(crashed) => crashed,
                        Err(error @ CrashError::Late(..)) => {
                            sum.different += 1;
                            println!("{:#}", anyhow::Error::new(error));
                            continue;
                        }
                        Err(error) => {
                            sum.failed = Some(error);
                            return;
                        }
                    };
                    sum.checked += crashed.checked;
                    let differences = whole.differences(&crashed);
                    if !differences.is_empty() {
                        sum.different += 1;
                        let (call, side) = point;
                        println!("a crash {side:?} call {call}:");
                        differences.iter().for_each(|what| println!("  {what}"));
                    }
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = sum.failed {
        return Err(error).context("the story cannot be told with a crash");
    }
    println!(
        "{} calls, a crash before and after each: {} runs, {} of them ended otherwise or broke a promise",
        whole.calls,
        points.len(),
        sum.different
    );
    println!(
        "{} checks in {:.1} s",
        sum.checked,
        began.elapsed().as_secs_f64()
    );
    Ok(super::code(sum.different == 0))
}
