//! The cluster process.

pub mod evaluator;
pub mod opening;
pub mod rule_group;
pub mod rule_metrics;
pub mod rule_status;
