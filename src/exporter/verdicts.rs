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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::exporter::state::tests::{at, healthy, identity, sample};
    use crate::nvml::DriverError;
    use crate::xid::Parser;

    #[test]
    fn the_log_tells_the_verdict_only_while_the_driver_cannot() {
        let (mut state, now) = healthy();
        let line = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)";
        state.observe(Parser::default().parse(line).next().unwrap(), Some(at(1)));
        let action = |state: &State, now| {
            let gpu = state.gpus.values().next().unwrap();
            state.recovery_action(gpu, now).map(|action| action.0)
        };
        assert_eq!(
            action(&state, now),
            Some(0),
            "the driver's own answer is newer"
        );
        state.gpu_answered(0, Err(DriverError::GpuLost), now, at(2));
        assert_eq!(action(&state, now), Some(2));
        state.gpu_answered(0, Ok(sample(Some(0))), now, at(3));
        state.gpu_answered(0, Err(DriverError::GpuLost), now, at(4));
        assert_eq!(
            action(&state, now),
            None,
            "an old verdict does not come back"
        );
        state.observe(Parser::default().parse(line).next().unwrap(), None);
        assert_eq!(
            action(&state, now),
            None,
            "one that may be of an earlier boot is none"
        );
    }

    #[test]
    fn what_a_gpu_needs_is_still_known_when_it_is_lost() {
        let (mut state, now) = healthy();
        let line = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)";
        let verdict = |state: &mut State| {
            state.observe(Parser::default().parse(line).next().unwrap(), Some(at(1)));
        };
        let when_lost = |state: &mut State| {
            state.gpu_answered(0, Err(DriverError::GpuLost), now, at(3));
            let gpu = state.gpus.values().next().unwrap();
            state.recovery_action(gpu, now).map(|action| action.0)
        };
        let answer = |state: &mut State, action| {
            state.gpu_asked(0, now);
            state.gpu_answered(0, Ok(sample(Some(action))), now, at(2));
        };
        answer(&mut state, 2);
        assert_eq!(when_lost(&mut state), Some(2), "the driver said it");
        answer(&mut state, 0);
        assert_eq!(when_lost(&mut state), None, "that it is well is no news");
        verdict(&mut state);
        answer(&mut state, 2);
        assert_eq!(when_lost(&mut state), Some(2), "both said it");
        answer(&mut state, 0);
        state.gpu_asked(0, now);
        verdict(&mut state);
        state.gpu_answered(0, Ok(sample(Some(0))), now, at(2));
        assert_eq!(
            when_lost(&mut state),
            Some(2),
            "the answer may be older than the verdict"
        );
        state.gpu_identified(identity(0, "GPU-c", "0000:3b:00"));
        assert_eq!(when_lost(&mut state), None, "another GPU is in its place");
    }
}
