//! Proof that must hold for some time without a gap. Only positive evidence counts, and only where somebody looked.

use jiff::{SignedDuration, Timestamp};

use super::world::Finding;

/// Two looks that are further apart than this leave a gap: what happened in between is unknown.
pub const LONGEST_GAP: SignedDuration = SignedDuration::from_secs(15);

/// The shortest time between two questions of one fault.
pub const SHORTEST_POLL: SignedDuration = SignedDuration::from_secs(1);

/// The longest time between two questions while one waits for the answer to change. Metrics are seldom newer than that.
pub const LONGEST_POLL: SignedDuration = SignedDuration::from_secs(5);

/// The longest time between two questions while a proof holds: with the time that an answer may take it must stay well
/// below [`LONGEST_GAP`].
const LONGEST_POLL_OF_A_PROOF: SignedDuration = SignedDuration::from_secs(4);

/// How long to wait before the next question, given since when the answer has been waited for: a tenth of that, so that
/// what comes soon is seen at once, and what takes hours does not cost Prometheus a query each second.
pub fn next_poll(waiting_since: Option<Timestamp>, now: Timestamp) -> SignedDuration {
    let waited = waiting_since.map_or(SignedDuration::ZERO, |since| now.duration_since(since));
    (waited / 10).clamp(SHORTEST_POLL, LONGEST_POLL)
}

/// The same for a proof that must hold for a time: it is looked at when that time is over.
pub fn next_look(
    waiting_since: Option<Timestamp>,
    proven_since: Option<Timestamp>,
    hold: SignedDuration,
    now: Timestamp,
) -> SignedDuration {
    let next = next_poll(waiting_since, now);
    proven_since.map_or(next, |since| {
        let left = hold - now.duration_since(since);
        let next = next.min(LONGEST_POLL_OF_A_PROOF);
        next.min(left.max(SignedDuration::from_millis(100)))
    })
}

/// Since when the proof has held, given since when it had held before this finding. An answer that has grown old proves
/// nothing about now.
pub fn since(before: Option<Timestamp>, finding: &Finding, now: Timestamp) -> Option<Timestamp> {
    if finding.holds != Some(true) || now.duration_since(finding.asked_at) > LONGEST_GAP {
        return None;
    }
    let watched = finding
        .asked_before
        .is_some_and(|previous| finding.asked_at.duration_since(previous) <= LONGEST_GAP);
    match before {
        Some(since) if watched && since <= finding.asked_at => Some(since),
        _ => Some(finding.asked_at),
    }
}

/// The proof that has held since then is complete.
pub fn is_complete(since: Option<Timestamp>, hold: SignedDuration, finding: &Finding) -> bool {
    since.is_some_and(|since| finding.asked_at.duration_since(since) >= hold)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap()
    }

    fn finding(holds: Option<bool>, asked: i64, before: Option<i64>) -> Finding {
        Finding {
            holds,
            detail: String::new(),
            asked_at: at(asked),
            asked_before: before.map(at),
        }
    }

    #[test]
    fn it_counts_from_the_first_look() {
        assert_eq!(
            since(None, &finding(Some(true), 5, None), at(5)),
            Some(at(5))
        );
        assert_eq!(
            since(Some(at(5)), &finding(Some(true), 6, Some(5)), at(6)),
            Some(at(5))
        );
        assert!(is_complete(
            Some(at(5)),
            SignedDuration::from_secs(2),
            &finding(Some(true), 7, Some(6))
        ));
        assert!(!is_complete(
            Some(at(5)),
            SignedDuration::from_secs(3),
            &finding(Some(true), 7, Some(6))
        ));
    }

    #[test]
    fn what_takes_long_is_asked_for_less_often() {
        let seconds = |waited: i64| next_poll(Some(at(0)), at(waited)).as_secs();
        assert_eq!(next_poll(None, at(5)), SHORTEST_POLL);
        assert_eq!([0, 5, 30, 50, 9999].map(seconds), [1, 1, 3, 5, 5]);
        // A clock that was set back.
        assert_eq!(next_poll(Some(at(500)), at(5)), SHORTEST_POLL);
    }

    #[test]
    fn a_proof_is_looked_at_without_a_gap_and_when_its_time_is_over() {
        let hold = SignedDuration::from_secs(60);
        let next = |since: i64, now: i64| next_look(Some(at(0)), Some(at(since)), hold, at(now));
        assert_eq!(next(900, 901), SignedDuration::from_secs(4));
        assert_eq!(next(900, 959), SignedDuration::from_secs(1));
        assert_eq!(next(900, 960), SignedDuration::from_millis(100));
        assert_eq!(next_look(Some(at(0)), None, hold, at(900)), LONGEST_POLL);
        // Even where each answer takes ten seconds.
        assert!(LONGEST_POLL_OF_A_PROOF + SignedDuration::from_secs(10) < LONGEST_GAP);
    }

    #[test]
    fn unknown_and_false_start_it_anew() {
        assert_eq!(since(Some(at(1)), &finding(None, 5, Some(4)), at(5)), None);
        assert_eq!(
            since(Some(at(1)), &finding(Some(false), 5, Some(4)), at(5)),
            None
        );
    }

    #[test]
    fn nobody_looked_while_the_controller_was_down() {
        assert_eq!(
            since(Some(at(1)), &finding(Some(true), 500, None), at(500)),
            Some(at(500))
        );
        assert_eq!(
            since(Some(at(1)), &finding(Some(true), 500, Some(1)), at(500)),
            Some(at(500))
        );
    }

    #[test]
    fn an_old_answer_proves_nothing() {
        let old = finding(Some(true), 6, Some(5));
        assert_eq!(since(Some(at(1)), &old, at(21)), Some(at(1)));
        assert_eq!(since(Some(at(1)), &old, at(22)), None);
    }

    #[test]
    fn a_clock_that_was_set_back_starts_it_anew() {
        assert_eq!(
            since(Some(at(900)), &finding(Some(true), 5, Some(4)), at(5)),
            Some(at(5))
        );
    }
}
