//! `gpu-remediator exporter`.

use crate::exporter::{self, Config};
use crate::nvml::{DriverSource, Library, SimulatedGpus};
use anyhow::Context;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Serves what the GPU driver and the kernel log tell, as metrics
#[derive(Debug, clap::Args)]
pub struct ExporterArgs {
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
    /// Kernel log: the device, or a file that something else writes it to
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
    /// Simulate so many healthy GPUs, without any driver
    #[arg(long, env = "GPU_EXPORTER_SIMULATE", value_name = "COUNT", conflicts_with = "nvml",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub simulate: Option<u32>,
    /// Time between two askings of each GPU
    #[arg(long, env = "GPU_EXPORTER_INTERVAL", default_value = "1s", value_name = "DURATION", value_parser = duration)]
    pub interval: Duration,
    /// A driver call that takes longer counts as hung
    #[arg(long, env = "GPU_EXPORTER_CALL_DEADLINE", default_value = "5s", value_name = "DURATION", value_parser = duration)]
    pub call_deadline: Duration,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// The address cannot be listened on, or the system has no threads or signals to give.
pub async fn run(args: ExporterArgs) -> anyhow::Result<()> {
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
    let driver: Box<dyn DriverSource> = match args.simulate {
        Some(count) => Box::new(SimulatedGpus::new(count, &args.node_name)),
        None => Box::new(Library { path: args.nvml }),
    };
    exporter::run(
        Config {
            listen: args.listen,
            web_config: args.web_config_file,
            node: args.node_name,
            kernel_log: args.kmsg,
            driver,
            interval: args.interval,
            call_deadline: args.call_deadline,
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
    fn durations() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for text in ["", "1", "soon", "-1s", "0s", "2h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
