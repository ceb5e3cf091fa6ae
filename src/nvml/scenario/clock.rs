//! How long a scenario has been played.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A wait that has no end is looked at again after so long.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The time since the start. It runs by itself, or it stands where a test has set it.
#[derive(Debug)]
pub(super) struct SimulationClock {
    began: Instant,
    set: Mutex<Option<Duration>>,
    changed: Condvar,
}

impl SimulationClock {
    /// A clock that runs from now on.
    pub(super) fn start() -> Self {
        Self {
            began: Instant::now(),
            set: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    /// How long it has been.
    pub(super) fn elapsed(&self) -> Duration {
        self.lock().unwrap_or_else(|| self.began.elapsed())
    }

    /// Waits until it has been so long.
    pub(super) fn wait_until(&self, at: Duration) {
        let mut set = self.lock();
        loop {
            let left = match *set {
                Some(elapsed) if elapsed < at => LONGEST_WAIT,
                Some(_) => Duration::ZERO,
                None => at.saturating_sub(self.began.elapsed()),
            };
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(set, left.min(LONGEST_WAIT));
            (set, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sets it; from then on it stands.
    #[cfg(test)]
    pub(super) fn set(&self, elapsed: Duration) {
        *self.lock() = Some(elapsed);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Duration>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
