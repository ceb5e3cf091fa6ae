//! `gpu-remediator controller`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::api::PromDuration;
use crate::controller::{self, Settings};
use crate::kubernetes::lease::LeaseSettings;
use crate::prometheus::client::Options;

/// Evaluates rules, opens faults, isolates, evicts, verifies and gives nodes back
#[derive(Debug, clap::Args)]
pub struct ControllerArgs {
    /// Address and port for /metrics, /healthz and /readyz
    #[arg(
        long,
        env = "GPU_REMEDIATOR_LISTEN",
        default_value = "0.0.0.0:9413",
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,
    /// TLS, client certificates and basic authentication for that, in the form of the Prometheus exporters
    #[arg(
        long = "web.config.file",
        env = "GPU_REMEDIATOR_WEB_CONFIG_FILE",
        value_name = "FILE"
    )]
    pub web_config_file: Option<PathBuf>,
    /// Base address of Prometheus, or of anything that speaks its query API
    #[arg(
        long,
        env = "GPU_REMEDIATOR_PROMETHEUS",
        value_name = "URL",
        hide_env_values = true
    )]
    pub prometheus: String,
    /// A file with the bearer token for Prometheus; read at each request
    #[arg(
        long,
        env = "GPU_REMEDIATOR_PROMETHEUS_BEARER_TOKEN_FILE",
        value_name = "FILE"
    )]
    pub prometheus_bearer_token_file: Option<PathBuf>,
    /// How long one question to Prometheus may take
    #[arg(
        long,
        env = "GPU_REMEDIATOR_PROMETHEUS_TIMEOUT",
        default_value = "10s",
        value_name = "DURATION",
        value_parser = duration
    )]
    pub prometheus_timeout: PromDuration,
    /// Namespace of the Lease
    #[arg(
        long,
        env = "GPU_REMEDIATOR_NAMESPACE",
        default_value = "gpu-remediator",
        value_name = "NAMESPACE"
    )]
    pub lease_namespace: String,
    /// Name of the Lease
    #[arg(
        long,
        env = "GPU_REMEDIATOR_LEASE_NAME",
        default_value = "gpu-remediator",
        value_name = "NAME"
    )]
    pub lease_name: String,
    /// Name of this process among the candidates; must be unique. The pod's name, made unique, if not given
    #[arg(long, env = "GPU_REMEDIATOR_IDENTITY", value_name = "NAME")]
    pub identity: Option<String>,
    /// How long other candidates wait after the leader's last sign of life
    #[arg(
        long,
        env = "GPU_REMEDIATOR_LEASE_DURATION",
        default_value = "15s",
        value_name = "DURATION",
        value_parser = duration
    )]
    pub lease_duration: PromDuration,
    /// How long a leader that cannot renew its lease goes on acting
    #[arg(
        long,
        env = "GPU_REMEDIATOR_RENEW_DEADLINE",
        default_value = "10s",
        value_name = "DURATION",
        value_parser = duration
    )]
    pub renew_deadline: PromDuration,
    /// How often the lease is looked at and renewed
    #[arg(
        long,
        env = "GPU_REMEDIATOR_RETRY_PERIOD",
        default_value = "2s",
        value_name = "DURATION",
        value_parser = duration
    )]
    pub retry_period: PromDuration,
    /// How often rule groups that name no interval are evaluated
    #[arg(
        long,
        env = "GPU_REMEDIATOR_EVALUATION_INTERVAL",
        default_value = "5s",
        value_name = "DURATION",
        value_parser = duration
    )]
    pub evaluation_interval: PromDuration,
    /// Namespaces whose pods are never evicted
    #[arg(
        long,
        env = "GPU_REMEDIATOR_PROTECTED_NAMESPACES",
        default_value = "kube-system",
        value_delimiter = ',',
        value_name = "NAMESPACES"
    )]
    pub protected_namespaces: Vec<String>,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// The configuration cannot be used: see [`controller::RunError`].
pub async fn run(args: ControllerArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.prometheus_bearer_token_file {
        // It is read again at each request; but one that is not there at all is a mistake that is better told now.
        std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the bearer token file {}", file.display()))?;
    }
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let stopping = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stopping.cancel();
    });
    let ControllerArgs {
        listen,
        web_config_file,
        prometheus,
        prometheus_bearer_token_file,
        prometheus_timeout,
        lease_namespace,
        lease_name,
        identity,
        lease_duration,
        renew_deadline,
        retry_period,
        evaluation_interval,
        protected_namespaces,
    } = args;
    let mut options = Options::new(prometheus);
    options.bearer_token_file = prometheus_bearer_token_file;
    options.timeout = Duration::from(prometheus_timeout);
    let settings = Settings {
        listen,
        web_config: web_config_file,
        prometheus: options,
        lease: LeaseSettings {
            namespace: lease_namespace,
            name: lease_name,
            identity: identity.unwrap_or_else(own_identity),
            duration: lease_duration.into(),
            renew_deadline: renew_deadline.into(),
            retry_period: retry_period.into(),
        },
        protected_namespaces,
        evaluation_interval: evaluation_interval.into(),
    };
    controller::run(settings, stop).await?;
    Ok(())
}

/// A duration in the form of Prometheus, from 100 ms to an hour. Below, the loops that wait for it would do nothing but ask.
fn duration(text: &str) -> Result<PromDuration, String> {
    let duration: PromDuration = text.parse().map_err(|error| format!("{error}"))?;
    let bounds = Duration::from_millis(100)..=Duration::from_secs(3600);
    if bounds.contains(&duration.as_duration()) {
        Ok(duration)
    } else {
        Err("must be from 100ms to 1h".to_owned())
    }
}

/// The host's name, which in a pod is the pod's, with the process id and the start time: two processes never share it,
/// and a restarted one does not take its predecessor's lease for its own.
fn own_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() {
        "gpu-remediator"
    } else {
        host.trim()
    };
    format!(
        "{host}_{}_{}",
        std::process::id(),
        jiff::Timestamp::now().as_microsecond()
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        controller: ControllerArgs,
    }

    fn parse(flag: &str, value: &str) -> Result<ControllerArgs, String> {
        Command::try_parse_from([
            "controller",
            "--prometheus",
            "http://prometheus:9090",
            flag,
            value,
        ])
        .map(|command| command.controller)
        .map_err(|error| error.to_string())
    }

    #[test]
    fn durations_that_would_make_a_loop_spin_are_refused() {
        for flag in [
            "--retry-period",
            "--evaluation-interval",
            "--prometheus-timeout",
            "--lease-duration",
            "--renew-deadline",
        ] {
            for value in ["0", "0s", "99ms", "2h", "soon"] {
                let error = parse(flag, value).unwrap_err();
                assert!(error.contains(flag), "{error}");
            }
            assert!(
                parse(flag, "0s")
                    .unwrap_err()
                    .contains("must be from 100ms to 1h")
            );
            parse(flag, "100ms").unwrap();
            parse(flag, "1m30s").unwrap();
        }
    }

    #[tokio::test]
    async fn a_bearer_token_file_that_is_not_there_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let args = parse("--prometheus-bearer-token-file", file.to_str().unwrap()).unwrap();
        let error = run(args).await.unwrap_err().to_string();
        assert!(
            error.contains("cannot read the bearer token file"),
            "{error}"
        );
    }
}
