//! How many GPUs there should be, and which of them the kernel sees.

use super::collectors::Collector;
use super::state::{Gpu, State};
use crate::nvml::BusDevices;
use crate::xid::PciAddress;
use std::collections::BTreeSet;
use std::time::Instant;

/// What is known of the number of GPUs beside what the driver says now.
#[derive(Debug, Clone, Default)]
pub(super) struct Presence {
    /// What the operator says.
    configured: Option<u32>,
    /// The most that the driver has had while this process ran.
    most: u32,
    /// What the kernel sees on the bus; `None` where that cannot be read.
    on_bus: Option<BTreeSet<PciAddress>>,
    /// What it has seen there while this process ran.
    seen: BTreeSet<PciAddress>,
    /// What was handed to another driver, when the kernel could last be asked.
    handed_over: BTreeSet<PciAddress>,
    /// The NVSwitches that it has seen.
    switches: BTreeSet<PciAddress>,
    /// Where the driver has told that it has a GPU.
    had: BTreeSet<PciAddress>,
    /// What the driver no longer had in a session that has ended, and what has not told since that it is there.
    gone: BTreeSet<PciAddress>,
}

/// Whether the driver is let go on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LetGo {
    /// It is asked.
    No,
    /// Nobody asks it any more, but a call that has not ended still holds it.
    Wanted,
    /// Nobody holds it.
    Done,
}

impl Presence {
    /// The operator's number, which counts more than anything that was seen.
    pub(super) fn configure(&mut self, expected: Option<u32>) {
        self.configured = expected;
    }

    /// The driver has so many.
    pub(super) fn driver_has(&mut self, count: u32) {
        self.most = self.most.max(count);
    }

    /// The kernel sees these, or cannot be asked.
    pub(super) fn kernel_sees(&mut self, devices: Option<BusDevices>) {
        if let Some(devices) = &devices {
            self.seen.extend(&devices.ours);
            self.handed_over.clone_from(&devices.others);
            self.switches.extend(&devices.switches);
        }
        self.on_bus = devices.map(|devices| devices.ours);
    }

    /// The driver has told that it has a GPU at this place.
    pub(super) fn driver_has_one_at(&mut self, pci: PciAddress) {
        self.gone.remove(&pci);
        self.handed_over.remove(&pci);
        self.had.insert(pci);
    }

    /// A GPU that was at this place is at another: none is to be expected here.
    pub(super) fn moved_from(&mut self, pci: PciAddress) {
        self.had.remove(&pci);
        self.seen.remove(&pci);
    }

    /// What the kernel has seen at any time, but what it has handed to another driver since.
    pub(super) fn should_be(&self) -> impl Iterator<Item = PciAddress> {
        self.seen.difference(&self.handed_over).copied()
    }

    /// What the kernel sees, as far as it can be asked.
    pub(super) fn on_bus(&self) -> impl Iterator<Item = PciAddress> {
        self.on_bus.iter().flatten().copied()
    }

    /// The NVSwitches that the kernel has seen.
    pub(super) fn switches(&self) -> impl Iterator<Item = PciAddress> {
        self.switches.iter().copied()
    }

    /// How many there should be: the operator's number, else the most that driver or kernel have shown, without those that
    /// were handed to another driver; `None` while nobody has shown any.
    pub(super) fn expected(&self) -> Option<u32> {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let no_longer = number(self.had.intersection(&self.handed_over).count());
        let most = self.most.saturating_sub(no_longer);
        let seen = most.max(number(self.should_be().count()));
        self.configured
            .or((self.most > 0 || seen > 0).then_some(seen))
    }
}

impl State {
    /// It is let go on request: nobody asks it until it is taken again. `done`: nobody holds it either.
    pub(super) fn driver_let_go(&mut self, done: bool) {
        self.remember_missing();
        self.let_go = if done { LetGo::Done } else { LetGo::Wanted };
        self.driver.up = false;
        self.driver.error = Some("released");
        self.driver.asking_since = None;
    }

    /// Whether nobody asks it, because it is to be let go.
    pub(super) fn is_left_alone(&self) -> bool {
        self.let_go != LetGo::No
    }

    /// Whether nobody holds it, because it was let go.
    pub(super) fn is_released(&self) -> bool {
        self.let_go == LetGo::Done
    }

    /// Whether this GPU was handed to another driver: then it is not this one's fault that it is not there.
    pub(super) fn is_handed_over(&self, gpu: &Gpu) -> bool {
        self.presence.handed_over.contains(&gpu.identity.pci)
    }

    /// Whether this GPU has gone from the driver.
    pub(super) fn is_missing(&self, gpu: &Gpu) -> bool {
        self.has_none_at(gpu.identity.pci)
    }

    /// The GPUs that the kernel sees or has seen, that were never asked who they are, and that the driver does not have: or
    /// none of them, while it does not answer.
    pub(super) fn unlisted(&self, now: Instant) -> Vec<PciAddress> {
        let does_not_answer =
            !self.driver.up && (self.driver.tried || self.driver_error(now) == Some("hung"));
        let gone = |pci: &PciAddress| does_not_answer || self.has_none_at(*pci);
        self.never_identified().filter(gone).collect()
    }

