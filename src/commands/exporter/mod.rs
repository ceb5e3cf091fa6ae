//! `gpu-remediator exporter`.

mod collectors;
mod print_config;

pub use collectors::CollectorArgs;
pub use print_config::Origins;

use crate::exporter::{self, Config, ReleaseListener};
use crate::nvml::{DriverSource, Library, Scenario, ScenarioDriver, ScenarioLog, SimulatedGpus};
use anyhow::Context;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Serves what the GPU driver and the kernel log tell, as metrics
#[derive(Debug, clap::Args)]
pub struct ExporterArgs {
    /// Where each of these values is from; it stands first because each value is taken away once it is read
    #[command(flatten)]
    pub origins: Origins,
    /// Address and port for /metrics, /healthz and /readyz; port 0 takes a free one, which the log tells
    #[arg(
        long,
        env = "GPU_EXPORTER_LISTEN",
        default_value = "0.0.0.0:9412",
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,
    /// TLS, client certificates and basic authentication, in the form of the Prometheus exporters
    #[arg(
        long = "web.config.file",
        env = "GPU_EXPORTER_WEB_CONFIG_FILE",
        value_name = "FILE"
    )]
    pub web_config_file: Option<PathBuf>,
    /// Name of this node, for the label `node`
    #[arg(long, env = "NODE_NAME", value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub node_name: String,
    /// Kernel log: the device, or a file that something else writes it to; a scenario has its own instead of the default
    #[arg(
        long,
        env = "GPU_EXPORTER_KMSG",
        default_value = "/dev/kmsg",
        value_name = "PATH"
    )]
    pub kmsg: PathBuf,
    /// Driver library; found by the dynamic linker where not given
    #[arg(long, env = "GPU_EXPORTER_NVML", value_name = "PATH")]
    pub nvml: Option<PathBuf>,
    /// How many GPUs this node should have; the most that were seen, where not given
    #[arg(long, env = "GPU_EXPORTER_EXPECTED_GPUS", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=1024))]
    pub expected_gpus: Option<u32>,
    /// Where the kernel shows its devices: a GPU that it sees and the driver does not have is told of
    #[arg(
        long,
        env = "GPU_EXPORTER_SYSFS",
        default_value = "/sys",
        value_name = "PATH"
    )]
    pub sysfs: PathBuf,
    /// Address for POST /release, with which somebody on this machine has the driver let go for a GPU reset; loopback only [default: 127.0.0.1:9414, if it is free; `none` for no such address]
    #[arg(long, env = "GPU_EXPORTER_RELEASE_LISTEN", value_name = "ADDRESS", value_parser = release_address)]
    pub release_listen: Option<ReleaseAddress>,
    /// Simulate so many healthy GPUs, without any driver; or those of a scenario file, with what happens to them
    #[arg(long, env = "GPU_EXPORTER_SIMULATE", value_name = "FILE|COUNT", conflicts_with = "nvml", value_parser = simulate)]
    pub simulate: Option<Simulate>,
    /// A driver call that takes longer counts as hung; the kubelet's answer is waited for as long
    #[arg(long, env = "GPU_EXPORTER_CALL_DEADLINE", default_value = "5s", value_name = "DURATION", value_parser = duration)]
    pub call_deadline: Duration,
    /// Socket of the kubelet's PodResources API, which says which pods hold GPUs; an empty value leaves the kubelet alone
    #[arg(
        long,
        env = "GPU_EXPORTER_POD_RESOURCES_SOCKET",
        default_value = "/var/lib/kubelet/pod-resources/kubelet.sock",
        value_name = "PATH"
    )]
    pub pod_resources_socket: OsString,
    /// Which sources are read, and how often
    #[command(flatten)]
    pub collectors: CollectorArgs,
    /// Print what it would run with as YAML, and where each value is from, and end
    #[arg(long)]
    pub print_config: bool,
}

/// What is simulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Simulate {
    /// So many healthy GPUs.
    Healthy(u32),
    /// What a file says.
    Scenario(PathBuf),
}

/// A count, or else the path of a file.
fn simulate(text: &str) -> Result<Simulate, String> {
    if text.is_empty() {
        return Err("neither a count of GPUs nor a scenario file".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Simulate::Scenario(text.into()));
    }
    let count = text.parse().ok().filter(|count| (1..=64).contains(count));
    let count = count.ok_or_else(|| "a count must be from 1 to 64".to_owned())?;
    Ok(Simulate::Healthy(count))
}

