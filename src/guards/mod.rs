//! May we act now: the budget. Pure.

pub mod budget;
