//! What the driver tells by itself, in the kernel log and as events, taken into the state.

use super::state::State;
use crate::nvml::{Event, UNKNOWN_XID};
use crate::xid::{Message, PciAddress};
use jiff::Timestamp;

/// More GPUs than any machine has; what comes beyond is a log full of nonsense.
const MOST_PLACES: usize = 256;

impl State {
    /// It is this time now. What was stamped by a clock that was ahead would seem to happen at each moment until that time.
    pub(super) fn no_later_than(&mut self, now: Timestamp) {
        self.ledger.no_later_than(now);
        self.switches.no_later_than(now);
    }

    /// Takes in what the driver said in the kernel log; `at` is `None` where nothing tells when.
    pub(super) fn observe(&mut self, message: Message, at: Option<Timestamp>) {
        match message {
            Message::Xid(xid) => {
                self.ledger.xid(xid.pci, xid.code, at);
                // What may be of an earlier boot says nothing of what is needed now.
                if let Some(change) = xid.recovery_change().filter(|_| at.is_some()) {
                    self.verdicts.log_says(xid.pci, change.to);
                }
            }
            Message::BusLoss(loss) => self.ledger.bus_loss(loss.pci, at),
            Message::Sxid(sxid) => self.switches.observe(&sxid, at),
            Message::InitFailed { pci, .. } => {
                let known = self.init_failures.contains_key(&pci);
                if known || self.init_failures.len() < MOST_PLACES {
                    *self.init_failures.entry(pci).or_default() += 1;
                }
            }
            Message::Uuid { pci, uuid } => {
                let known = self.logged_uuids.contains_key(&pci);
                if known || self.logged_uuids.len() < MOST_PLACES {
                    self.logged_uuids.insert(pci, uuid);
                }
            }
            Message::Serial { .. } => {}
            Message::Malformed => self.malformed += 1,
        }
    }

    /// Takes in what NVML told of a GPU by itself. While the log is read, an Xid without a number is left to it: there it
    /// has one.
    pub(super) fn gpu_event(
        &mut self,
        pci: PciAddress,
        event: Event,
        at: Timestamp,
        log_is_read: bool,
    ) {
        match event {
            Event::Xid {
                code: UNKNOWN_XID, ..
            } if log_is_read => self.ledger.nvml_unknown_xid(),
            Event::Xid { code, .. } => self.ledger.nvml_xid(pci, code, at),
            Event::Other(name) => self.ledger.other(pci, name, 1),
        }
    }
}
