//! How many GPUs there should be, and which of them the kernel sees.

use super::state::{Gpu, State};
use crate::xid::PciAddress;
use std::collections::BTreeSet;

/// What is known of the number of GPUs beside what the driver says now.
#[derive(Debug, Clone, Default)]
pub(super) struct Presence {
    /// What the operator says.
    configured: Option<u32>,
    /// The most that the driver has had while this process ran.
    most: u32,
    /// What the kernel sees on the bus; `None` where that cannot be read.
    on_bus: Option<BTreeSet<PciAddress>>,
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
    pub(super) fn kernel_sees(&mut self, gpus: Option<BTreeSet<PciAddress>>) {
        self.on_bus = gpus;
    }

    /// What the kernel sees, as far as it can be asked.
    pub(super) fn on_bus(&self) -> impl Iterator<Item = PciAddress> {
        self.on_bus.iter().flatten().copied()
    }

    /// How many there should be: the operator's number, else the most that driver or kernel have shown; `None` while nobody
    /// has shown any.
    pub(super) fn expected(&self) -> Option<u32> {
        let on_bus = self.on_bus.as_ref().map_or(0, BTreeSet::len);
        let seen = self.most.max(u32::try_from(on_bus).unwrap_or(u32::MAX));
        self.configured.or((seen > 0).then_some(seen))
    }
}

impl State {
    /// It is let go on request: nobody asks it until it is taken again. `done`: nobody holds it either.
    pub(super) fn driver_let_go(&mut self, done: bool) {
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

    /// Whether the driver has told of each of its GPUs which it is, and this is none of them: it has gone from the driver.
    pub(super) fn is_missing(&self, gpu: &Gpu) -> bool {
        self.has_none_at(gpu.identity.pci)
    }

    /// The GPUs that the kernel sees, that were never asked who they are, and that the driver does not have.
    pub(super) fn unlisted(&self) -> Vec<PciAddress> {
        let unknown = |pci: &PciAddress| !self.gpus.contains_key(pci);
        let gone =
            |pci: &PciAddress| (self.driver.tried && !self.driver.up) || self.has_none_at(*pci);
        let all = self.presence.on_bus();
        all.filter(|pci| unknown(pci) && gone(pci)).collect()
    }

    fn has_none_at(&self, pci: PciAddress) -> bool {
        let is_another = |index: u32| {
            let asking = self.asking.get(&index);
            asking.is_some_and(|asking| asking.pci.is_some_and(|other| other != pci))
        };
        self.driver.up && (0..self.driver.gpu_count).all(is_another)
    }

    /// A session began that supports this version of CUDA.
    pub(super) fn driver_supports(&mut self, cuda_version: Option<String>) {
        self.driver.cuda_version = cuda_version;
    }

    /// Whether a GPU is missing that the driver once had or the kernel sees: only a new session could find it.
    pub(super) fn any_missing(&self) -> bool {
        let missing = self.gpus.values().any(|gpu| self.is_missing(gpu));
        self.driver.up && (missing || !self.unlisted().is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bus(addresses: &[&str]) -> Option<BTreeSet<PciAddress>> {
        Some(addresses.iter().map(|a| a.parse().unwrap()).collect())
    }

    #[test]
    fn the_most_that_was_seen_is_expected() {
        let mut presence = Presence::default();
        assert_eq!(presence.expected(), None);
        presence.driver_has(8);
        presence.driver_has(7);
        assert_eq!(presence.expected(), Some(8));
        presence.kernel_sees(bus(&["0000:3b:00"]));
        assert_eq!(presence.expected(), Some(8));
    }

    #[test]
    fn a_gpu_that_the_driver_never_had_is_expected_where_the_kernel_sees_it() {
        let mut presence = Presence::default();
        presence.driver_has(1);
        presence.kernel_sees(bus(&["0000:3b:00", "0000:5e:00"]));
        assert_eq!(presence.expected(), Some(2));
        assert_eq!(presence.on_bus().count(), 2);
        presence.kernel_sees(None);
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
