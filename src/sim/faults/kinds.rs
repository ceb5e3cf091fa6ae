//! The kinds of faults.

use std::time::Duration;

use super::asked::Asked;
use crate::sim::api_server::Verb;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// On a call of the Kubernetes API.
    Call(CallFault),
    /// On an event of a watch.
    Frame(FrameFault),
    /// On a question to Prometheus.
    Query(QueryFault),
}

/// What may befall a call of the Kubernetes API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// 409: somebody else was faster. Legal on updates and on patches that are no apply; a creation answers 409 only for
    /// a name that exists, and an eviction only for a pod with another UID.
    Conflict,
    /// 410: what is asked from is too long ago. Legal when a watch begins, and on further pages of a list.
    Gone,
    /// 429 by the server's flow control, with `Retry-After`, or by a proxy, without. Legal on every verb; an eviction
    /// gets one from its budget as well, which is the server's own business.
    TooMany {
        /// Seconds in `Retry-After`.
        retry_after: Option<u32>,
    },
    /// 500. Legal on every verb; nothing is applied.
    Internal,
    /// 503. Legal on every verb; nothing is applied.
    Unavailable,
    /// The request is lost on the way: nothing is applied and nothing is answered. Legal on every verb.
    NoAnswer,
    /// The connection is refused or reset before the server read the request. Legal on every verb.
    Refused,
    /// The server applies the request, and the connection breaks before the answer. Not on watches, which have frames.
    CutAfter,
    /// The server applies the request, and the answer never comes. Not on watches.
    SilentAfter,
    /// The request takes so long to reach the server. Legal on every verb.
    Delay(Duration),
}

impl CallFault {
    /// Can a real server, or the way to it, do this to such a request?
    #[must_use]
    pub fn may_hit(self, asked: &Asked) -> bool {
        match self {
            Self::Conflict => match asked.verb {
                Verb::Update => true,
                Verb::Patch => !asked.applies,
                _ => false,
            },
            Self::Gone => {
                asked.verb == Verb::Watch || (asked.verb == Verb::List && asked.continues)
            }
            Self::CutAfter | Self::SilentAfter => asked.verb != Verb::Watch,
            Self::TooMany { .. }
            | Self::Internal
            | Self::Unavailable
            | Self::NoAnswer
            | Self::Refused
            | Self::Delay(_) => true,
        }
    }
}

/// What may befall an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// It is left out. A real watch ends sooner or later after that: this one is told 410 within a minute, and the client
    /// lists again.
    Drop,
    /// It comes late, and with it all that follow.
    Delay(Duration),
    /// It comes twice.
    Duplicate,
    /// It changes places with the next, which is about another object: there is no order between objects.
    Reorder,
    /// The connection breaks before it.
    Cut,
}

/// What may befall a question to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryFault {
    /// No connection.
    Refused,
    /// 500.
    Internal,
    /// 503, as Prometheus answers while it starts.
    Unavailable,
    /// Never answered.
    NoAnswer,
    /// A complete-looking answer with a warning that a store was missing, as Thanos gives it.
    Warning,
    /// An answer that is marked partial, as VictoriaMetrics does.
    Partial,
    /// Every value is NaN.
    NotANumber,
    /// The data is so many seconds old: ingestion lags behind. A server either lags or not: take it with share 1. Less than
    /// the lookback of five minutes: with data that is older a real server finds nothing, as in `Empty`.
    Lagging(u32),
    /// Nothing is found, as after a restart without data. A server either has its data or not: take it with share 1.
    Empty,
    /// A page in HTML, with status 200.
    Garbage,
    /// The first half of the answer.
    CutShort,
}
