//! The product on real servers: etcd, kube-apiserver, kube-scheduler,
//! kube-controller-manager, kwok as kubelets, Prometheus and Alertmanager.
//!
//! Run with the folder that `tests/parts/build.sh` prints:
//!
//! ```text
//! GPU_REMEDIATOR_PARTS=DIR cargo test --features real-parts --test real -- --test-threads=1
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod alert_rules;
mod chart;
mod chart_monitoring;
mod chart_values;
mod chart_web_config;
mod contract;
mod custom_resources;
mod exposition;
mod ground;
mod harness;
mod promql;
mod scenarios;
