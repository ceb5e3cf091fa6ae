//! `gpu-remediator xid`: what the driver's codes and messages mean, and what the shipped rules do about them.

mod decode;
mod show;

use crate::api::GpuFaultRule;
use crate::api::policy::Step;
use crate::rules::shipped::{self, Interest};
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be done with Xids.
#[derive(Debug, Clone, Subcommand)]
pub enum XidCommand {
    /// Tells what one Xid or SXid means, and what the shipped rules do about it
    Show(ShowArgs),
    /// Lists all Xids that are known, or all SXids
    List(ListArgs),
    /// Reads lines of a kernel log and explains what the driver says in them
    Decode(DecodeArgs),
}

/// Arguments of `xid show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// The number of an Xid, such as 79, or of an SXid, such as 12020
    #[arg(value_name = "CODE")]
    pub code: u32,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Arguments of `xid list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// The SXids of NVSwitches instead
    #[arg(long)]
    pub sxid: bool,
    /// How they are written
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Arguments of `xid decode`.
#[derive(Debug, Clone, Args)]
pub struct DecodeArgs {
    /// A file with lines of /dev/kmsg, dmesg, syslog or journalctl; `-` is the standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// Text explains what the driver says; JSON is one object for each line, whatever it is
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// How something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Runs the command. The exit code is 1 for a code that is not known.
///
/// # Errors
///
/// When the input cannot be read or `out` cannot be written.
pub fn run(command: &XidCommand, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let rules = Shipped::read()?;
    match command {
        XidCommand::Show(args) => show::show(args, &rules, out),
        XidCommand::List(args) => show::list(args, &rules, out),
        XidCommand::Decode(args) => decode::run(args, &rules, out),
    }
}

/// What the product does when nobody has changed its rules.
struct Shipped {
    rules: GpuFaultRule,
    policy: String,
    steps: Vec<&'static str>,
}

/// A rule that acts on a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Acts {
    alert: String,
    policy: String,
    steps: Vec<&'static str>,
}

impl Shipped {
    fn read() -> anyhow::Result<Self> {
        let policy = shipped::policy().context("the shipped policy")?;
        Ok(Self {
            rules: shipped::rules().context("the shipped rules")?,
            policy: policy.metadata.name.unwrap_or_default(),
            steps: policy.spec.steps.iter().map(step).collect(),
        })
    }

    fn about(&self, code: u32) -> Vec<Acts> {
        let all = shipped::interested(&self.rules, code).into_iter();
        all.map(|Interest { alert, policy }| Acts {
            steps: if policy == self.policy {
                self.steps.clone()
            } else {
                Vec::new()
            },
            alert,
            policy,
        })
        .collect()
    }

    /// In words.
    fn sentence(&self, code: u32) -> String {
        let rules = self.about(code);
        if rules.is_empty() {
            return "none of them acts on it: it is counted, and no node is touched".to_owned();
        }
        let each = rules.iter().map(|rule| {
            format!(
                "{} opens a fault; policy {}: {}",
                rule.alert,
                rule.policy,
                rule.steps.join(", ")
            )
        });
        each.collect::<Vec<_>>().join("; ")
    }
}

fn step(step: &Step) -> &'static str {
    match step {
        Step::Cordon(_) => "cordon",
        Step::EvictPods(_) => "evictPods",
        Step::Verify(_) => "verify",
    }
}

fn write_json(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
