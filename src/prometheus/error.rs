//! Why a query has no answer.

use std::time::Duration;

use jiff::Timestamp;

use crate::rules::answer::{Unknown, UnknownReason};

/// What went wrong with a query. No variant holds an address with credentials or a header.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No connection, or it broke.
    #[error("Prometheus at {address} cannot be reached: {message}")]
    Unreachable {
        /// The address without credentials.
        address: String,
        /// The innermost cause.
        message: String,
    },
    /// No complete answer within the time allowed.
    #[error("no answer within {}s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The server wants other credentials (401, 403).
    #[error("Prometheus refused the request with status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// The server does not understand the query (400).
    #[error("bad query: {0}")]
    BadData(String),
    /// The query was understood but failed (422), for example by many-to-many matching or too many samples.
    #[error("the query failed: {0}")]
    Execution(String),
    /// The answer may lack data: a federated store was missing, or the server warned.
    #[error("the answer is partial: {0}")]
    Partial(String),
    /// The answer is larger than the limit, in bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The server, or something before it, cannot answer now (5xx, 429, 499).
    #[error("Prometheus is unavailable, status {status}: {message}")]
    Unavailable {
        /// The HTTP status.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// The body is not in the form of the query API.
    #[error("the answer is not in the form of the query API: {0}")]
    BadAnswer(String),
    /// The result has a type that does not answer the question.
    #[error("the result is a {0}, not a vector or scalar")]
    WrongResultType(String),
    /// The clocks of this process and of Prometheus differ, so that it was asked about another time than now.
    #[error(
        "the clocks differ: it is {theirs} for Prometheus and {ours} here; keep the time of both machines synchronised"
    )]
    ClockSkew {
        /// When it answered, as it says itself, in whole seconds.
        theirs: Timestamp,
        /// When that arrived.
        ours: Timestamp,
    },
    /// The credentials could not be read, so that nothing was sent.
    #[error("cannot read the bearer token file")]
    Credentials(#[source] std::io::Error),
}

impl QueryError {
    /// The reason out of the closed list.
    pub fn reason(&self) -> UnknownReason {
        match self {
            Self::Unreachable { .. } => UnknownReason::Unreachable,
            Self::TimedOut(_) => UnknownReason::TimedOut,
            Self::Refused { .. } | Self::Credentials(_) => UnknownReason::Refused,
            Self::BadData(_) => UnknownReason::BadQuery,
            Self::Execution(_) => UnknownReason::ExecutionFailed,
            Self::Partial(_) => UnknownReason::Partial,
            Self::TooLarge(_) => UnknownReason::TooLarge,
            Self::Unavailable { .. } => UnknownReason::Unavailable,
            Self::BadAnswer(_) => UnknownReason::BadAnswer,
            Self::WrongResultType(_) => UnknownReason::WrongResultType,
            Self::ClockSkew { .. } => UnknownReason::ClockSkew,
        }
    }

    /// Whether Prometheus itself spoke, in the form of its query API and about this query. A proxy that refuses, a page in HTML
    /// an answer beyond the limit and one about another time say nothing of it.
    pub fn is_answered(&self) -> bool {
        match self {
            Self::BadData(_) | Self::Execution(_) | Self::Partial(_) | Self::WrongResultType(_) => {
                true
            }
            Self::Unreachable { .. }
            | Self::TimedOut(_)
            | Self::Refused { .. }
            | Self::TooLarge(_)
            | Self::Unavailable { .. }
            | Self::BadAnswer(_)
            | Self::ClockSkew { .. }
            | Self::Credentials(_) => false,
        }
    }
}

impl From<QueryError> for Unknown {
    fn from(error: QueryError) -> Self {
        Self::new(error.reason(), error.to_string())
    }
}
