//! From a line's own stamp to a time of day.

use super::record::Stamp;
use jiff::{SignedDuration, Timestamp};

/// Where a line was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// From the device, whose records are all of this boot; otherwise from a file, which may hold several boots.
    pub(super) device: bool,
    /// It came while the log was being followed; otherwise it was there before.
    pub(super) live: bool,
    /// For what was in a file that came while the log was followed: what is stamped up to here since boot was seen before.
    pub(super) above: Option<u64>,
}

/// Longer ago than a kernel's clock, which nobody corrects, is off after months.
const LONG_AGO: SignedDuration = SignedDuration::from_mins(10);

/// The time of an event; `None` where nothing tells it.
///
/// A time of day tells it wherever it stands, unless it lies in the future. Microseconds since boot tell it for what the
/// device held before, laid over the clock as it stands now: in a file they may be of any boot, and the kernel's own
/// clock, which nobody corrects, drifts away from the machine's by seconds a day. What came while we looked on came now.
pub(super) fn event_time(
    stamp: Stamp,
    origin: Origin,
    now: Timestamp,
    uptime: impl Fn() -> Option<SignedDuration>,
) -> Option<Timestamp> {
    let told = match stamp {
        Stamp::At(at) => Some(at).filter(|at| *at <= now),
        Stamp::SinceBoot(microseconds) if origin.device && !origin.live => {
            uptime().and_then(|uptime| since_boot(microseconds, now, uptime))
        }
        Stamp::SinceBoot(_) | Stamp::Unknown => None,
    };
    let is_old = match (stamp, origin.above) {
        (Stamp::SinceBoot(microseconds), Some(above)) => {
            let at = uptime().and_then(|uptime| since_boot(microseconds, now, uptime));
            microseconds <= above || at.is_some_and(|at| now.duration_since(at) > LONG_AGO)
        }
        _ => false,
    };
    told.or((origin.live && !is_old).then_some(now))
}

/// A kernel's clock that runs ahead does not put an event into the future.
fn since_boot(microseconds: u64, now: Timestamp, uptime: SignedDuration) -> Option<Timestamp> {
    let since_boot = SignedDuration::from_micros(i64::try_from(microseconds).ok()?);
    let age = uptime.checked_sub(since_boot)?.max(SignedDuration::ZERO);
    now.checked_sub(age).ok()
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

    const DEVICE: Origin = Origin {
        device: true,
        live: false,
        above: None,
    };
    const FILE: Origin = Origin {
        device: false,
        live: false,
        above: None,
    };
    const NOW: &str = "2026-05-10T12:00:00Z";

    fn time(stamp: Stamp, origin: Origin, uptime: Option<SignedDuration>) -> Option<Timestamp> {
        event_time(stamp, origin, at(NOW), || uptime)
    }

    #[test]
    fn what_the_device_held_before_keeps_its_own_time() {
        let uptime = Some(SignedDuration::from_hours(2));
        let stamp = Stamp::SinceBoot(60_000_000);
        assert_eq!(
            time(stamp, DEVICE, uptime),
            Some(at("2026-05-10T10:01:00Z"))
        );
        assert_eq!(time(stamp, DEVICE, None), None);
        // The kernel's clock ran ahead.
        let ahead = Stamp::SinceBoot(2 * 3_600_000_000 + 1);
        assert_eq!(time(ahead, DEVICE, uptime), Some(at(NOW)));
        assert_eq!(time(Stamp::SinceBoot(u64::MAX), DEVICE, uptime), None);
    }

    #[test]
    fn what_a_file_held_before_has_a_time_only_where_it_tells_the_time_of_day() {
        let uptime = Some(SignedDuration::from_hours(2));
        assert_eq!(time(Stamp::Unknown, FILE, uptime), None);
        // Of an earlier boot, whether that was longer or shorter than this one.
        for microseconds in [60_000_000, 9_999_999_123_456] {
            assert_eq!(time(Stamp::SinceBoot(microseconds), FILE, uptime), None);
        }
        let told = at("2026-05-01T00:00:00Z");
        assert_eq!(time(Stamp::At(told), FILE, uptime), Some(told));
        let future = Stamp::At(at("2027-01-01T00:00:00Z"));
        assert_eq!(time(future, FILE, uptime), None);
    }

    #[test]
    fn what_comes_while_the_log_is_followed_comes_now_however_far_the_kernels_clock_is_off() {
        // Seventy days at 50 millionths are 302 seconds.
        let uptime = Some(SignedDuration::from_hours(70 * 24));
        let behind = Stamp::SinceBoot((70 * 24 * 3600 - 302) * 1_000_000);
        for device in [true, false] {
            let live = Origin {
                device,
                live: true,
                above: None,
            };
            for stamp in [
                behind,
                Stamp::Unknown,
                Stamp::SinceBoot(u64::MAX),
                Stamp::At(at("2027-01-01T00:00:00Z")),
            ] {
                assert_eq!(time(stamp, live, uptime), Some(at(NOW)), "{stamp:?}");
            }
            // Something wrote an old part of the log once more.
            let told = at("2026-05-01T00:00:00Z");
            assert_eq!(time(Stamp::At(told), live, uptime), Some(told));
        }
    }

    #[test]
    fn what_was_in_a_file_that_came_is_new_only_if_its_stamp_is() {
        let uptime = Some(SignedDuration::from_hours(2));
        let minutes_ago = |minutes: u64| Stamp::SinceBoot((120 - minutes) * 60_000_000);
        let came = |above| Origin {
            device: false,
            live: true,
            above: Some(above),
        };
        assert_eq!(time(minutes_ago(1), came(0), uptime), Some(at(NOW)));
        assert_eq!(time(minutes_ago(11), came(0), uptime), None);
        assert_eq!(time(minutes_ago(1), came(119 * 60_000_000), uptime), None);
        assert_eq!(time(Stamp::Unknown, came(0), uptime), Some(at(NOW)));
    }

    #[test]
    fn this_machine_has_been_up() {
        assert!(uptime().unwrap() > SignedDuration::ZERO);
    }
}
