//! `xid decode`: each line of a kernel log, explained.

use super::{DecodeArgs, Output, Shipped};
use crate::kmsg::{Line, Stamp};
use crate::xid::{self, Message, Parser, SxidMessage, XidMessage};
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::ExitCode;

/// A line longer than this is no kernel message; its rest is passed over.
const LONGEST_LINE: u64 = 64 * 1024;

pub(super) fn run(
    args: &DecodeArgs,
    rules: &Shipped,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    if args.file.as_os_str() == "-" {
        let input = std::io::stdin().lock();
        return decode(input, args.output, rules, out).context("the standard input");
    }
    let name = args.file.display().to_string();
    let file = File::open(&args.file).with_context(|| format!("cannot open {name}"))?;
    decode(BufReader::new(file), args.output, rules, out).context(name)
}

fn decode(
    mut input: impl BufRead,
    output: Output,
    rules: &Shipped,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut parser = Parser::default();
    let (mut bytes, mut number, mut explained) = (Vec::new(), 0_u64, 0_u64);
    while take_line(&mut input, &mut bytes).context("cannot read")? {
        number += 1;
        let line = Line::parse(&bytes);
        let said = line.said();
        let messages: Vec<Message> = parser.parse(&said).collect();
        match output {
            Output::Json => {
                serde_json::to_writer(&mut *out, &object(&line, &messages))
                    .map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
            Output::Text => {
                for message in &messages {
                    explained += 1;
                    explain(out, number, message, rules)?;
                }
            }
        }
    }
    if output == Output::Text {
        writeln!(out, "{number} lines, {explained} messages of the driver")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads one line without its end; whether there was one.
fn take_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let read = input.take(LONGEST_LINE).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if read as u64 == LONGEST_LINE {
        input.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

/// What a line holds, for programs. What it does not hold is absent; the process of an Xid is null where it is not named.
fn object(line: &Line<'_>, messages: &[Message]) -> Value {
    let mut all = messages.iter().map(fields);
    let mut object = all.next().unwrap_or_else(|| {
        let mut other = Map::new();
        other.insert("kind".to_owned(), "other".into());
        other
    });
    let more: Vec<Value> = all.map(Value::Object).collect();
    if !more.is_empty() {
        object.insert("more".to_owned(), more.into());
    }
    match line.stamp() {
        Stamp::At(at) => {
            object.insert("time".to_owned(), at.to_string().into());
        }
        Stamp::SinceBoot(microseconds) => {
            let seconds = std::time::Duration::from_micros(microseconds).as_secs_f64();
            object.insert("seconds_since_boot".to_owned(), seconds.into());
        }
        Stamp::Unknown => {}
    }
    object.into()
}

fn fields(message: &Message) -> Map<String, Value> {
    let fields = match message {
        Message::Xid(xid) => return xid_fields(xid),
        Message::Sxid(sxid) => json!({
            "kind": "sxid", "pci": sxid.pci.to_string(), "switch": sxid.switch, "sxid": sxid.code,
            "class": sxid.class.map(xid::SxidClass::as_str), "link": sxid.link, "severity": sxid.severity,
            "text": some(&sxid.text),
        }),
        Message::BusLoss(loss) => json!({"kind": "bus_lost", "pci": loss.pci.to_string()}),
        Message::InitFailed { pci, text } => json!({
            "kind": "init_failed", "pci": pci.map(|pci| pci.to_string()), "text": text,
        }),
        Message::Uuid { pci, uuid } => {
            json!({"kind": "gpu_uuid", "pci": pci.to_string(), "uuid": uuid})
        }
        Message::Serial { pci, serial } => json!({
            "kind": "gpu_serial", "pci": pci.map(|pci| pci.to_string()), "serial": serial,
        }),
        Message::Malformed => json!({"kind": "malformed"}),
    };
    without_nulls(fields)
}

fn xid_fields(xid: &XidMessage) -> Map<String, Value> {
    let change = xid.recovery_change();
    let link = xid.link_event();
    let of_link = |field: fn(&xid::LinkEvent) -> Option<&str>| link.as_ref().and_then(field);
    let mut fields = without_nulls(json!({
        "kind": "xid", "pci": xid.pci.to_string(), "xid": xid.code,
        "gpu_instance": xid.gpu_instance, "compute_instance": xid.compute_instance,
        "caused_by_xid": xid.caused_by,
        "recovery_from": change.map(|c| c.from.0), "recovery_to": change.map(|c| c.to.0),
        "unit": of_link(|l| l.unit.as_deref()), "severity": of_link(|l| l.severity.as_deref()),
        "link": link.as_ref().and_then(|l| l.link),
        "intr_info": of_link(|l| l.intr_info.as_deref()),
        "error_status": of_link(|l| l.error_status.as_deref()),
        "registers": of_link(|l| l.registers.as_deref()),
        "text": some(&xid.text),
    }));
    let process = xid.process.as_ref();
    fields.insert("pid".to_owned(), process.and_then(|p| p.pid).into());
    let name = process.and_then(|p| p.name.as_deref());
    fields.insert("name".to_owned(), name.into());
    fields
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn without_nulls(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields.into_iter().filter(|(_, v)| !v.is_null()).collect(),
        _ => Map::new(),
    }
}

fn explain(
    out: &mut dyn Write,
    number: u64,
    message: &Message,
    rules: &Shipped,
) -> std::io::Result<()> {
    match message {
        Message::Xid(xid) => explain_xid(out, number, xid, rules),
        Message::Sxid(sxid) => explain_sxid(out, number, sxid),
        Message::BusLoss(loss) => {
            writeln!(
                out,
                "line {number}: GPU {} has fallen off the bus, which counts as Xid 79, and once with it",
                loss.pci
            )?;
            writeln!(out, "  shipped rules  {}", rules.sentence(79))
        }
        Message::InitFailed { pci, text } => {
            let gpu = pci.map_or_else(|| "a GPU".to_owned(), |pci| format!("GPU {pci}"));
            writeln!(
                out,
                "line {number}: the driver could not start {gpu}: {text}"
            )
        }
        Message::Uuid { pci, uuid } => writeln!(out, "line {number}: GPU {pci} is {uuid}"),
        Message::Serial { pci, serial } => {
            let gpu = pci.map_or_else(|| "a GPU".to_owned(), |pci| format!("GPU {pci}"));
            writeln!(out, "line {number}: {gpu} has the serial number {serial}")
        }
        Message::Malformed => writeln!(
            out,
            "line {number}: begins as an Xid or an SXid and cannot be read as one"
        ),
    }
}

fn explain_xid(
    out: &mut dyn Write,
    number: u64,
    xid: &XidMessage,
    rules: &Shipped,
) -> std::io::Result<()> {
    let entry = xid::find(xid.code);
    let meaning = entry.map_or("not in the catalogue", |entry| entry.meaning);
    write!(out, "line {number}: Xid {} on GPU {}", xid.code, xid.pci)?;
    if let Some(instance) = xid.gpu_instance {
        write!(out, ", GPU instance {instance}")?;
    }
    writeln!(out, ": {meaning}")?;
    if let Some(process) = &xid.process
        && (process.pid.is_some() || process.name.is_some())
    {
        let pid = process.pid.map(|pid| format!(" {pid}")).unwrap_or_default();
        let name = process.name.as_deref().map(|n| format!(" ({n})"));
        writeln!(out, "  process       {pid}{}", name.unwrap_or_default())?;
    }
    if let Some(entry) = entry {
        let action = entry.resolution;
        writeln!(out, "  class          {}", entry.class.as_str())?;
        writeln!(
            out,
            "  at once        {} ({})",
            action.meaning(),
            action.bucket()
        )?;
    }
    if let Some(change) = xid.recovery_change() {
        writeln!(
            out,
            "  recovery       {} is needed; before it was {}",
            change.to, change.from
        )?;
    }
    if let Some(link) = xid.link_event().and_then(|event| event.link) {
        writeln!(out, "  link           {link}")?;
    }
    if let Some(cause) = xid.caused_by {
        writeln!(out, "  caused by      Xid {cause}")?;
    }
    writeln!(out, "  shipped rules  {}", rules.sentence(xid.code))
}

fn explain_sxid(out: &mut dyn Write, number: u64, sxid: &SxidMessage) -> std::io::Result<()> {
    let switch = sxid
        .switch
        .map_or_else(String::new, |switch| format!(" {switch}"));
    let Some(class) = sxid.class else {
        return writeln!(
            out,
            "line {number}: more about SXid {} of NVSwitch{switch} ({})",
            sxid.code, sxid.pci
        );
    };
    write!(
        out,
        "line {number}: SXid {} of NVSwitch{switch} ({}), {}",
        sxid.code,
        sxid.pci,
        class.as_str()
    )?;
    if let Some(link) = sxid.link {
        write!(out, ", link {link}")?;
    }
    writeln!(out)?;
    let action = xid::find_sxid(sxid.code).map_or("its class says how severe it is", |entry| {
        entry.scope.meaning()
    });
    writeln!(out, "  at once        {action}")
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
