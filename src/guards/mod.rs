//! May we act now: three-valued conditions and the budget. Pure.

pub mod budget;
pub mod condition;
mod data;
#[cfg(test)]
mod failure_cases_tests;
mod question;
pub mod truth;
