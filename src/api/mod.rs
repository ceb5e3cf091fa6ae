//! The custom resources.

pub mod duration;
