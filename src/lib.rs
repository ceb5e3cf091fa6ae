//! gpu-remediator closes the loop between a GPU fault and a healthy GPU again, on Kubernetes, with Prometheus as its
//! only judge.
//!
//! Pure rooms decide, adapters talk, processes join; imports go one way, and `tests/architecture.rs` holds that:
//!
//! ```text
//! api  xid  rules  guards  remediation  slo  yaml              pure: no clock, no async, no client
//! prometheus  kubernetes  nvml  kmsg  http  telemetry  clock   adapters: one outside thing each
//! exporter  controller                                         the two processes
//! sim                                                          a cluster that lives in the process, for demo and tests
//! commands  cli  main                                          one file per subcommand
//! ```

pub mod api;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod controller;
pub mod exporter;
pub mod guards;
pub mod http;
pub mod kmsg;
pub mod kubernetes;
pub mod nvml;
pub mod prometheus;
pub mod remediation;
pub mod rules;
#[cfg(feature = "sim")]
pub mod sim;
pub mod slo;
pub mod telemetry;
pub mod xid;
pub mod yaml;
