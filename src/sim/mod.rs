//! A cluster that lives in the process, on a clock that can be paused, under the real clients, controller and exporter:
//! for the demo and for tests that run whole clusters by the thousand.
//!
//! ```text
//! api_server   a tower::Service under kube::Client
//! world        scheduler, workload controllers, kubelets, GPUs
//! prometheus   scrapes the exporter's pages; its query API, evaluated by tsink
//! faults       a seeded injector between the clients and the servers
//! promises     promises 1 to 12 as checks over every write
//! run          joins them: worlds, crash points, seeds
//! demo         the story that is told on a terminal
//! ```

pub mod api_server;
pub mod demo;
pub mod faults;
pub mod prometheus;
pub mod promises;
pub mod run;
pub mod world;