/// Where `/release` is to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseAddress {
    /// Nowhere.
    None,
    /// There.
    At(SocketAddr),
}

/// Where `/release` is served if nobody says otherwise and the port is free.
const DEFAULT_RELEASE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9414));

/// A loopback address and a port, or `none`.
fn release_address(text: &str) -> Result<ReleaseAddress, String> {
    if text == "none" {
        return Ok(ReleaseAddress::None);
    }
    let address: SocketAddr = text.parse().map_err(|_| {
        "not an address and a port such as 127.0.0.1:9414, and not `none`".to_owned()
    })?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "{} can be reached from other machines; only 127.0.0.1 and [::1] may be used",
            address.ip()
        ));
    }
    Ok(ReleaseAddress::At(address))
}

fn release_listener(asked: Option<ReleaseAddress>) -> Option<ReleaseListener> {
    match asked {
        None => Some(ReleaseListener {
            address: DEFAULT_RELEASE,
            optional: true,
        }),
        Some(ReleaseAddress::None) => None,
        Some(ReleaseAddress::At(address)) => Some(ReleaseListener {
            address,
            optional: false,
        }),
    }
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// The scenario cannot be used, the address cannot be listened on, or the system has no threads or signals to give.
pub async fn run(args: ExporterArgs) -> anyhow::Result<()> {
    if args.print_config {
        return print_config::write(&args, &mut std::io::stdout().lock());
    }
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    tokio::spawn({
        let stop = stop.clone();
        async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("ending");
            stop.cancel();
        }
    });
    // Simulated GPUs are on no bus.
    let sysfs = args.simulate.is_none().then_some(args.sysfs);
    let (mut kernel_log, mut simulated_log) = (Some(args.kmsg), None);
    let mut expected_gpus = args.expected_gpus;
    let driver: Box<dyn DriverSource> = match args.simulate {
        Some(Simulate::Scenario(path)) => {
            let scenario = Scenario::read(&path)?;
            expected_gpus = expected_gpus.or(scenario.expected_gpus());
            let simulation = scenario.play(&args.node_name);
            simulated_log = Some(ScenarioLog::new(Arc::clone(&simulation)));
            // That of the machine is about other GPUs.
            kernel_log = kernel_log.filter(|_| !args.origins.is_default("kmsg"));
            Box::new(ScenarioDriver::new(simulation))
        }
        Some(Simulate::Healthy(count)) => Box::new(SimulatedGpus::new(count, &args.node_name)),
        None => Box::new(Library { path: args.nvml }),
    };
    exporter::run(
        Config {
            listen: args.listen,
            web_config: args.web_config_file,
            node: args.node_name,
            kernel_log,
            simulated_log,
            driver,
            collectors: args.collectors.0,
            call_deadline: args.call_deadline,
            expected_gpus,
            sysfs,
            release: release_listener(args.release_listen),
            pod_resources: Some(args.pod_resources_socket)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
        },
        stop,
    )
    .await?;
    Ok(())
}

/// A duration such as `500ms`, `1s` or `1m30s`, from 10 ms to an hour.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "not a duration such as 500ms, 1s or 1m30s".to_owned())?;
    let duration =
        Duration::try_from(parsed).map_err(|_| "a duration cannot be negative".to_owned())?;
    if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&duration) {
        return Err("must be from 10ms to 1h".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_release_is_asked_for_on_this_machine_alone() {
        let at = |text: &str| release_address(text);
        assert_eq!(
            at("127.0.0.1:9414"),
            Ok(ReleaseAddress::At(DEFAULT_RELEASE))
        );
        assert!(at("[::1]:0").is_ok());
        assert_eq!(at("none"), Ok(ReleaseAddress::None));
        assert!(at("0.0.0.0:9414").unwrap_err().contains("other machines"));
        assert!(at("9414").unwrap_err().contains("127.0.0.1:9414"));
    }

    #[test]
    fn what_is_no_number_is_a_scenario_file() {
        assert_eq!(simulate("8"), Ok(Simulate::Healthy(8)));
        assert_eq!(
            simulate("8.yaml"),
            Ok(Simulate::Scenario(PathBuf::from("8.yaml")))
        );
        for text in ["", "0", "65", "99999999999"] {
            assert!(simulate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for text in ["", "1", "soon", "-1s", "0s", "2h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
