//! The Prometheus query API. Adapter.

pub mod client;
mod clocks;
pub mod condition;
pub mod error;
pub mod response;
