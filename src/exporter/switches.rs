//! The SXids that NVSwitches have reported: how many of each, and when last.

use crate::xid::{PciAddress, SxidClass, SxidMessage};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// More kinds of event than any machine can have; what comes beyond is a log full of nonsense.
const MOST_COUNTS: usize = 4096;

/// One code of one class on one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SxidCount {
    /// How often it was seen.
    pub(super) events: u64,
    /// When it was last logged, as far as the log tells.
    pub(super) last: Option<Timestamp>,
}

/// What identifies a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SxidKey {
    pub(super) pci: PciAddress,
    pub(super) code: u32,
    pub(super) class: SxidClass,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Switches {
    counts: BTreeMap<SxidKey, SxidCount>,
}

impl Switches {
    /// Counts a line, if it is an event and not more about one.
    pub(super) fn observe(&mut self, sxid: &SxidMessage, at: Option<Timestamp>) {
        let Some(class) = sxid.class else { return };
        let key = SxidKey {
            pci: sxid.pci,
            code: sxid.code,
            class,
        };
        if self.counts.len() >= MOST_COUNTS && !self.counts.contains_key(&key) {
            return;
        }
        let none = SxidCount {
            events: 0,
            last: at,
        };
        let count = self.counts.entry(key).or_insert(none);
        count.events += 1;
        count.last = count.last.max(at);
    }

    /// It is this time now: what seems to be later was stamped by a clock that was ahead, and is over.
    pub(super) fn no_later_than(&mut self, now: Timestamp) {
        for count in self.counts.values_mut() {
            count.last = count.last.map(|last| last.min(now));
        }
    }

    /// Everything that was seen, by switch and code.
    pub(super) fn seen(&self) -> impl Iterator<Item = (SxidKey, SxidCount)> {
        self.counts.iter().map(|(key, count)| (*key, *count))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::xid::{Message, Parser};

    #[test]
    fn an_event_of_three_lines_is_one() {
        let mut switches = Switches::default();
        let lines = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12020, Fatal, Link 05 egress\n\
            nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12020, Severity 0 Engine instance 5\n\
            nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12020, Data {0x1}";
        let at = |seconds| Some(Timestamp::from_second(seconds).unwrap());
        for seconds in [100, 200] {
            for message in Parser::default().parse(lines) {
                let Message::Sxid(sxid) = message else {
                    panic!("{message:?}")
                };
                switches.observe(&sxid, at(seconds));
            }
        }
        let seen: Vec<_> = switches.seen().collect();
        assert_eq!(seen.len(), 1);
        let (key, count) = seen[0];
        assert_eq!((key.code, key.class), (12020, SxidClass::Fatal));
        assert_eq!((count.events, count.last), (2, at(200)));
        // A clock that was ahead.
        for seconds in [150, 160] {
            switches.no_later_than(at(seconds).unwrap());
            assert_eq!(switches.seen().next().unwrap().1.last, at(150));
        }
    }
}
