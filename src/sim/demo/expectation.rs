//! What a scenario says about its end, and whether it came so.

use serde::Serialize;

/// One sentence about the end or the course of the story, and whether it is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expectation {
    /// The sentence.
    pub what: String,
    /// Whether it is true.
    pub holds: bool,
    /// What was found instead; empty when it holds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub found: String,
}

/// The expectations of a scenario, as they are looked at.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    all: Vec<Expectation>,
}

impl Expectations {
    /// Adds one; `found` says what there is, for the case that it does not hold.
    pub fn expect(&mut self, what: impl Into<String>, holds: bool, found: impl std::fmt::Display) {
        let found = if holds {
            String::new()
        } else {
            found.to_string()
        };
        let what = what.into();
        self.all.push(Expectation { what, holds, found });
    }

    /// Adds one about two values that must be the same.
    pub fn same<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: impl Into<String>,
        found: &T,
        wanted: &T,
    ) {
        let text = format!("{found:?} instead of {wanted:?}");
        self.expect(what, found == wanted, text);
    }

    /// All of them, in order.
    #[must_use]
    pub fn into_vec(self) -> Vec<Expectation> {
        self.all
    }
}
