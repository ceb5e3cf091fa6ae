//! The Xids that were seen: how many of each on each GPU, and when last.

use crate::kmsg;
use crate::xid::PciAddress;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// The code of a GPU that has fallen off the bus.
const BUS_LOSS_CODE: u32 = 79;
/// The driver reports one loss twice: as an Xid and in a line without a number. So close together they are one.
const SAME_LOSS: SignedDuration = SignedDuration::from_secs(1);
/// NVML and the kernel log tell of one Xid within this time.
const SAME_EVENT: SignedDuration = SignedDuration::from_secs(1);
// A line that does not tell its time has that of its being read, which may be one check of the log after its being written
// (two, where a file that was put in its place cannot be opened at once): were it later than this, one Xid would be counted
// twice.
const _: () = assert!(SAME_EVENT.as_millis() >= 2 * kmsg::CHECK.as_millis() as i128);
/// The event of a log whose times are whole seconds happened within a second from that time on.
const COARSE: SignedDuration = SignedDuration::from_secs(1);
/// Events that are so close together are remembered as one burst.
const BURST: SignedDuration = SignedDuration::from_millis(100);
/// More bursts than can wait at the same time, unless a log tells of ever older times.
const MOST_BURSTS: usize = 64;
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

/// What each source told of one code on one GPU and the other has not told yet.
#[derive(Debug, Clone, Default)]
struct Waiting {
    kernel_log: VecDeque<Burst>,
    nvml: VecDeque<Burst>,
}

/// Events of one source that came close together: a storm needs no more memory than a single event.
#[derive(Debug, Clone)]
struct Burst {
    first: Timestamp,
    last: Timestamp,
    events: u64,
}

impl Waiting {
    /// Whether the other source has already told of this event. Each that it told is taken for one event at most.
    fn take_in(&mut self, source: Source, at: Timestamp) -> bool {
        // What is older than this line is over, but an older line that comes late ends nothing.
        let is_over = |burst: &Burst| at.duration_since(burst.last) > SAME_EVENT + COARSE;
        for bursts in [&mut self.kernel_log, &mut self.nvml] {
            bursts.retain(|burst| !is_over(burst));
        }
        let (own, other) = match source {
            Source::KernelLog => (&mut self.kernel_log, &mut self.nvml),
            Source::Nvml => (&mut self.nvml, &mut self.kernel_log),
        };
        let same = |burst: &Burst| match source {
            Source::KernelLog => is_same_event(at, burst.last),
            Source::Nvml => is_same_event(burst.last, at),
        };
        if let Some(place) = other.iter().position(same) {
            other[place].events -= 1;
            if other[place].events == 0 {
                other.remove(place);
            }
            return true;
        }
        let together = |burst: &&mut Burst| at.duration_since(burst.first).abs() <= BURST;
        match own.back_mut().filter(together) {
            Some(burst) => {
                burst.events += 1;
                burst.last = burst.last.max(at);
            }
            None => own.push_back(Burst {
                first: at,
                last: at,
                events: 1,
            }),
        }
        if own.len() > MOST_BURSTS {
            own.pop_front();
        }
        false
    }
}

/// Whether both sources may have told of one event at these times.
fn is_same_event(kernel_log: Timestamp, nvml: Timestamp) -> bool {
    let later = nvml.duration_since(kernel_log);
    let latest = match kernel_log.subsec_nanosecond() {
        0 => SAME_EVENT + COARSE,
        _ => SAME_EVENT,
    };
    -SAME_EVENT <= later && later <= latest
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

    /// It is this time now: what seems to be later was stamped by a clock that was ahead, and is over.
    pub(super) fn no_later_than(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut() {
            entry.count.last = entry.count.last.map(|last| last.min(now));
        }
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
            waiting: Waiting::default(),
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
