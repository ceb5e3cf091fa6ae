//! What each GPU needs, as it was last said of it, for as long as the driver can say nothing newer.

use super::state::{Gpu, State};
use crate::xid::{PciAddress, RecoveryAction};
use std::collections::BTreeMap;
use std::time::Instant;

/// More GPUs than any machine has; what comes beyond is a log full of nonsense.
const MOST_PLACES: usize = 256;

/// The last of each GPU.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdicts {
    /// How many the log has told.
    told: u64,
    /// Each with the number of those that the log had told by then.
    last: BTreeMap<PciAddress, (RecoveryAction, u64)>,
}

impl Verdicts {
    /// How many the log has told: what the driver is asked from now on is newer than those.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// An Xid 154 says it.
    pub(super) fn log_says(&mut self, pci: PciAddress, action: RecoveryAction) {
        self.told += 1;
        if self.last.contains_key(&pci) || self.last.len() < MOST_PLACES {
            self.last.insert(pci, (action, self.told));
        }
    }

    /// The driver answers it to a question that was put when the log had told so many. A verdict that has come since may
    /// be newer than the answer, and stays. That a GPU needs nothing is no longer known once the driver cannot say it.
    pub(super) fn driver_says(&mut self, pci: PciAddress, action: RecoveryAction, told: u64) {
        if self.last.get(&pci).is_some_and(|(_, came)| *came > told) {
            return;
        }
        if action == RecoveryAction::NONE {
            self.last.remove(&pci);
        } else {
            self.last.insert(pci, (action, told));
        }
    }

    /// The last of a GPU.
    pub(super) fn get(&self, pci: PciAddress) -> Option<RecoveryAction> {
        self.last.get(&pci).map(|(action, _)| *action)
    }

    /// Forgets a GPU whose place another has taken.
    pub(super) fn forget(&mut self, pci: PciAddress) {
        self.last.remove(&pci);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.last.len()
    }
}

impl State {
    /// What the GPU needs: as the driver says now, else as it was last said.
    pub(super) fn recovery_action(&self, gpu: &Gpu, now: Instant) -> Option<RecoveryAction> {
        self.current(gpu, now)
            .and_then(|sample| sample.recovery_action)
            .or_else(|| self.verdicts.get(gpu.identity.pci))
    }
}
