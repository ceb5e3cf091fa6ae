//! The Xids that were seen: how many of each on each GPU, and when last.

use crate::xid::PciAddress;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// The code of a GPU that has fallen off the bus.
const BUS_LOSS_CODE: u32 = 79;
/// The driver reports one loss twice: as an Xid and in a line without a number. So close together they are one.
const SAME_LOSS: SignedDuration = SignedDuration::from_secs(1);
/// NVML and the kernel log tell of one Xid within this time.
const SAME_EVENT: SignedDuration = SignedDuration::from_secs(1);
/// Events that are so close together are remembered as one burst.
const BURST: SignedDuration = SignedDuration::from_millis(100);
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

/// Who told of an Xid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    KernelLog,
    Nvml,
}

/// What one source told of one code on one GPU and the other has not told yet.
#[derive(Debug, Clone)]
struct Waiting {
    source: Source,
    bursts: VecDeque<Burst>,
}

/// Events of one source that came close together: a storm needs no more memory than a single event.
#[derive(Debug, Clone)]
struct Burst {
    first: Timestamp,
    last: Timestamp,
    events: u64,
}

impl Waiting {
    fn new(source: Source) -> Self {
        Self {
            source,
            bursts: VecDeque::new(),
        }
    }

    /// Whether the other source has already told of this event. Each that it told is taken for one event at most.
    fn take_in(&mut self, source: Source, at: Timestamp) -> bool {
        let far = |burst: &Burst| at.duration_since(burst.last).abs() > SAME_EVENT;
        while self.bursts.front().is_some_and(far) {
            self.bursts.pop_front();
        }
        if self.source != source {
            if let Some(burst) = self.bursts.front_mut() {
                burst.events -= 1;
                if burst.events == 0 {
                    self.bursts.pop_front();
                }
                return true;
            }
            self.source = source;
        }
        let together = |burst: &&mut Burst| at.duration_since(burst.first).abs() <= BURST;
        match self.bursts.back_mut().filter(together) {
            Some(burst) => {
                burst.events += 1;
                burst.last = burst.last.max(at);
            }
            None => self.bursts.push_back(Burst {
                first: at,
                last: at,
                events: 1,
            }),
        }
        false
    }
}

#[derive(Debug, Clone)]
struct Entry {
    count: Count,
    waiting: Waiting,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    entries: BTreeMap<(PciAddress, u32), Entry>,
    losses: BTreeMap<PciAddress, (Option<Timestamp>, LossForm)>,
    /// Events of the driver that are no Xids.
    others: BTreeMap<(PciAddress, &'static str), u64>,
    from_log: u64,
    from_nvml: u64,
}

impl Ledger {
    /// Counts an Xid of the kernel log; `at` is `None` where nothing tells when it was.
    pub(super) fn xid(&mut self, pci: PciAddress, code: u32, at: Option<Timestamp>) {
        self.from_log += 1;
        if code == BUS_LOSS_CODE && self.is_same_loss(pci, at, LossForm::Xid) {
            return;
        }
        self.count(pci, code, at, Source::KernelLog);
    }

    /// Counts a line that says without a number that a GPU has fallen off the bus.
    pub(super) fn bus_loss(&mut self, pci: PciAddress, at: Option<Timestamp>) {
        self.from_log += 1;
        if !self.is_same_loss(pci, at, LossForm::Line) {
            self.count(pci, BUS_LOSS_CODE, at, Source::KernelLog);
        }
    }

    /// Counts an Xid that NVML told of.
    pub(super) fn nvml_xid(&mut self, pci: PciAddress, code: u32, at: Timestamp) {
        self.from_nvml += 1;
        self.count(pci, code, Some(at), Source::Nvml);
    }

    /// Notes an Xid of which NVML knows no number, and the kernel log does.
    pub(super) fn nvml_unknown_xid(&mut self) {
        self.from_nvml += 1;
    }

    /// Counts another event of the driver, `times` times; 0 makes its series.
    pub(super) fn other(&mut self, pci: PciAddress, name: &'static str, times: u64) {
        *self.others.entry((pci, name)).or_default() += times;
    }

    /// Forgets a GPU whose place another has taken.
    pub(super) fn forget(&mut self, pci: PciAddress) {
        self.entries.retain(|(place, _), _| *place != pci);
        self.others.retain(|(place, _), _| *place != pci);
        self.losses.remove(&pci);
    }

    /// One code on one GPU, where it was seen.
    pub(super) fn get(&self, pci: PciAddress, code: u32) -> Option<Count> {
        self.entries.get(&(pci, code)).map(|entry| entry.count)
    }

    /// Everything that was seen, by GPU and code.
    pub(super) fn seen(&self) -> impl Iterator<Item = (PciAddress, u32, Count)> {
        self.entries
            .iter()
            .map(|((pci, code), entry)| (*pci, *code, entry.count))
    }

    /// The other events of one GPU.
    pub(super) fn others(&self, pci: PciAddress) -> impl Iterator<Item = (&'static str, u64)> {
        let of_gpu = self.others.range((pci, "")..);
        of_gpu
            .take_while(move |((place, _), _)| *place == pci)
            .map(|((_, name), count)| (*name, *count))
    }

    /// What each source has told, both together being more than what happened.
    pub(super) fn told(&self) -> [(&'static str, u64); 2] {
        [("kernel_log", self.from_log), ("nvml", self.from_nvml)]
    }

    fn count(&mut self, pci: PciAddress, code: u32, at: Option<Timestamp>, source: Source) {
        if self.entries.len() >= MOST_COUNTS && !self.entries.contains_key(&(pci, code)) {
            return;
        }
        let entry = self.entries.entry((pci, code)).or_insert_with(|| Entry {
            count: Count {
                events: 0,
                last: at,
            },
            waiting: Waiting::new(source),
        });
        entry.count.last = entry.count.last.max(at);
        // What has no time is history, of which NVML tells nothing.
        if !at.is_some_and(|at| entry.waiting.take_in(source, at)) {
            entry.count.events += 1;
        }
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
#[path = "ledger_tests.rs"]
mod tests;
