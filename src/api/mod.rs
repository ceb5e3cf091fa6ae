//! The custom resources.

pub mod duration;
pub mod rule;
