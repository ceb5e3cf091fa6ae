//! How long a watch waits before it is opened again.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// The first wait.
const SHORTEST: Duration = Duration::from_millis(400);

/// The longest wait. kube's own goes to 30 s and, with its jitter, to a minute: after an outage of the API server the
/// product would be blind for longer than the outage lasted, with nodes waiting to be given back. Half a dozen watches
/// that ask every 5 s burden no API server.
const LONGEST: Duration = Duration::from_secs(5);

/// Doubles from 400 ms to 5 s, and begins anew after each success.
#[derive(Debug)]
pub struct WatchBackoff {
    next: Duration,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self { next: SHORTEST }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        self.next = (now * 2).min(LONGEST);
        Some(now)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.next = SHORTEST;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_a_few_seconds_and_begins_anew_after_a_success() {
        let mut backoff = WatchBackoff::default();
        let waits: Vec<u128> = (0..6)
            .map(|_| backoff.next().unwrap().as_millis())
            .collect();
        assert_eq!(waits, [400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next(), Some(SHORTEST));
    }
}
