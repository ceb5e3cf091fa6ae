//! What time it is. Deadlines run on the monotonic clock of the runtime; what is written down for people and compared
//! with Prometheus is wall time, and comes from here, so that a simulation can run on its own.

use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::time::Instant;

/// Where the wall time comes from.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    simulated: Option<Arc<Simulated>>,
}

#[derive(Debug)]
struct Simulated {
    origin: Timestamp,
    began: Instant,
    /// How far this clock is off, in nanoseconds.
    off: AtomicI64,
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that shows `origin` now and goes on with the runtime's monotonic clock, which may be paused.
    #[must_use]
    pub fn starting_at(origin: Timestamp) -> Self {
        let (began, off) = (Instant::now(), AtomicI64::new(0));
        Self {
            simulated: Some(Arc::new(Simulated { origin, began, off })),
        }
    }

    /// Another clock that shows the same time, and jumps by itself.
    #[must_use]
    pub fn fork(&self) -> Self {
        let Some(clock) = &self.simulated else {
            return Self::system();
        };
        let off = AtomicI64::new(clock.off.load(Ordering::Relaxed));
        let (origin, began) = (clock.origin, clock.began);
        Self {
            simulated: Some(Arc::new(Simulated { origin, began, off })),
        }
    }

    /// The wall time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let Some(clock) = &self.simulated else {
            return Timestamp::now();
        };
        let off = SignedDuration::from_nanos(clock.off.load(Ordering::Relaxed));
        let elapsed =
            SignedDuration::try_from(clock.began.elapsed()).unwrap_or(SignedDuration::MAX);
        clock
            .origin
            .saturating_add(elapsed.saturating_add(off))
            .unwrap_or(Timestamp::MAX)
    }

    /// Sets a simulated clock forward, or back, as an operator or a time server may. The machine's clock stays as it is.
    pub fn jump(&self, by: SignedDuration) {
        if let Some(clock) = &self.simulated {
            let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
            clock.off.fetch_add(by, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_goes_with_the_runtime_and_jumps_alone() {
        let origin = Timestamp::UNIX_EPOCH;
        let clock = Clock::starting_at(origin);
        tokio::time::advance(Duration::from_secs(5)).await;
        let other = clock.fork();
        other.jump(SignedDuration::from_secs(-3));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now().duration_since(origin).as_secs(), 6);
        assert_eq!(other.now().duration_since(origin).as_secs(), 3);
    }
}
