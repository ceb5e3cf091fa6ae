//! Three-valued truth.

use crate::rules::answer::{Unknown, UnknownReason};

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It is shown to hold.
    True,
    /// It is shown not to hold.
    False,
    /// Neither is shown.
    Unknown,
}

impl Truth {
    /// True when both are, False when one is (Kleene).
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::True, Self::True) => Self::True,
            _ => Self::Unknown,
        }
    }

    /// True when one is, False when both are (Kleene).
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.negate().and(other.negate()).negate()
    }

    /// True for False and the other way round; Unknown stays.
    #[must_use]
    pub fn negate(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
        }
    }
}

/// A judgement with what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether the condition holds.
    pub truth: Truth,
    /// Why it is not known; absent when it is.
    pub reason: Option<UnknownReason>,
    /// One sentence for people.
    pub detail: String,
    /// The value of the first sample of the result, where there is one with a number.
    pub value: Option<f64>,
}

impl Verdict {
    /// The condition holds.
    pub fn held(detail: impl Into<String>, value: Option<f64>) -> Self {
        Self {
            truth: Truth::True,
            reason: None,
            detail: detail.into(),
            value,
        }
    }

    /// The condition does not hold.
    pub fn not_held(detail: impl Into<String>, value: Option<f64>) -> Self {
        Self {
            truth: Truth::False,
            reason: None,
            detail: detail.into(),
            value,
        }
    }

    /// Whether the condition holds.
    pub fn is_true(&self) -> bool {
        self.truth == Truth::True
    }

    /// Whether the condition is shown not to hold.
    pub fn is_false(&self) -> bool {
        self.truth == Truth::False
    }
}

impl From<Unknown> for Verdict {
    fn from(unknown: Unknown) -> Self {
        Self {
            truth: Truth::Unknown,
            reason: Some(unknown.reason),
            detail: unknown.detail,
            value: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn truth() -> impl Strategy<Value = Truth> {
        prop_oneof![Just(Truth::True), Just(Truth::False), Just(Truth::Unknown)]
    }

    proptest! {
        #[test]
        fn knowing_more_never_turns_one_answer_into_the_other(a in truth(), b in truth(), known in any::<bool>()) {
            let known = if known { Truth::True } else { Truth::False };
            for (guess, later) in [
                (Truth::Unknown.and(b), known.and(b)),
                (Truth::Unknown.or(b), known.or(b)),
            ] {
                prop_assert!(guess == Truth::Unknown || guess == later);
            }
            prop_assert_eq!(a.and(b), b.and(a));
            prop_assert_eq!(a.or(b), b.or(a));
            prop_assert_eq!(a.negate().negate(), a);
        }
    }
}
