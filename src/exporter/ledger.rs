//! The Xids that were seen: how many of each on each GPU, and when last.

use crate::xid::PciAddress;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// The code of a GPU that has fallen off the bus.
const BUS_LOSS_CODE: u32 = 79;
/// The driver reports one loss twice: as an Xid and in a line without a number. So close together they are one.
const SAME_LOSS: SignedDuration = SignedDuration::from_secs(1);
/// More pairs of GPU and code than any machine can have; what comes beyond is a log full of nonsense.
const MOST_COUNTS: usize = 4096;

/// One code on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    /// How often it was seen.
    pub(super) events: u64,
    /// When it was last logged, as far as the log tells.
    pub(super) last: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LossForm {
    Xid,
    Line,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    counts: BTreeMap<(PciAddress, u32), Count>,
    losses: BTreeMap<PciAddress, (Option<Timestamp>, LossForm)>,
}

impl Ledger {
    /// Counts an Xid; `at` is `None` where nothing tells when it was.
    pub(super) fn xid(&mut self, pci: PciAddress, code: u32, at: Option<Timestamp>) {
        if code == BUS_LOSS_CODE && self.is_same_loss(pci, at, LossForm::Xid) {
            return;
        }
        self.count(pci, code, at);
    }

    /// Counts a line that says without a number that a GPU has fallen off the bus.
    pub(super) fn bus_loss(&mut self, pci: PciAddress, at: Option<Timestamp>) {
        if !self.is_same_loss(pci, at, LossForm::Line) {
            self.count(pci, BUS_LOSS_CODE, at);
        }
    }

    /// Forgets a GPU whose place another has taken.
    pub(super) fn forget(&mut self, pci: PciAddress) {
        self.counts.retain(|(place, _), _| *place != pci);
        self.losses.remove(&pci);
    }

    /// One code on one GPU, where it was seen.
    pub(super) fn get(&self, pci: PciAddress, code: u32) -> Option<Count> {
        self.counts.get(&(pci, code)).copied()
    }

    /// Everything that was seen, by GPU and code.
    pub(super) fn seen(&self) -> impl Iterator<Item = (PciAddress, u32, Count)> {
        self.counts
            .iter()
            .map(|((pci, code), count)| (*pci, *code, *count))
    }

    fn count(&mut self, pci: PciAddress, code: u32, at: Option<Timestamp>) {
        if self.counts.len() >= MOST_COUNTS && !self.counts.contains_key(&(pci, code)) {
            return;
        }
        let count = self.counts.entry((pci, code)).or_insert(Count {
            events: 0,
            last: at,
        });
        count.events += 1;
        count.last = count.last.max(at);
    }

    /// Whether this loss was told already. Lines without a number come in several forms and are all one; an Xid is the
    /// same loss as the lines around it, but not as another Xid.
    fn is_same_loss(&mut self, pci: PciAddress, at: Option<Timestamp>, form: LossForm) -> bool {
        let same = self.losses.get(&pci).is_some_and(|(before, other)| {
            let together = match (at, *before) {
                (Some(at), Some(before)) => at.duration_since(before).abs() <= SAME_LOSS,
                // Nothing tells them apart.
                (None, None) => true,
                _ => false,
            };
            together && !(form == LossForm::Xid && *other == LossForm::Xid)
        });
        let told_by_xid = form == LossForm::Xid
            || (same
                && self
                    .losses
                    .get(&pci)
                    .is_some_and(|(_, f)| *f == LossForm::Xid));
        let form = if told_by_xid {
            LossForm::Xid
        } else {
            LossForm::Line
        };
        self.losses.insert(pci, (at, form));
        same
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(milliseconds: i64) -> Option<Timestamp> {
        Some(Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap())
    }

    fn gpu() -> PciAddress {
        "0000:3b:00".parse().unwrap()
    }

    fn events(ledger: &Ledger) -> u64 {
        ledger.get(gpu(), 79).map_or(0, |count| count.events)
    }

    #[test]
    fn an_xid_and_the_line_beside_it_are_one_loss_in_either_order() {
        let mut ledger = Ledger::default();
        ledger.xid(gpu(), 79, at(0));
        ledger.bus_loss(gpu(), at(1));
        ledger.bus_loss(gpu(), at(900));
        assert_eq!(events(&ledger), 1);
        let mut ledger = Ledger::default();
        ledger.bus_loss(gpu(), at(0));
        ledger.bus_loss(gpu(), at(1));
        ledger.xid(gpu(), 79, at(2));
        assert_eq!(events(&ledger), 1);
    }

    #[test]
    fn the_same_xid_twice_is_two_events() {
        let mut ledger = Ledger::default();
        ledger.xid(gpu(), 79, at(0));
        ledger.bus_loss(gpu(), at(1));
        ledger.xid(gpu(), 79, at(2));
        ledger.xid(gpu(), 48, at(2));
        ledger.xid(gpu(), 48, at(2));
        assert_eq!(events(&ledger), 2);
        assert_eq!(ledger.get(gpu(), 48).unwrap().events, 2);
    }

    #[test]
    fn a_later_loss_and_another_gpu_are_their_own() {
        let mut ledger = Ledger::default();
        ledger.bus_loss(gpu(), at(0));
        ledger.bus_loss("0000:5e:00".parse().unwrap(), at(1));
        ledger.bus_loss(gpu(), at(1002));
        assert_eq!(events(&ledger), 2);
        assert_eq!(ledger.seen().count(), 2);
    }

    #[test]
    fn the_last_time_never_goes_back() {
        let mut ledger = Ledger::default();
        ledger.xid(gpu(), 48, at(10));
        ledger.xid(gpu(), 48, at(5));
        assert_eq!(
            ledger.get(gpu(), 48),
            Some(Count {
                events: 2,
                last: at(10)
            })
        );
    }

    #[test]
    fn what_has_no_time_is_counted_and_takes_none_away() {
        let mut ledger = Ledger::default();
        ledger.xid(gpu(), 79, None);
        ledger.bus_loss(gpu(), None);
        let untimed = Count {
            events: 1,
            last: None,
        };
        assert_eq!(ledger.get(gpu(), 79), Some(untimed));
        ledger.xid(gpu(), 79, at(0));
        ledger.xid(gpu(), 79, None);
        let timed = Count {
            events: 3,
            last: at(0),
        };
        assert_eq!(ledger.get(gpu(), 79), Some(timed));
    }

    #[test]
    fn a_log_full_of_nonsense_does_not_fill_the_memory() {
        let mut ledger = Ledger::default();
        for code in 0..2 * MOST_COUNTS as u32 {
            ledger.xid(gpu(), code, at(0));
        }
        assert_eq!(ledger.seen().count(), MOST_COUNTS);
        ledger.xid(gpu(), 79, at(0));
        assert_eq!(events(&ledger), 2, "what is known goes on counting");
    }

    #[test]
    fn a_replaced_gpu_begins_anew() {
        let mut ledger = Ledger::default();
        ledger.xid(gpu(), 79, at(0));
        ledger.forget(gpu());
        assert_eq!(ledger.seen().count(), 0);
    }
}
