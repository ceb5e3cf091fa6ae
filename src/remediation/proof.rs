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

/// What one process has seen of one question. The object alone does not tell: a look that ended a proof may not have been
/// written, because the API server refused the write or because another look came first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    query: String,
    last: Timestamp,
    /// Since when every look has said that it holds, without a gap.
    pub unbroken_since: Option<Timestamp>,
}

impl Watched {
    /// One more look. Another query, for example because the policy was edited, is another question.
    pub fn after(before: Option<&Self>, query: &str, holds: Option<bool>, at: Timestamp) -> Self {
        let unbroken = before.filter(|before| {
            let gap = at.duration_since(before.last);
            before.query == query && (SignedDuration::ZERO..=LONGEST_GAP).contains(&gap)
        });
        let since = unbroken.and_then(|before| before.unbroken_since);
        Self {
            query: query.to_owned(),
            last: at,
            unbroken_since: (holds == Some(true)).then(|| since.unwrap_or(at)),
        }
    }
}

/// Since when the proof has held, given since when it had held before this finding. An answer that has grown old proves
/// nothing about now.
pub fn since(before: Option<Timestamp>, finding: &Finding, now: Timestamp) -> Option<Timestamp> {
    if finding.holds != Some(true) || now.duration_since(finding.asked_at) > LONGEST_GAP {
        return None;
    }
    let unbroken = finding.unbroken_since?;
    match before {
        Some(since) if since >= unbroken && since <= finding.asked_at => Some(since),
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

    /// A look, where every second since `unbroken` was looked at and held.
    fn finding(holds: Option<bool>, asked: i64, unbroken: Option<i64>) -> Finding {
        Finding {
            holds,
            detail: String::new(),
            asked_at: at(asked),
            unbroken_since: unbroken.map(at).filter(|_| holds == Some(true)),
        }
    }

    #[test]
    fn it_counts_from_the_first_look() {
        assert_eq!(
            since(None, &finding(Some(true), 5, Some(5)), at(5)),
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
            since(Some(at(1)), &finding(Some(true), 500, Some(500)), at(500)),
            Some(at(500))
        );
    }

    /// What the looks of one process make of each other.
    fn watched(looks: &[(i64, &str, Option<bool>)]) -> Option<i64> {
        let mut watched: Option<Watched> = None;
        for (second, query, holds) in looks {
            watched = Some(Watched::after(watched.as_ref(), query, *holds, at(*second)));
        }
        let since = watched?.unbroken_since?;
        Some(since.as_second() - 1_000)
    }

    #[test]
    fn looks_are_unbroken_as_long_as_each_holds_and_follows_soon() {
        let yes = Some(true);
        assert_eq!(watched(&[(1, "q", yes)]), Some(1));
        assert_eq!(
            watched(&[(1, "q", yes), (9, "q", yes), (24, "q", yes)]),
            Some(1)
        );
        assert_eq!(watched(&[(1, "q", yes), (17, "q", yes)]), Some(17));
        for holds in [None, Some(false)] {
            assert_eq!(watched(&[(1, "q", yes), (2, "q", holds)]), None);
            let looks = [(1, "q", yes), (2, "q", holds), (3, "q", yes)];
            assert_eq!(watched(&looks), Some(3));
        }
        assert_eq!(watched(&[(1, "q", yes), (2, "other", yes)]), Some(2));
        assert_eq!(watched(&[(9, "q", yes), (2, "q", yes)]), Some(2));
    }

    /// The look that ended the proof was not written: the object still says that it holds since the 1st second.
    #[test]
    fn what_was_seen_counts_although_it_could_not_be_written() {
        let lost_no = finding(Some(true), 9, Some(8));
        assert_eq!(since(Some(at(1)), &lost_no, at(9)), Some(at(9)));
        let lost_gap = finding(Some(true), 301, Some(300));
        assert_eq!(since(Some(at(1)), &lost_gap, at(301)), Some(at(301)));
    }

    #[test]
    fn an_old_answer_proves_nothing() {
        let old = finding(Some(true), 6, Some(1));
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
