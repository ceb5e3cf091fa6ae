//! Feeds the reader of the kernel log and the parser of Xids with logs as they are and as no kernel writes them, for as long
//! as it is told to. It ends with an error on the first log that panics, takes more memory than reading may, loses or invents
//! a line, or gives a message that the line does not hold; the log is then left beside.
//!
//! ```sh
//! cargo run --release --example fuzz-kernel-log -- --minutes 10 --seed 1
//! ```
#![allow(clippy::unwrap_used)]

mod check;
#[path = "../counted.rs"]
mod counted;
mod logs;
mod messages;
mod mutate;

use check::{Checker, check_line};
use clap::Parser;
use counted::{IN_USE, PEAK};
use gpu_remediator::kmsg::{Counters, KernelLog, Line};
use logs::{Kind, Log};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What reading a log may take at most, however long its lines are: twice what is read at once and a line of as much, and
/// that line as text, in which each byte may become three.
const MOST_MEMORY: usize = 1024 * 1024;

#[derive(Parser)]
struct Args {
    /// How long
    #[arg(long, default_value = "10")]
    minutes: f64,
    /// The same seed makes the same logs
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where a log that is wrong is left
    #[arg(long, default_value = "fuzz-kernel-log.failed")]
    failed: PathBuf,
}

/// Reads a log from a file, as the exporter does; how many lines it handed out, and how much memory it took.
fn read(path: &Path, log: &Log) -> Result<(u64, usize), String> {
    let counters = Counters::default();
    let mut checker = Checker::new(log);
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let stopped = || counters.caught_up.load(Ordering::Acquire);
    KernelLog::new(path).follow(&counters, stopped, |entry| checker.take(entry));
    let taken = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    let lines = checker.end()?;
    if taken > MOST_MEMORY {
        return Err(format!("{taken} bytes of memory"));
    }
    if counters.lines.load(Ordering::Relaxed) != lines {
        return Err("another count of lines".to_owned());
    }
    if counters.lost.load(Ordering::Relaxed) + counters.errors.load(Ordering::Relaxed) != 0 {
        return Err("something lost in a file, or an error".to_owned());
    }
    Ok((lines, taken))
}

/// Reads a log from a file, and each of its lines by itself.
fn check(path: &Path, log: &Log) -> Result<(u64, usize), String> {
    std::fs::write(path, &log.bytes).map_err(|error| format!("cannot write the log: {error}"))?;
    let read = read(path, log)?;
    let mut alone = gpu_remediator::xid::Parser::default();
    for line in log.bytes.split(|byte| *byte == b'\n') {
        check_line(&mut alone, Line::parse(line))?;
    }
    Ok(read)
}

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let mut random = ChaCha8Rng::seed_from_u64(args.seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kmsg");
    let mut logs: BTreeMap<Kind, [u64; 3]> = BTreeMap::new();
    let until = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let mut most = 0;
    while Instant::now() < until {
        let log = Log::next(&mut random);
        // A panic has said where; this says with what.
        let checked = std::panic::catch_unwind(|| check(&path, &log));
        match checked.unwrap_or(Err("a panic".to_owned())) {
            Ok((lines, taken)) => {
                most = most.max(taken);
                let [count, bytes, all] = logs.entry(log.kind).or_default();
                *count += 1;
                *bytes += log.bytes.len() as u64;
                *all += lines;
            }
            Err(wrong) => {
                let left = std::fs::write(&args.failed, &log.bytes);
                eprintln!(
                    "{wrong} with seed {} and the log {} ({:?}; {left:?})",
                    args.seed,
                    args.failed.display(),
                    log.kind
                );
                return std::process::ExitCode::FAILURE;
            }
        }
    }
    println!("in {} min with seed {}:", args.minutes, args.seed);
    for (kind, [count, bytes, lines]) in logs {
        println!(
            "{kind:?}: {count} logs, {} MB, {lines} lines read",
            bytes / 1_000_000
        );
    }
    println!(
        "no panic, no line lost or invented; at most {} KiB in use",
        most / 1024
    );
    std::process::ExitCode::SUCCESS
}
