//! The Kubernetes API: clients, trimmed views of what it holds, and the few writes that the product makes.

pub mod budgets;
pub mod claims;
pub mod clients;
pub mod events;
pub mod eviction;
pub mod faults;
pub mod lease;
pub mod nodes;
pub mod owners;
pub mod pod_resources;
pub mod pods;
pub mod views;
pub mod watch_backoff;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod lease_tests;
