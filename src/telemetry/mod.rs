//! What the program says of itself: its log and its build. Used by the exporter and the controller.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How to log.
#[derive(Debug, Clone, clap::Args)]
pub struct LogOptions {
    /// Form of the log, which is written to standard error
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t, global = true)]
    pub log_format: LogFormat,
    /// What is logged: a level, or directives such as `info,gpu_remediator::kmsg=debug`. Not given: what an operator wants to
    /// know, and nothing where the output is for people to read
    #[arg(long, env = "LOG_LEVEL", value_name = "FILTER", global = true)]
    pub log_level: Option<String>,
}

/// What is logged when nothing else is asked for. The Kubernetes client logs whole answers, with whatever they hold; its
/// errors reach our own log without.
pub const OPERATION: &str = "info,kube_runtime=warn,kube_client=off";

/// Logs nothing, for commands whose output is what their user wants to read.
pub const SILENCE: &str = "off";

/// Why logging cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is neither a level nor a list of directives.
    #[error("{0:?} is no log level and no list of directives")]
    Filter(String, #[source] tracing_subscriber::filter::ParseError),
    /// Something else of this process logs already.
    #[error("logging has begun already")]
    Begun(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Begins to log to standard error, at this level if the options name none.
///
/// # Errors
///
/// The options cannot be understood, or logging has begun already.
pub fn start_logging(options: &LogOptions, by_default: &str) -> Result<(), LogError> {
    let level = options.log_level.as_deref().unwrap_or(by_default);
    let filter =
        EnvFilter::try_new(level).map_err(|error| LogError::Filter(level.to_owned(), error))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match options.log_format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    }
    .map_err(LogError::Begun)
}

/// Registers `gpu_remediator_build_info`, which is always 1 and carries the version as a label.
pub fn register_build_info(registry: &mut Registry) {
    let info = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    info.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
        .set(1);
    registry.register(
        "gpu_remediator_build_info",
        "Always 1; the version of this program as a label",
        info,
    );
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_version_is_a_label() {
        let mut registry = Registry::default();
        register_build_info(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::prometheus_text::encode(&mut text, &registry).unwrap();
        let expected = format!(
            "gpu_remediator_build_info{{version=\"{}\"}} 1\n",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn a_bad_level_is_refused() {
        let options = LogOptions {
            log_format: LogFormat::Text,
            log_level: Some("gpu_remediator=loud".into()),
        };
        assert!(matches!(
            start_logging(&options, OPERATION),
            Err(LogError::Filter(_, _))
        ));
    }
}
