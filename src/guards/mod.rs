//! May we act now: three-valued conditions. Pure.

pub mod condition;
pub mod truth;
