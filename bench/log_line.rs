//! Measures what a line of the kernel log costs the thread that reads it: from the file through the reader to the end of
//! what the exporter does with the line, before the lock of its state. Fails where a line that is no Xid costs too much.
//!
//! ```sh
//! cargo run --release --example log-line
//! ```
#![allow(clippy::unwrap_used)]

use clap::Parser as _;
use gpu_remediator::kmsg::{Counters, Entry, KernelLog};
use gpu_remediator::xid::{self, Message, Parser};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What a line that is no Xid may cost, in nanoseconds.
const MOST: f64 = 100.0;

const KERNEL: &str = include_str!("exporter/kernel_lines.txt");

/// What the driver says beside Xids.
const DRIVER: &str = "\
NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26 02:10:23 UTC 2025
NVRM: testIfDsmSubFunctionEnabled: GPS ACPI DSM called before _acpiDsmSupportedFuncCacheInit subfunction = 11.
NVRM: GPU 0000:3b:00.0: rm_init_adapter: GPU is in low power state
NVRM: nvAssertFailedNoLog: Assertion failed: NVLink peer is not connected @ knvlink_class.c:812
";

/// What passes the first look and is no Xid either: the driver says it once for each GPU.
const PASSED: &str = "\
NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)
NVRM: GPU at PCI:0000:3b:00: GPU-6f3a1f9e-5b2c-4c0e-9d57-0f8a3b1c2d4e
NVRM: GPU Board Serial Number: 1650123456789
";

const XIDS: &str = "\
NVRM: Xid (PCI:0000:3b:00): 31, pid=918273, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f1c_2a9e4000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ
NVRM: Xid (PCI:0000:3c:00): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No
NVRM: Xid (PCI:0000:3d:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0000000000a1b2c3) marked for remapping, reset gpu to activate.
NVRM: Xid (PCI:0000:3e:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)
";

#[derive(clap::Parser)]
struct Args {
    /// Lines in a file
    #[arg(long, default_value = "1000000")]
    lines: usize,
    /// How often each file is read; the median counts
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// As a log carries a message.
type Form = fn(usize, &str) -> String;

const FORMS: [(&str, Form); 3] = [
    ("/dev/kmsg", |number, message| {
        format!("4,{number},{},-;{message}\n", 5_000_000 + number * 7)
    }),
    ("dmesg", |number, message| {
        format!("[{:>5}.{:06}] {message}\n", number / 1000, number % 1000)
    }),
    ("syslog", |number, message| {
        let second = number / 50;
        let (hour, minute, second) = (second / 3600 % 24, second / 60 % 60, second % 60);
        format!(
            "2026-05-10T{hour:02}:{minute:02}:{second:02}.123456+00:00 gpu-node-17 kernel: {message}\n"
        )
    }),
];

/// Nanoseconds for each line of a file, and how many messages there were.
fn read(path: &Path, lines: usize) -> (f64, u64) {
    let counters = Counters::default();
    let mut parser = Parser::default();
    let (mut seen, mut messages, mut end) = (0, 0, None);
    let begin = Instant::now();
    // What `read_log` of the exporter does, without its state.
    let each = |entry: Entry<'_>| {
        if xid::may_be_message(entry.line.bytes()) {
            for message in parser.parse(&entry.line.said()) {
                black_box((message.is_event().then(|| entry.time()), &message));
                messages += u64::from(matches!(message, Message::Xid(_)));
            }
        }
        seen += 1;
        if seen == lines {
            end = Some(Instant::now());
        }
    };
    let stopped = || counters.caught_up.load(Ordering::Acquire);
    KernelLog::new(path).follow(&counters, stopped, each);
    let took = end.unwrap().duration_since(begin);
    assert_eq!(seen, lines, "a line was lost");
    (took.as_secs_f64() * 1e9 / lines as f64, messages)
}

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let mut missed = false;
    println!("| lines | form | bytes a line | ns a line |\n| --- | --- | --- | --- |");
    for (what, texts, bound) in [
        ("of the kernel", KERNEL, true),
        ("of the driver, no Xids", DRIVER, true),
        ("of the driver, once for each GPU", PASSED, true),
        ("Xids", XIDS, false),
    ] {
        let texts: Vec<&str> = texts.lines().collect();
        for (form, write) in FORMS {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut log = String::new();
            for number in 0..args.lines {
                log.write_str(&write(number, texts[number % texts.len()]))
                    .unwrap();
            }
            std::fs::write(file.path(), &log).unwrap();
            let mut rounds: Vec<f64> = (0..args.rounds)
                .map(|_| {
                    let (nanoseconds, messages) = read(file.path(), args.lines);
                    let expected = if texts[0].contains("Xid (") {
                        args.lines
                    } else {
                        0
                    };
                    assert_eq!(messages, expected as u64, "{what}, {form}");
                    nanoseconds
                })
                .collect();
            rounds.sort_by(f64::total_cmp);
            let median = rounds[rounds.len() / 2];
            let verdict = if bound && median >= MOST {
                ": missed"
            } else {
                ""
            };
            missed |= !verdict.is_empty();
            println!(
                "| {what} | {form} | {} | {median:.0}{verdict} |",
                log.len() / args.lines
            );
        }
    }
    println!(
        "\na line that is no Xid: under {MOST} ns, read from the page cache; medians of {} times {} lines",
        args.rounds, args.lines
    );
    if missed {
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}
