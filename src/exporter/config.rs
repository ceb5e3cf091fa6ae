//! What the node process is told, and why it may not run.

use super::collectors::Collectors;
use crate::http::{BindError, WebConfigError};
use crate::nvml::{DriverSource, ScenarioLog};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What the node process needs to know.
pub struct Config {
    /// Where `/metrics` is served.
    pub listen: SocketAddr,
    /// A file that asks for TLS or basic authentication there.
    pub web_config: Option<PathBuf>,
    /// The node's name, for the label `node`.
    pub node: String,
    /// What is collected, and how often.
    pub collectors: Collectors,
    /// The kernel log: `/dev/kmsg` or a file; `None` where the simulated one takes its place.
    pub kernel_log: Option<PathBuf>,
    /// The kernel log of simulated GPUs, which is read beside the other.
    pub simulated_log: Option<ScenarioLog>,
    /// Where the driver comes from.
    pub driver: Box<dyn DriverSource>,
    /// A driver call that takes longer hangs; the kubelet's answer is waited for as long.
    pub call_deadline: Duration,
    /// How many GPUs there should be, where the operator knows.
    pub expected_gpus: Option<u32>,
    /// Where the kernel shows its devices; `None` where the GPUs are not this machine's.
    pub sysfs: Option<PathBuf>,
    /// Where `/release` is served.
    pub release: Option<ReleaseListener>,
    /// The kubelet's PodResources socket; `None` to leave the kubelet alone.
    pub pod_resources: Option<PathBuf>,
}

/// The listener for requests of this machine alone.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseListener {
    /// An address that only this machine can reach.
    pub address: SocketAddr,
    /// Whether the process is to go on without it where the address is taken.
    pub optional: bool,
}

/// Why the node process cannot run. A missing driver or kernel log is no reason.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The web configuration cannot be used.
    #[error(transparent)]
    WebConfig(#[from] WebConfigError),
    /// The system has no thread left.
    #[error("cannot start the {name} thread")]
    Thread {
        /// What the thread was for.
        name: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}
