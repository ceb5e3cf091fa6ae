//! The house.
pub mod api;
pub mod commands;
pub mod guards;
pub mod prometheus;
pub mod rules;
