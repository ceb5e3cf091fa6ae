//! Durations as Prometheus writes them: `5m`, `1h30m`, `1d`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use promql_parser::util::{display_duration, parse_duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What the API server holds a duration to. Every unit may appear once, the larger before the smaller.
const PATTERN: &str = r"^(0|([0-9]{1,2}y)?([0-9]{1,3}w)?([0-9]{1,4}d)?([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?([0-9]{1,9}ms)?)$";

/// Prometheus keeps durations as 64-bit nanoseconds, which end shortly after 292 years.
const LONGEST: Duration = Duration::from_nanos(i64::MAX as u64);

/// A duration in the form of Prometheus rule files, `[0-9]+(ms|[smhdwy])` once or several times, or `0`.
///
/// A day always has 24 hours, a week 7 days and a year 365 days, as in Prometheus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromDuration(Duration);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is empty.
    #[error("a duration must not be empty")]
    Empty,
    /// A number without a unit, such as `300`.
    #[error("`{0}` has no unit; write for example `{0}s`")]
    NoUnit(String),
    /// Something else than digits and units in falling order.
    #[error("`{0}` is not a duration; write for example `30s`, `5m` or `1h30m`")]
    Malformed(String),
    /// Longer than the 292 years that Prometheus can hold.
    #[error("`{0}` is longer than Prometheus can hold (292 years)")]
    TooLong(String),
}

impl PromDuration {
    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The length as the standard library's type.
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    /// The length as a signed duration, to be added to and taken from timestamps.
    pub fn as_signed(self) -> SignedDuration {
        // Only `From<Duration>` can hold more than `LONGEST`; clamping keeps the conversion total.
        SignedDuration::try_from(self.0).unwrap_or(SignedDuration::MAX)
    }

    /// Whether the length is zero.
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl From<Duration> for PromDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<PromDuration> for Duration {
    fn from(duration: PromDuration) -> Self {
        duration.0
    }
}

impl FromStr for PromDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(DurationError::Empty);
        }
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let malformed = || DurationError::Malformed(text.to_owned());
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(DurationError::NoUnit(text.to_owned()));
        }
        // The parser also takes floating-point seconds, which rule files do not, panics on negative ones, and
        // reads a number beyond 32 bits as nothing at all.
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"ywdhms".contains(&byte))
        {
            return Err(malformed());
        }
        let numbers = || {
            text.split(|character: char| !character.is_ascii_digit())
                .filter(|digits| !digits.is_empty())
        };
        if numbers().any(|digits| digits.parse::<u32>().is_err()) {
            return Err(DurationError::TooLong(text.to_owned()));
        }
        // The parser refuses a zero; Prometheus takes `0s`. One in place of each zero tells whether the form is right.
        if numbers().all(|digits| digits.bytes().all(|byte| byte == b'0')) {
            let ones: String = text.replace('0', "1");
            return parse_duration(&ones)
                .map(|_| Self(Duration::ZERO))
                .map_err(|_| malformed());
        }
        let duration = parse_duration(text).map_err(|_| malformed())?;
        if duration > LONGEST {
            return Err(DurationError::TooLong(text.to_owned()));
        }
        Ok(Self(duration))
    }
}

impl fmt::Display for PromDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&display_duration(&self.0))
    }
}

impl Serialize for PromDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PromDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl JsonSchema for PromDuration {
    fn schema_name() -> Cow<'static, str> {
        "PromDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A duration as Prometheus writes it, for example 30s, 5m or 1h30m.",
            "pattern": PATTERN,
            "minLength": 1,
            "maxLength": 64,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_prometheus_reads() {
        for (text, seconds) in [
            ("0", 0),
            ("0s", 0),
            ("0h0m", 0),
            ("30s", 30),
            ("5m", 300),
            ("1h30m", 5_400),
            ("1d", 86_400),
            ("10m0s", 600),
        ] {
            assert_eq!(
                text.parse::<PromDuration>().unwrap(),
                PromDuration::from_secs(seconds),
                "{text}"
            );
        }
        assert_eq!(
            "1s500ms".parse::<PromDuration>().unwrap().as_duration(),
            Duration::from_millis(1500)
        );
    }

    #[test]
    fn refuses_what_prometheus_refuses() {
        for text in [
            "", "300", "5 m", "P1D", "-5m", "1.5h", "5m1h", "nan", "inf", "1e5", "m", "0s0s", "5x",
        ] {
            assert!(text.parse::<PromDuration>().is_err(), "{text:?} was taken");
        }
        assert_eq!(
            "99999999999s".parse::<PromDuration>(),
            Err(DurationError::TooLong("99999999999s".into()))
        );
        assert_eq!(
            "300y".parse::<PromDuration>(),
            Err(DurationError::TooLong("300y".into()))
        );
    }

    #[test]
    fn a_number_without_a_unit_says_how_to_mend_it() {
        let error = "300".parse::<PromDuration>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`300` has no unit; write for example `300s`"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(milliseconds in 0u64..=i64::MAX as u64 / 1_000_000) {
            let duration = PromDuration::from(Duration::from_millis(milliseconds));
            prop_assert_eq!(duration.to_string().parse::<PromDuration>().unwrap(), duration);
            let json = serde_json::to_string(&duration).unwrap();
            prop_assert_eq!(serde_json::from_str::<PromDuration>(&json).unwrap(), duration);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<PromDuration>();
        }
    }
}
