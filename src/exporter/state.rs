//! What the node process knows: written by the threads that ask the driver and read the log, read by a scrape.

use super::collectors::{Collector, Collectors};
use super::kubelet::Kubelet;
use super::ledger::Ledger;
use super::outcome::Outcome;
use super::presence::{LetGo, Presence};
use super::switches::Switches;
use super::verdicts::Verdicts;
use super::worker::Asked;
use crate::nvml::{DriverError, Identity, Sample};
use crate::xid::PciAddress;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How the last asking of a GPU ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Health {
    /// It answered.
    Up(Sample),
    /// The driver says that it is lost or must be reset.
    Lost,
    /// Anything else.
    Failing,
}

/// A GPU that was identified at least once.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    pub(super) identity: Identity,
    pub(super) health: Health,
    /// How the last asking for its health went.
    pub(super) asked: Option<Outcome>,
    /// How the last asking for each further group went.
    pub(super) groups: BTreeMap<Collector, Outcome>,
    /// Failed calls by function and error.
    pub(super) failures: BTreeMap<(&'static str, &'static str), u64>,
}

/// The thread that asks for one index.
#[derive(Debug, Clone, Default)]
pub(super) struct Asking {
    /// Since when a call is under way.
    since: Option<Instant>,
    /// When the asking began that it is a part of, and how many verdicts the log had told by then.
    began: Option<(Instant, u64)>,
    /// The GPU that the index was last seen to be.
    pub(super) pci: Option<PciAddress>,
}

/// What is known of the driver as a whole.
#[derive(Debug, Clone, Default)]
pub(super) struct DriverState {
    /// Whether it was asked at least once.
    pub(super) tried: bool,
    /// Its version, as it last told.
    pub(super) version: Option<String>,
    /// The newest CUDA version that it supports.
    pub(super) cuda_version: Option<String>,
    /// Whether it answered when it was last asked.
    pub(super) up: bool,
    /// How many GPUs it has, while it answers.
    pub(super) gpu_count: u32,
    /// Why it does not answer.
    pub(super) error: Option<&'static str>,
    pub(super) asking_since: Option<Instant>,
}

/// Everything. A scrape writes a clone, so that no thread that asks the driver waits for it.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// A call that takes longer hangs.
    pub(super) deadline: Duration,
    pub(super) collectors: Collectors,
    /// How the last look at the PCI bus went.
    pub(super) bus: Option<Outcome>,
    /// The GPUs that are listened to, and those that do not let themselves be.
    pub(super) listening: BTreeMap<PciAddress, bool>,
    pub(super) driver: DriverState,
    pub(super) gpus: BTreeMap<PciAddress, Gpu>,
    /// Indices that never told who they are, and how they are.
    nameless: BTreeMap<u32, Health>,
    pub(super) asking: BTreeMap<u32, Asking>,
    pub(super) ledger: Ledger,
    /// What the kubelet last said, where it is asked.
    pub(super) kubelet: Option<Kubelet>,
    /// UUIDs that the kernel log tells.
    pub(super) logged_uuids: BTreeMap<PciAddress, String>,
    /// What each GPU was last said to need, for while the driver can say nothing of it.
    pub(super) verdicts: Verdicts,
    /// How many GPUs there should be.
    pub(super) presence: Presence,
    /// Whether the driver is let go on request.
    pub(super) let_go: LetGo,
    /// How many sessions with the driver have begun: what an earlier one still answers is no news.
    pub(super) sessions: u64,
    /// What NVSwitches have reported.
    pub(super) switches: Switches,
    /// How often the driver could not start a GPU; old drivers do not tell which.
    pub(super) init_failures: BTreeMap<Option<PciAddress>, u64>,
    /// Lines that begin as an Xid or an SXid and are none.
    pub(super) malformed: u64,
}

impl State {
    pub(super) fn new(collectors: Collectors, deadline: Duration) -> Self {
        Self {
            deadline,
            collectors,
            bus: None,
            listening: BTreeMap::new(),
            driver: DriverState::default(),
            gpus: BTreeMap::new(),
            nameless: BTreeMap::new(),
            asking: BTreeMap::new(),
            ledger: Ledger::default(),
            kubelet: None,
            logged_uuids: BTreeMap::new(),
            verdicts: Verdicts::default(),
            presence: Presence::default(),
            let_go: LetGo::No,
            sessions: 0,
            switches: Switches::default(),
            init_failures: BTreeMap::new(),
            malformed: 0,
        }
    }

