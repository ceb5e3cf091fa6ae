//! From a line's own stamp to a time of day.

use super::record::Stamp;
use jiff::{SignedDuration, Timestamp};

/// The time of an event.
///
/// A stamp that counts from boot is laid over the clock as it stands now, so that a clock that was set after boot is
/// followed. A stamp in the future is a log of another boot or another clock: such a line is as old as `written`, the
/// latest time at which it can have been written.
pub(super) fn event_time(
    stamp: Stamp,
    now: Timestamp,
    uptime: Option<SignedDuration>,
    written: Timestamp,
) -> Timestamp {
    let told = match stamp {
        Stamp::At(at) => Some(at),
        Stamp::SinceBoot(microseconds) => uptime.and_then(|uptime| {
            let since_boot = SignedDuration::from_micros(i64::try_from(microseconds).ok()?);
            now.checked_sub(uptime.checked_sub(since_boot)?).ok()
        }),
        Stamp::Unknown => None,
    };
    told.unwrap_or(written).min(written)
}

/// How long the machine has been up; `None` where the kernel does not tell.
pub(super) fn uptime() -> Option<SignedDuration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    SignedDuration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn history_keeps_its_own_time() {
        let now = at("2026-05-10T12:00:00Z");
        let uptime = Some(SignedDuration::from_hours(2));
        assert_eq!(
            event_time(Stamp::SinceBoot(60_000_000), now, uptime, now),
            at("2026-05-10T10:01:00Z")
        );
    }

    #[test]
    fn without_a_stamp_it_is_as_old_as_the_file() {
        let now = at("2026-05-10T12:00:00Z");
        let written = at("2026-05-10T11:00:00Z");
        assert_eq!(event_time(Stamp::Unknown, now, None, written), written);
        assert_eq!(event_time(Stamp::SinceBoot(1), now, None, written), written);
    }

    #[test]
    fn nothing_comes_from_the_future() {
        let now = at("2026-05-10T12:00:00Z");
        assert_eq!(
            event_time(Stamp::At(at("2027-01-01T00:00:00Z")), now, None, now),
            now
        );
        assert_eq!(
            event_time(
                Stamp::SinceBoot(u64::MAX),
                now,
                Some(SignedDuration::from_secs(1)),
                now
            ),
            now
        );
    }

    #[test]
    fn this_machine_has_been_up() {
        assert!(uptime().unwrap() > SignedDuration::ZERO);
    }
}
