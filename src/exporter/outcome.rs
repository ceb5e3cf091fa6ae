//! How collections went.

use super::schedule::fresh;
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// How the last collection went, and when one last went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    ended: Instant,
    /// How long it took.
    pub(super) took: Duration,
    succeeded: bool,
    /// When one last succeeded.
    pub(super) last_success: Option<Timestamp>,
}

impl Outcome {
    /// A collection ended, after what was before.
    pub(super) fn after(
        before: Option<Self>,
        succeeded: bool,
        took: Duration,
        now: Instant,
        at: Timestamp,
    ) -> Self {
        let last_success = if succeeded {
            Some(at)
        } else {
            before.and_then(|before| before.last_success)
        };
        Self {
            ended: now,
            took,
            succeeded,
            last_success,
        }
    }

    /// Whether it succeeded, and is not so old that another should have ended since.
    pub(super) fn success(&self, interval: Duration, deadline: Duration, now: Instant) -> bool {
        self.succeeded && now.duration_since(self.ended) <= fresh(interval, deadline)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_success_grows_old_and_a_failure_keeps_the_time_of_the_last_success() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let good = Outcome::after(None, true, second, start, at(0));
        assert!(good.success(5 * second, second, start + 11 * second));
        assert!(!good.success(5 * second, second, start + 12 * second));
        let bad = Outcome::after(Some(good), false, 2 * second, start + second, at(1));
        assert!(!bad.success(5 * second, second, start + second));
        assert_eq!((bad.last_success, bad.took), (Some(at(0)), 2 * second));
        let never = Outcome::after(None, false, second, start, at(2));
        assert_eq!(never.last_success, None);
    }
}
