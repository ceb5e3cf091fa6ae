//! May we act now: three-valued conditions and the budget. Pure.

pub mod budget;
pub mod condition;
mod question;
pub mod truth;