    /// The GPU that told in this session that it is at an index.
    pub(super) fn place_of(&self, index: u32) -> Option<PciAddress> {
        self.asking.get(&index)?.pci
    }

    /// A call to the driver as a whole begins.
    pub(super) fn driver_asked(&mut self, now: Instant) {
        self.driver.asking_since = Some(now);
    }

    /// It ended well.
    pub(super) fn driver_answered(&mut self, version: String, gpu_count: u32) {
        self.driver = DriverState {
            tried: true,
            version: Some(version),
            cuda_version: self.driver.cuda_version.take(),
            up: true,
            gpu_count,
            error: None,
            asking_since: None,
        };
        self.let_go = LetGo::No;
        self.presence.driver_has(gpu_count);
        self.nameless.retain(|index, _| *index < gpu_count);
    }

    /// It ended badly.
    pub(super) fn driver_failed(&mut self, error: &DriverError) {
        self.remember_missing();
        self.let_go = LetGo::No;
        self.driver = DriverState {
            tried: true,
            error: Some(error.code()),
            // Who a GPU is does not change with the driver's going.
            version: self.driver.version.take(),
            ..DriverState::default()
        };
    }

    /// Why the driver is not up; `None` while it is.
    pub(super) fn driver_error(&self, now: Instant) -> Option<&'static str> {
        match self.driver.asking_since {
            Some(since) if now.duration_since(since) > self.deadline => Some("hung"),
            _ if self.driver.up => None,
            _ => Some(self.driver.error.unwrap_or("not_asked")),
        }
    }

    /// A call for one GPU begins.
    pub(super) fn gpu_asked(&mut self, index: u32, now: Instant) {
        let asking = self.asking.entry(index).or_default();
        asking.since = Some(now);
        asking.began = Some((now, self.verdicts.told()));
    }

    /// The same asking goes on with the next group of calls: the deadline is for each.
    pub(super) fn gpu_asked_on(&mut self, index: u32, now: Instant) {
        self.asking.entry(index).or_default().since = Some(now);
    }

    /// The same, unless one is under way.
    #[cfg(feature = "sim")]
    pub(super) fn gpu_asked_once(&mut self, index: u32, now: Instant) {
        let asking = self.asking.entry(index).or_default();
        asking.since.get_or_insert(now);
        asking.began.get_or_insert((now, self.verdicts.told()));
    }

    /// The driver told who the GPU at an index is.
    pub(super) fn gpu_identified(&mut self, identity: Identity) {
        let pci = identity.pci;
        self.nameless.remove(&identity.index);
        self.presence.driver_has_one_at(pci);
        self.asking.entry(identity.index).or_default().pci = Some(pci);
        // A GPU that was moved to another place leaves nothing behind at the old one.
        self.gpus.retain(|place, gpu| {
            let was_there = *place != pci && gpu.identity.uuid == identity.uuid;
            if was_there {
                self.presence.moved_from(*place);
            }
            !was_there
        });
        match self.gpus.get_mut(&pci) {
            Some(gpu) if gpu.identity.uuid == identity.uuid => gpu.identity = identity,
            before => {
                if before.is_some() {
                    self.replaced(pci, &identity.uuid);
                }
                let gpu = Gpu {
                    identity,
                    health: Health::Failing,
                    asked: None,
                    groups: BTreeMap::new(),
                    failures: BTreeMap::new(),
                };
                self.gpus.insert(pci, gpu);
            }
        }
    }

    /// The asking of one GPU ended.
    pub(super) fn gpu_answered(
        &mut self,
        index: u32,
        result: Result<Sample, DriverError>,
        now: Instant,
        at: Timestamp,
    ) {
        let asking = self.asking.entry(index).or_default();
        asking.since = None;
        let (began, told) = (asking.began.take()).unwrap_or((now, self.verdicts.told()));
        let took = now.duration_since(began);
        // An index that cannot be asked who it is now is the GPU that it was; of several, the one that did not answer before.
        let pci = asking.pci.or_else(|| {
            let before = self.gpus.values().filter(|gpu| gpu.identity.index == index);
            before
                .min_by_key(|gpu| matches!(gpu.health, Health::Up(_)))
                .map(|gpu| gpu.identity.pci)
        });
        let failure = match &result {
            Err(DriverError::Call { call, code } | DriverError::Gone { call, code }) => {
                Some((*call, *code))
            }
            _ => None,
        };
        let mut health = match result {
            Ok(sample) => Health::Up(sample),
            Err(DriverError::GpuLost | DriverError::ResetRequired) => Health::Lost,
            Err(_) => Health::Failing,
        };
        let Some(gpu) = pci.and_then(|pci| self.gpus.get_mut(&pci)) else {
            self.nameless.insert(index, health);
            return;
        };
        let succeeded = matches!(health, Health::Up(_));
        gpu.asked = Some(Outcome::after(gpu.asked, succeeded, took, now, at));
        if let Some(failure) = failure {
            *gpu.failures.entry(failure).or_default() += 1;
        }
        if let Health::Up(sample) = &health {
            for failure in &sample.failures {
                *gpu.failures
                    .entry((failure.call, failure.code))
                    .or_default() += 1;
            }
            if let Some(action) = sample.recovery_action {
                self.verdicts.driver_says(gpu.identity.pci, action, told);
            }
        }
        if let (Health::Up(sample), Health::Up(before)) = (&mut health, &mut gpu.health) {
            sample.fill_from(before);
        }
        gpu.health = health;
    }

    /// The further groups that the same asking was for were answered, or not.
    pub(super) fn groups_answered(
        &mut self,
        index: u32,
        groups: &[Asked],
        now: Instant,
        at: Timestamp,
    ) {
        let place = self.place_of(index);
        let Some(gpu) = place.and_then(|pci| self.gpus.get_mut(&pci)) else {
            return;
        };
        for (group, took, succeeded) in groups {
            let before = gpu.groups.get(group).copied();
            let outcome = Outcome::after(before, *succeeded, *took, now, at);
            gpu.groups.insert(*group, outcome);
            if let Some(asked) = &mut gpu.asked {
                asked.took = asked.took.saturating_sub(*took);
            }
        }
    }

    /// The index is another GPU's now, perhaps: the next asking says whose.
    pub(super) fn session_began(&mut self) {
        self.remember_missing();
        self.sessions += 1;
        for asking in self.asking.values_mut() {
            asking.pci = None;
        }
    }

    /// Whether a GPU that the driver once had is lost, so that only a new session can find it again.
    pub(super) fn any_lost(&self) -> bool {
        let mut gpus = (self.gpus.values()).filter(|gpu| !self.is_handed_over(gpu));
        gpus.any(|gpu| gpu.health == Health::Lost)
            || self.nameless.values().any(|health| *health == Health::Lost)
    }

    /// Whether a call for any GPU is under way for longer than the deadline.
    pub(super) fn any_hung(&self, now: Instant) -> bool {
        self.asking
            .keys()
            .any(|index| self.is_index_hung(*index, now))
    }

    /// Indices that never told who they are; with the lost ones among them marked.
    pub(super) fn nameless(&self, now: Instant) -> BTreeMap<u32, bool> {
        let known = |index: u32| self.gpus.values().any(|gpu| gpu.identity.index == index);
        let hung = self
            .asking
            .keys()
            .filter(|index| self.is_index_hung(**index, now) && !known(**index));
        let answered = self
            .nameless
            .iter()
            .map(|(index, health)| (*index, *health == Health::Lost));
        hung.map(|index| (*index, false)).chain(answered).collect()
    }

    pub(super) fn is_index_hung(&self, index: u32, now: Instant) -> bool {
        let since = self.asking.get(&index).and_then(|asking| asking.since);
        since.is_some_and(|since| now.duration_since(since) > self.deadline)
    }

    /// Whether the call for a GPU hangs.
    pub(super) fn is_hung(&self, gpu: &Gpu, now: Instant) -> bool {
        let by_place = self
            .asking
            .iter()
            .find(|(_, asking)| asking.pci == Some(gpu.identity.pci));
        // Before the driver has told who is at an index, it is who was there before.
        let by_index = || {
            self.asking
                .get_key_value(&gpu.identity.index)
                .filter(|(_, asking)| asking.pci.is_none())
        };
        by_place
            .or_else(by_index)
            .is_some_and(|(index, _)| self.is_index_hung(*index, now))
    }

    /// The sample of a GPU that is up: its last call was answered, not long ago, and no call hangs.
    pub(super) fn current<'a>(&self, gpu: &'a Gpu, now: Instant) -> Option<&'a Sample> {
        let interval = self.collectors.interval(Collector::Nvml);
        let fresh = gpu.asked?.success(interval, self.deadline, now);
        match &gpu.health {
            Health::Up(sample)
                if self.driver.up && fresh && !self.is_hung(gpu, now) && !self.is_missing(gpu) =>
            {
                Some(sample)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "missing_tests.rs"]
mod missing_tests;
#[cfg(test)]
#[path = "state_tests.rs"]
pub(super) mod tests;
