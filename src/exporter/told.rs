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
                let before = self.uuid_at(pci);
                if before.is_some_and(|before| *before != uuid) {
                    self.another_board_at(pci);
                }
                let known = self.logged_uuids.contains_key(&pci);
                if known || self.logged_uuids.len() < MOST_PLACES {
                    self.logged_uuids.insert(pci, uuid);
                }
            }
            Message::Serial { .. } => {}
            Message::Malformed => self.malformed += 1,
        }
    }

    /// Which GPU is at a place, as the log last told, else the driver.
    fn uuid_at(&self, pci: PciAddress) -> Option<&String> {
        let identified = || self.gpus.get(&pci).map(|gpu| &gpu.identity.uuid);
        self.logged_uuids.get(&pci).or_else(identified)
    }

    /// Which GPU is at a place, as the driver says, else the log.
    pub(super) fn uuid_of(&self, pci: PciAddress) -> Option<&String> {
        let identified = self.gpus.get(&pci).map(|gpu| &gpu.identity.uuid);
        identified.or_else(|| self.logged_uuids.get(&pci))
    }

    /// Another GPU has taken a place: what was told of the one before says nothing of it.
    fn another_board_at(&mut self, pci: PciAddress) {
        self.ledger.forget(pci);
        self.verdicts.forget(pci);
    }

    /// The driver has told that another GPU has taken a place. Where the log has told so already, what it has told since is
    /// of the new one.
    pub(super) fn replaced(&mut self, pci: PciAddress, uuid: &str) {
        if self.uuid_at(pci).is_none_or(|logged| logged != uuid) {
            self.another_board_at(pci);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::exporter::state::tests::{DEADLINE, at, collectors, healthy, identity};
    use crate::xid::Parser;

    #[test]
    fn the_log_tells_of_another_gpu_in_the_same_place() {
        let mut state = State::new(collectors(), DEADLINE);
        let log = |state: &mut State, lines: &[&str]| {
            for line in lines {
                let message = Parser::default().parse(line).next().unwrap();
                state.observe(message, Some(at(1)));
            }
        };
        let codes = |state: &State| -> Vec<u32> {
            let seen = state.ledger.seen();
            seen.map(|(_, code, _)| code).collect()
        };
        let old = "NVRM: GPU at PCI:0000:3b:00: GPU-6f3a1f9e-0000-4000-8000-00000000000a";
        let new = "NVRM: GPU at PCI:0000:3b:00: GPU-6f3a1f9e-0000-4000-8000-00000000000b";
        let xid = |code: u32| format!("NVRM: Xid (PCI:0000:3b:00): {code}, x");
        log(&mut state, &[old, &xid(79), old]);
        assert_eq!(codes(&state), [79], "it is still the same");
        log(&mut state, &[new, &xid(48)]);
        assert_eq!(codes(&state), [48]);
        // The driver says it later than the log, or of a GPU of which the log says nothing.
        let uuid = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
        state.gpu_identified(identity(0, &uuid(old), "0000:3b:00"));
        state.gpu_identified(identity(0, &uuid(new), "0000:3b:00"));
        assert_eq!(codes(&state), [48]);
        state.gpu_identified(identity(0, "GPU-c", "0000:3b:00"));
        assert!(codes(&state).is_empty());
    }

    #[test]
    fn an_xid_without_a_number_is_left_to_the_log_while_that_is_read() {
        let (mut state, _) = healthy();
        let pci = "0000:3b:00".parse().unwrap();
        let xid = |code| Event::Xid {
            code,
            gpu_instance: None,
            compute_instance: None,
        };
        state.gpu_event(pci, xid(UNKNOWN_XID), at(0), true);
        assert_eq!(state.ledger.seen().count(), 0);
        state.gpu_event(pci, xid(UNKNOWN_XID), at(0), false);
        state.gpu_event(pci, xid(79), at(0), true);
        state.gpu_event(pci, Event::Other("gpu_unavailable"), at(0), true);
        let seen: Vec<u32> = state.ledger.seen().map(|(_, code, _)| code).collect();
        assert_eq!(seen, [79, UNKNOWN_XID]);
        assert_eq!(state.ledger.told(), [("kernel_log", 0), ("nvml", 3)]);
        let others: Vec<_> = state.ledger.others(pci).collect();
        assert_eq!(others, [("gpu_unavailable", 1)]);
    }
}
