//! The house.
pub mod api;
pub mod guards;
pub mod prometheus;
pub mod rules;
