//! `xid show` and `xid list`.

use super::{Acts, ListArgs, Output, Shipped, ShowArgs, write_json};
use crate::xid::{self, Entry, SwitchEntry};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

#[derive(Serialize)]
struct XidRow {
    xid: u32,
    meaning: &'static str,
    class: &'static str,
    immediate_action: &'static str,
    /// The driver branch from which an Xid 154 confirms it.
    confirmed_by_xid_154_since: Option<u16>,
    /// Whether the exporter shows a 0 before it is ever seen.
    watched: bool,
    rules: Vec<Acts>,
    source: &'static str,
}

#[derive(Serialize)]
struct SxidRow {
    sxid: u32,
    class: &'static str,
    immediate_action: &'static str,
    rules: Vec<Acts>,
    source: &'static str,
}

const SXID_SOURCE: &str = "NVIDIA Fabric Manager user guide, NVSwitch errors";

fn row(entry: &Entry, rules: &Shipped) -> XidRow {
    XidRow {
        xid: entry.code,
        meaning: entry.meaning,
        class: entry.class.as_str(),
        immediate_action: entry.resolution.bucket(),
        confirmed_by_xid_154_since: entry.confirmed_since,
        watched: entry.is_watched(),
        rules: rules.about(entry.code),
        source: entry.source.as_str(),
    }
}

fn switch_row(entry: SwitchEntry) -> SxidRow {
    SxidRow {
        sxid: entry.code,
        class: switch_class(entry),
        immediate_action: entry.scope.meaning(),
        rules: Vec::new(),
        source: SXID_SOURCE,
    }
}

fn switch_class(entry: SwitchEntry) -> &'static str {
    if entry.fatal { "fatal" } else { "non-fatal" }
}

pub(super) fn show(
    args: &ShowArgs,
    rules: &Shipped,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    if let Some(entry) = xid::find(args.code) {
        match args.output {
            Output::Json => write_json(out, &row(entry, rules))?,
            Output::Text => text(out, entry, rules)?,
        }
    } else if let Some(entry) = xid::find_sxid(args.code) {
        match args.output {
            Output::Json => write_json(out, &switch_row(entry))?,
            Output::Text => switch_text(out, entry)?,
        }
    } else {
        eprintln!(
            "error: {} is no Xid or SXid that is known here; the exporter counts it all the same, and no shipped rule acts on \
             it. `gpu-remediator xid list` shows the known ones",
            args.code
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn text(out: &mut dyn Write, entry: &Entry, rules: &Shipped) -> std::io::Result<()> {
    let action = entry.resolution;
    writeln!(out, "Xid {}: {}", entry.code, entry.meaning)?;
    writeln!(out, "  class          {}", entry.class.as_str())?;
    writeln!(
        out,
        "  at once        {} ({})",
        action.meaning(),
        action.bucket()
    )?;
    if let Some(driver) = entry.confirmed_since {
        writeln!(
            out,
            "  confirmed by   Xid 154, from driver {driver} on: gpu_recovery_action"
        )?;
    }
    let series = if entry.is_watched() {
        "shown from 0 on"
    } else {
        "shown once it was seen"
    };
    writeln!(
        out,
        "  metric         gpu_xid_errors_total{{xid=\"{}\"}}, {series}",
        entry.code
    )?;
    writeln!(out, "  shipped rules  {}", rules.sentence(entry.code))?;
    writeln!(out, "  source         {}", entry.source.as_str())
}

fn switch_text(out: &mut dyn Write, entry: SwitchEntry) -> std::io::Result<()> {
    writeln!(out, "SXid {}, {}", entry.code, switch_class(entry))?;
    writeln!(out, "  at once        {}", entry.scope.meaning())?;
    writeln!(
        out,
        "  metric         gpu_sxid_errors_total{{sxid=\"{}\"}}, shown once it was seen",
        entry.code
    )?;
    writeln!(
        out,
        "  shipped rules  none of them acts on it: it is counted, and no node is touched"
    )?;
    writeln!(out, "  source         {SXID_SOURCE}")
}

pub(super) fn list(
    args: &ListArgs,
    rules: &Shipped,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    if args.sxid {
        let mut all: Vec<SwitchEntry> = xid::all_sxids().collect();
        all.sort_by_key(|entry| entry.code);
        match args.output {
            Output::Json => {
                let rows: Vec<_> = all.into_iter().map(switch_row).collect();
                write_json(out, &rows)?;
            }
            Output::Text => {
                writeln!(out, "SXID   CLASS      AT ONCE")?;
                for entry in all {
                    let class = switch_class(entry);
                    writeln!(
                        out,
                        "{:<5}  {class:<9}  {}",
                        entry.code,
                        entry.scope.meaning()
                    )?;
                }
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    match args.output {
        Output::Json => {
            let rows: Vec<_> = xid::all().iter().map(|entry| row(entry, rules)).collect();
            write_json(out, &rows)?;
        }
        Output::Text => {
            writeln!(
                out,
                "XID  CLASS            AT ONCE            CONFIRMED  RULE                       MEANING"
            )?;
            for entry in xid::all() {
                let confirmed = entry
                    .confirmed_since
                    .map_or_else(|| "-".to_owned(), |driver| format!("R{driver}"));
                let acting: Vec<_> = rules
                    .about(entry.code)
                    .into_iter()
                    .map(|r| r.alert)
                    .collect();
                let acting = if acting.is_empty() {
                    "-".to_owned()
                } else {
                    acting.join(",")
                };
                writeln!(
                    out,
                    "{:<3}  {:<15}  {:<17}  {confirmed:<9}  {acting:<25}  {}",
                    entry.code,
                    entry.class.as_str(),
                    entry.resolution.bucket(),
                    entry.meaning
                )?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
