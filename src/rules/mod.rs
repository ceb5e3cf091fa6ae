//! What is a fault: rule files, their lint, and the state of pending and firing alerts. Pure.

pub mod answer;

pub mod promql;
pub mod schedule;
pub mod state;
pub mod subject;
pub mod template;
