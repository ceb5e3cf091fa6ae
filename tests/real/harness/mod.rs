//! The ground that the tests stand on: real servers on free ports, ended with
//! the test that started them, and the product beside them with the rights of
//! the chart's roles and nothing else.

pub(crate) mod alertmanager;
pub(crate) mod audit;
pub(crate) mod chart;
pub(crate) mod cluster;
pub(crate) mod control_plane;
pub(crate) mod kubeconfig;
pub(crate) mod nodes;
pub(crate) mod parts;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod product;
pub(crate) mod prometheus;
pub(crate) mod tools;
pub(crate) mod wait;
pub(crate) mod webhook;
pub(crate) mod workload;
