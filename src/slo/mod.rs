//! How well: which pod replaces which, and how long recovery took. Pure.

pub mod matching;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod matching_tests;
