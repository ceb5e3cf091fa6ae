//! The kernel log of a scenario: records in the form of `/dev/kmsg`.

use super::Simulation;
use super::step::{Step, What};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// The driver prints with the kernel's default level, which is a warning.
const WARNING: u8 = 4;

/// What is written into the kernel log, from the first step on.
#[derive(Debug)]
pub struct ScenarioLog {
    simulation: Arc<Simulation>,
    /// The number of the first happening that was not looked at.
    next: u64,
    /// The number of the next record.
    sequence: u64,
}

impl ScenarioLog {
    /// The log of a simulation.
    #[must_use]
    pub fn new(simulation: Arc<Simulation>) -> Self {
        Self {
            simulation,
            next: 0,
            sequence: 0,
        }
    }

    /// Waits for the next record, with the end of its line; `None` where there was none in time.
    pub fn next(&mut self, wait: Duration) -> Option<String> {
        let simulation = Arc::clone(&self.simulation);
        let end = simulation.clock.elapsed().saturating_add(wait);
        loop {
            let now = simulation.clock.elapsed();
            let next = simulation.scenario.timeline.happening(self.next);
            if let Some(next) = next.filter(|next| next.at <= now) {
                self.next += 1;
                if let Some(line) = line(&simulation, next.step) {
                    let record = record(self.sequence, next.at, &line);
                    self.sequence += 1;
                    return Some(record);
                }
                continue;
            }
            if now >= end {
                return None;
            }
            simulation
                .clock
                .wait_until(next.map_or(end, |next| next.at.min(end)));
        }
    }
}

/// What a step writes into the log.
fn line(simulation: &Simulation, step: &Step) -> Option<String> {
    if let What::Line(line) = &step.what {
        return Some(line.clone());
    }
    let (xid, source) = simulation.xid(step)?;
    source.has_log().then(|| xid.to_string())
}

/// As the kernel writes it: what is no printable ASCII is escaped.
fn record(sequence: u64, at: Duration, line: &str) -> String {
    let mut record = format!("{WARNING},{sequence},{},-;", at.as_micros());
    for byte in line.bytes() {
        if (b' '..0x7f).contains(&byte) && byte != b'\\' {
            record.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(record, "\\x{byte:02x}");
        }
    }
    record.push('\n');
    record
}
