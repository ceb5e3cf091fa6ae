//! Cases that happened to others, as tests that are named after their ids: see `docs/failure-cases.md`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cluster;
mod drains;
mod limits;
mod metrics;
mod shipped_rules;
mod table;
