//! Whether this process and Prometheus agree on what time it is.
//!
//! A question names a time. A process whose clock is behind asks about the past, and takes a GPU that was healthy then for one
//! that is healthy now; one whose clock is ahead finds nothing, or less and less.

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{DATE, HeaderMap};

use super::error::QueryError;

/// How far apart the clocks may be. Machines that keep their time differ by milliseconds, and samples are seconds old anyway.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);
/// The header `Date` leaves out the fraction.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

static PARSER: DateTimeParser = DateTimeParser::new();

/// Whether an answer was given between the sending of its question and its arrival, as our clock shows them. An answer that
/// does not say when it was given is believed.
///
/// # Errors
///
/// [`QueryError::ClockSkew`].
pub(super) fn compare(
    headers: &HeaderMap,
    sent: Timestamp,
    arrived: Timestamp,
) -> Result<(), QueryError> {
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let Some(theirs) = date.and_then(|date| PARSER.parse_timestamp(date).ok()) else {
        return Ok(());
    };
    let behind = theirs.duration_since(arrived) > TOLERANCE;
    let ahead = sent.duration_since(theirs) > TOLERANCE + ROUNDING;
    if behind || ahead {
        return Err(QueryError::ClockSkew {
            theirs,
            ours: arrived,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use reqwest::header::HeaderValue;

    fn agree(date: &str, sent: &str, arrived: &str) -> bool {
        let headers = HeaderMap::from_iter([(DATE, HeaderValue::from_str(date).unwrap())]);
        compare(&headers, sent.parse().unwrap(), arrived.parse().unwrap()).is_ok()
    }

    const DATE_OF_ANSWER: &str = "Thu, 01 Jan 2026 06:00:30 GMT";

    #[test]
    fn an_answer_lies_between_question_and_arrival_but_for_a_few_seconds() {
        for (sent, arrived, expected) in [
            ("2026-01-01T06:00:30Z", "2026-01-01T06:00:30.1Z", true),
            ("2026-01-01T06:00:20Z", "2026-01-01T06:00:40Z", true),
            // The fraction is left out.
            ("2026-01-01T06:00:35.9Z", "2026-01-01T06:00:36Z", true),
            ("2026-01-01T06:00:36.1Z", "2026-01-01T06:00:36.2Z", false),
            ("2026-01-01T06:00:24Z", "2026-01-01T06:00:25Z", true),
            ("2026-01-01T06:00:24Z", "2026-01-01T06:00:24.9Z", false),
            ("2026-01-01T05:52:50Z", "2026-01-01T05:52:51Z", false),
        ] {
            assert_eq!(
                agree(DATE_OF_ANSWER, sent, arrived),
                expected,
                "{sent} {arrived}"
            );
        }
    }

    #[test]
    fn who_does_not_say_the_time_is_believed() {
        let now = Timestamp::UNIX_EPOCH;
        assert!(compare(&HeaderMap::new(), now, now).is_ok());
        let at = "1970-01-01T00:00:00Z";
        for date in ["", "yesterday", "Thu, 41 Jan 2026 06:00:30 GMT"] {
            assert!(agree(date, at, at), "{date}");
        }
    }

    #[test]
    fn both_times_are_told() {
        let headers = HeaderMap::from_iter([(DATE, HeaderValue::from_static(DATE_OF_ANSWER))]);
        let ours = "2026-01-01T05:52:50Z".parse().unwrap();
        let told = compare(&headers, ours, ours).unwrap_err().to_string();
        assert!(
            told.contains("2026-01-01T06:00:30Z") && told.contains("2026-01-01T05:52:50Z"),
            "{told}"
        );
    }
}
