//! `gpu-remediator`: closes the loop between a GPU fault and a healthy GPU.

/// The command line.
pub mod cli;
/// One module per subcommand.
pub mod commands;
/// The node process.
pub mod exporter;
/// The endpoints.
pub mod http;
/// The kernel log.
pub mod kmsg;
/// The GPU driver.
pub mod nvml;
/// Log and build information.
pub mod telemetry;
/// What the driver said: kernel-log grammar and Xid catalogue. Pure.
pub mod xid;
