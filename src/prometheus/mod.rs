//! The Prometheus query API. Adapter.

pub mod client;
pub mod condition;
pub mod error;
pub mod response;
