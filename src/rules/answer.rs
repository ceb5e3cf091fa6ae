//! What a query returned, or why that is not known.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

/// The labels of a series.
pub type Labels = BTreeMap<String, String>;

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampleValue {
    /// A float. It may be NaN or infinite.
    Float(f64),
    /// A native histogram, which no comparison with a number can judge.
    Histogram,
}

/// One sample of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The labels of the series, `__name__` included where the result has it.
    pub labels: Labels,
    /// The value.
    pub value: SampleValue,
    /// The time of the sample, which for an instant query is the time that was asked for.
    pub at: Timestamp,
}

impl Sample {
    /// The value, unless it is NaN or a histogram.
    pub fn number(&self) -> Option<f64> {
        match self.value {
            SampleValue::Float(value) if !value.is_nan() => Some(value),
            SampleValue::Float(_) | SampleValue::Histogram => None,
        }
    }
}

/// What kind of result a query has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultType {
    /// Series with one sample each.
    Vector,
    /// One number without labels.
    Scalar,
    /// Series with many samples each.
    Matrix,
    /// A text.
    String,
}

impl fmt::Display for ResultType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Vector => "vector",
            Self::Scalar => "scalar",
            Self::Matrix => "range vector",
            Self::String => "string",
        })
    }
}

/// A complete answer to an instant query.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Vector or scalar; other kinds are no answer to a question about now.
    pub result_type: ResultType,
    /// The samples; a scalar has exactly one, without labels.
    pub samples: Vec<Sample>,
    /// Remarks of the server that do not make the answer doubtful.
    pub infos: Vec<String>,
}

/// Why a question has no answer. A closed list: it is a label of metrics and a reason on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnknownReason {
    /// No connection to Prometheus.
    Unreachable,
    /// Prometheus did not answer in time.
    TimedOut,
    /// Prometheus refused the credentials.
    Refused,
    /// Prometheus does not understand the query.
    BadQuery,
    /// Prometheus could not execute the query.
    ExecutionFailed,
    /// The answer may lack data.
    Partial,
    /// The answer is larger than the limit.
    TooLarge,
    /// Prometheus, or something before it, cannot answer now.
    Unavailable,
    /// The answer is not in the form of the query API.
    BadAnswer,
    /// The result is neither a vector nor a scalar.
    WrongResultType,
    /// The clocks of this process and of Prometheus differ.
    ClockSkew,
    /// A metric that the expression needs does not exist.
    NoData,
    /// A value is NaN.
    NotANumber,
    /// A value is a native histogram.
    Histogram,
    /// The expression cannot be taken apart, so that its falsehood, or a proof by it, cannot be shown.
    NotUnderstood,
    /// Two series have the same labels once the name is dropped.
    DuplicateLabelSet,
    /// The rule has more alerts than its limit.
    LimitExceeded,
    /// A template could not be expanded.
    TemplateFailed,
    /// The last evaluation is too old.
    TooOld,
}

impl UnknownReason {
    /// Every reason, to initialise metrics with.
    pub const ALL: [Self; 19] = [
        Self::Unreachable,
        Self::TimedOut,
        Self::Refused,
        Self::BadQuery,
        Self::ExecutionFailed,
        Self::Partial,
        Self::TooLarge,
        Self::Unavailable,
        Self::BadAnswer,
        Self::WrongResultType,
        Self::ClockSkew,
        Self::NoData,
        Self::NotANumber,
        Self::Histogram,
        Self::NotUnderstood,
        Self::DuplicateLabelSet,
        Self::LimitExceeded,
        Self::TemplateFailed,
        Self::TooOld,
    ];

    /// The reason in the form that conditions use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "PrometheusUnreachable",
            Self::TimedOut => "QueryTimedOut",
            Self::Refused => "QueryRefused",
            Self::BadQuery => "BadQuery",
            Self::ExecutionFailed => "QueryFailed",
            Self::Partial => "PartialAnswer",
            Self::TooLarge => "AnswerTooLarge",
            Self::Unavailable => "PrometheusUnavailable",
            Self::BadAnswer => "BadAnswer",
            Self::WrongResultType => "WrongResultType",
            Self::ClockSkew => "ClockSkew",
            Self::NoData => "NoData",
            Self::NotANumber => "NotANumber",
            Self::Histogram => "HistogramSample",
            Self::NotUnderstood => "NotUnderstood",
            Self::DuplicateLabelSet => "DuplicateLabelSet",
            Self::LimitExceeded => "LimitExceeded",
            Self::TemplateFailed => "TemplateFailed",
            Self::TooOld => "EvaluationTooOld",
        }
    }
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The absence of knowledge: it neither opens nor closes anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Unknown {
    /// The reason out of the closed list.
    pub reason: UnknownReason,
    /// What exactly happened, for people. Holds no credentials.
    pub detail: String,
}

impl Unknown {
    /// An Unknown with its reason and a text for people.
    pub fn new(reason: UnknownReason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn reasons_are_distinct_words() {
        let words: BTreeSet<_> = UnknownReason::ALL
            .iter()
            .map(|reason| reason.as_str())
            .collect();
        assert_eq!(words.len(), UnknownReason::ALL.len());
        assert!(
            words
                .iter()
                .all(|word| word.chars().all(|letter| letter.is_ascii_alphabetic()))
        );
    }
}
