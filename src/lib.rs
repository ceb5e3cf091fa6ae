//! The house.
pub mod api;
