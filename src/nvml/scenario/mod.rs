//! Simulated GPUs to which something happens, as a file says.
//!
//! The file says which GPUs there are and has a timeline of steps. What a GPU is at a moment follows from the steps up to
//! then alone ([`Timeline::at`]); the driver, its events and the kernel log answer from that and from a clock. Everything
//! above the driver's trait and behind the kernel log's reader is the same code as with the real ones.

mod check;
mod clock;
mod driver;
mod error;
mod events;
mod form;
mod log;
mod state;
mod step;
mod timeline;

use super::{Identity, Instance, SimulatedGpus};
use crate::xid::{PciAddress, Process, XidMessage};
use clock::SimulationClock;
use form::Driver;
use state::Moment;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use step::{Action, Step, What};
use timeline::Timeline;

pub use driver::ScenarioDriver;
pub use error::ScenarioError;
pub use log::ScenarioLog;

/// What a file says: the GPUs, and what happens to them.
#[derive(Debug, Clone)]
pub struct Scenario {
    driver_version: Option<String>,
    cuda_version: Option<String>,
    expected: Option<u32>,
    boards: Vec<Board>,
    timeline: Timeline,
}

/// A GPU, as far as the file tells.
#[derive(Debug, Clone, Default)]
struct Board {
    model: Option<String>,
    uuid: Option<String>,
    pci: Option<PciAddress>,
    serial: Option<String>,
    vbios: Option<String>,
    /// Bytes.
    memory: Option<u64>,
    links: u32,
    instances: Vec<Instance>,
}

impl Scenario {
    /// Reads a file, all of it: what is accepted here can be played.
    ///
    /// # Errors
    ///
    /// Says where and why the file is no scenario.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::Read {
            path: path.to_owned(),
            source,
        })?;
        check::scenario(path, &text)
    }

    /// How many GPUs there should be, where the file says so.
    #[must_use]
    pub fn expected_gpus(&self) -> Option<u32> {
        self.expected
    }

    /// Begins to play it on a node, from the first step on.
    #[must_use]
    pub fn play(self, node: &str) -> Arc<Simulation> {
        Arc::new(Simulation {
            gpus: SimulatedGpus::new(u32::try_from(self.boards.len()).unwrap_or(u32::MAX), node),
            scenario: self,
            clock: SimulationClock::start(),
        })
    }
}

/// A scenario that is being played. Its driver and its kernel log see the same moment.
#[derive(Debug)]
pub struct Simulation {
    scenario: Scenario,
    /// What the file does not tell of the GPUs, and how they are while nothing is wrong.
    gpus: SimulatedGpus,
    clock: SimulationClock,
}

impl Simulation {
    /// The first moment in which the driver does not hang, since the start, and how everything is then.
    fn answering(&self) -> (Duration, Moment) {
        loop {
            let now = self.clock.elapsed();
            let moment = self.scenario.timeline.at(now);
            if moment.driver != Driver::Hung {
                return (now, moment);
            }
            self.wait_for_change(now);
        }
    }

    /// Waits until something has changed that had not at a moment.
    fn wait_for_change(&self, now: Duration) {
        let change = self.scenario.timeline.next_change(now);
        self.clock.wait_until(change.unwrap_or(Duration::MAX));
    }

    /// The GPU that has this place in the file.
    fn identity(&self, slot: usize) -> Option<Identity> {
        let board = self.scenario.boards.get(slot)?;
        let made_up = self.gpus.identify(u32::try_from(slot).ok()?);
        Some(Identity {
            uuid: board.uuid.clone().unwrap_or(made_up.uuid),
            pci: board.pci.unwrap_or(made_up.pci),
            model: board.model.clone().unwrap_or(made_up.model),
            serial: board.serial.clone(),
            vbios: board.vbios.clone(),
            ..made_up
        })
    }

    /// The Xid that a step tells of.
    fn xid(&self, step: &Step) -> Option<(XidMessage, form::Source)> {
        let What::Gpu { slot, action } = &step.what else {
            return None;
        };
        let pci = self.identity(*slot)?.pci;
        match action {
            Action::Xid(xid) => {
                let usual = XidMessage::usual(pci, xid.code);
                let process = |told: &Process| Process {
                    pid: told.pid,
                    name: told.name.clone(),
                };
                let message = XidMessage {
                    gpu_instance: xid.gpu_instance,
                    compute_instance: xid.compute_instance,
                    process: xid.process.as_ref().map(process).or(usual.process),
                    text: xid.text.clone().unwrap_or(usual.text),
                    ..usual
                };
                Some((message, xid.source))
            }
            Action::Recovery { change, source } => {
                Some((XidMessage::recovery(pci, *change), *source))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
