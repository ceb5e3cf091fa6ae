//! What is a fault: rule files, their lint, and the state of pending and firing alerts. Pure.

pub mod activation;
pub mod alert;
pub mod answer;
mod element;
#[cfg(test)]
mod failure_cases_tests;
mod fields;
pub mod file;
pub mod identity;
pub mod lint;
mod policy;
pub mod problem;
pub mod promql;
mod reader;
pub mod schedule;
pub mod shipped;
pub mod state;
pub mod subject;
mod syntax;
pub mod template;
mod tree;
