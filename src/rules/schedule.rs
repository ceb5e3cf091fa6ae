//! When a group is evaluated: slots spread over the interval, missed slots skipped.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

/// The evaluation slots of one group.
///
/// Groups with the same interval are evaluated at different moments of it, so that Prometheus is not asked everything at
/// once. The moment depends only on the names, so that it is the same after a restart and on every replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    interval: i128,
    offset: i128,
}

impl Schedule {
    /// The slots of group `group` of object `object`. An interval below 1 ms counts as 1 ms.
    pub fn new(object: &str, group: &str, interval: Duration) -> Self {
        let interval = i128::try_from(interval.as_nanos())
            .unwrap_or(i128::MAX)
            .max(1_000_000);
        let mut hash = Sha256::new();
        hash.update(object.as_bytes());
        hash.update([0]);
        hash.update(group.as_bytes());
        let hash = hash
            .finalize()
            .iter()
            .take(8)
            .fold(0_i128, |number, byte| number << 8 | i128::from(*byte));
        Self {
            interval,
            offset: hash % interval,
        }
    }

    /// The first slot after `now`. Asking with the present time skips every slot that was missed.
    pub fn next(&self, now: Timestamp) -> Timestamp {
        let since = now.as_nanosecond() - self.offset;
        let next = (since.div_euclid(self.interval) + 1) * self.interval + self.offset;
        // Beyond the year 9999 there is no slot; the end of time is later than every present.
        Timestamp::from_nanosecond(next).unwrap_or(Timestamp::MAX)
    }

    /// How many slots lie after `last` and before `now`'s own slot: evaluations that did not take place.
    pub fn missed(&self, last: Timestamp, now: Timestamp) -> u64 {
        let slots = (now.as_nanosecond() - last.as_nanosecond()) / self.interval;
        u64::try_from(slots.saturating_sub(1)).unwrap_or(0)
    }

    /// The time between two slots.
    pub fn interval(&self) -> SignedDuration {
        let nanoseconds = i64::try_from(self.interval).unwrap_or(i64::MAX);
        SignedDuration::from_nanos(nanoseconds)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_next_slot_is_within_one_interval_and_on_the_grid(
            seconds in 0_i64..4_000_000_000, nanos in 0_i32..1_000_000_000, interval in 1_u64..3_600_000
        ) {
            let schedule = Schedule::new("rule", "group", Duration::from_millis(interval));
            let now = Timestamp::new(seconds, nanos).unwrap();
            let next = schedule.next(now);
            prop_assert!(next > now);
            prop_assert!(next.duration_since(now) <= schedule.interval());
            prop_assert_eq!(schedule.next(next).duration_since(next), schedule.interval());
        }
    }

    #[test]
    fn groups_are_spread_and_each_keeps_its_place() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let slot = |group: &str| Schedule::new("r", group, Duration::from_secs(60)).next(now);
        assert_eq!(slot("a"), slot("a"));
        let slots: std::collections::BTreeSet<_> =
            (0..50).map(|group| slot(&group.to_string())).collect();
        assert!(slots.len() > 45, "{slots:?}");
    }

    #[test]
    fn missed_slots_are_counted_not_caught_up() {
        let schedule = Schedule::new("r", "g", Duration::from_secs(10));
        let first = schedule.next(Timestamp::from_second(1_000).unwrap());
        let late = first + SignedDuration::from_secs(35);
        assert_eq!(schedule.missed(first, late), 2);
        assert_eq!(
            schedule.next(late).duration_since(first),
            SignedDuration::from_secs(40)
        );
    }
}
