//! The cluster process: evaluates rules, admits faults, executes steps, tracks displaced pods, gives nodes back.

pub mod caches;
pub mod context;
pub mod displaced;
pub mod evaluator;
pub mod execute;
pub mod fault_metrics;
pub mod guard_book;
mod judge;
pub mod metrics;
pub mod nudges;
pub mod observe;
pub mod open;
pub mod opening;
pub mod pod_watches;
pub mod reconcile;
pub mod rule_group;
pub mod rule_metrics;
pub mod rule_status;
pub mod run;
pub mod serve;
pub mod watches;

pub use run::{Outside, RunError, Settings, run, run_in};