    /// Whether it is known which GPU is at each index, or that this cannot be known: who a GPU of the log is does not change
    /// any more then.
    pub(super) fn knows_its_gpus(&self, now: Instant) -> bool {
        if !self.collectors.is_on(Collector::Nvml) || self.driver_error(now) == Some("hung") {
            return true;
        }
        let nameless = self.nameless(now);
        let is_known = |index| self.gpus.values().any(|gpu| gpu.identity.index == index);
        let mut indices = 0..self.driver.gpu_count;
        self.driver.tried && indices.all(|index| is_known(index) || nameless.contains_key(&index))
    }

    fn never_identified(&self) -> impl Iterator<Item = PciAddress> {
        let all = self.presence.should_be();
        all.filter(|pci| !self.gpus.contains_key(pci))
    }

    /// A session ends, and with it what its indices have told: whether a GPU was missing in it stays true until that GPU
    /// itself tells that it is there. In the next session one index that cannot tell would hide it.
    pub(super) fn remember_missing(&mut self) {
        let places = self.gpus.keys().copied().chain(self.presence.should_be());
        let gone: Vec<_> = places.filter(|pci| self.has_none_at(*pci)).collect();
        self.presence.gone.extend(gone);
    }

    /// Whether the driver has told of each of its GPUs which it is, and none is at this place; or did so before, and none has
    /// told since that it is.
    fn has_none_at(&self, pci: PciAddress) -> bool {
        let is_another = |index: u32| {
            let asking = self.asking.get(&index);
            asking.is_some_and(|asking| asking.pci.is_some_and(|other| other != pci))
        };
        let all_are_others = || (0..self.driver.gpu_count).all(is_another);
        self.presence.gone.contains(&pci) || (self.driver.up && all_are_others())
    }

    /// A session began that supports this version of CUDA.
    pub(super) fn driver_supports(&mut self, cuda_version: Option<String>) {
        self.driver.cuda_version = cuda_version;
    }

    /// Whether a GPU is missing that the driver once had or the kernel sees: only a new session could find it.
    pub(super) fn any_missing(&self) -> bool {
        let mut gpus = (self.gpus.values()).filter(|gpu| !self.is_handed_over(gpu));
        let missing = gpus.any(|gpu| self.is_missing(gpu));
        let mut unlisted = self.never_identified();
        self.driver.up && (missing || unlisted.any(|pci| self.has_none_at(pci)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bus(ours: &[&str], others: &[&str]) -> Option<BusDevices> {
        let parse = |addresses: &[&str]| addresses.iter().map(|a| a.parse().unwrap()).collect();
        Some(BusDevices {
            ours: parse(ours),
            others: parse(others),
            ..BusDevices::default()
        })
    }

    #[test]
    fn the_most_that_was_seen_is_expected() {
        let mut presence = Presence::default();
        assert_eq!(presence.expected(), None);
        presence.driver_has(8);
        presence.driver_has(7);
        assert_eq!(presence.expected(), Some(8));
        presence.kernel_sees(bus(&["0000:3b:00"], &[]));
        assert_eq!(presence.expected(), Some(8));
    }

    #[test]
    fn a_gpu_that_the_driver_never_had_is_expected_where_the_kernel_sees_it() {
        let mut presence = Presence::default();
        presence.driver_has(1);
        presence.kernel_sees(bus(&["0000:3b:00", "0000:5e:00"], &[]));
        assert_eq!(presence.expected(), Some(2));
        assert_eq!(presence.on_bus().count(), 2);
        presence.kernel_sees(bus(&["0000:3b:00"], &[]));
        assert_eq!(presence.expected(), Some(2), "it has left the bus");
        assert_eq!(presence.on_bus().count(), 1);
        presence.kernel_sees(None);
        assert_eq!(presence.expected(), Some(2), "nobody can look");
        assert_eq!(presence.on_bus().count(), 0);
    }

    #[test]
    fn what_was_handed_to_another_driver_is_not_expected_until_it_is_back() {
        let mut presence = Presence::default();
        presence.driver_has(2);
        for place in ["0000:3b:00", "0000:5e:00"] {
            presence.driver_has_one_at(place.parse().unwrap());
        }
        presence.kernel_sees(bus(&["0000:3b:00", "0000:5e:00"], &["0000:af:00"]));
        assert_eq!(presence.expected(), Some(2), "one never was the driver's");
        presence.kernel_sees(bus(&["0000:3b:00"], &["0000:5e:00", "0000:af:00"]));
        assert_eq!(presence.expected(), Some(1));
        presence.kernel_sees(None);
        assert_eq!(presence.expected(), Some(1), "nobody can look");
        presence.kernel_sees(bus(&[], &["0000:3b:00", "0000:5e:00", "0000:af:00"]));
        assert_eq!(presence.expected(), Some(0));
        presence.driver_has_one_at("0000:5e:00".parse().unwrap());
        presence.kernel_sees(bus(&["0000:5e:00"], &["0000:3b:00", "0000:af:00"]));
        assert_eq!(presence.expected(), Some(1));
    }

    #[test]
    fn a_gpu_that_was_moved_is_expected_once() {
        let mut presence = Presence::default();
        presence.driver_has(1);
        presence.driver_has_one_at("0000:3b:00".parse().unwrap());
        presence.kernel_sees(bus(&["0000:5e:00"], &[]));
        presence.moved_from("0000:3b:00".parse().unwrap());
        presence.driver_has_one_at("0000:5e:00".parse().unwrap());
        assert_eq!(presence.expected(), Some(1));
    }

    #[test]
    fn what_the_operator_says_counts() {
        let mut presence = Presence::default();
        presence.configure(Some(4));
        presence.driver_has(8);
        assert_eq!(presence.expected(), Some(4));
    }
}
