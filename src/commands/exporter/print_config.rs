//! `--print-config`: what the exporter would run with, and where each value is from.

use super::ExporterArgs;
use super::collectors::{DISABLE_DEFAULTS, interval_of, on, said_by};
use crate::exporter::Collector;
use crate::telemetry::LogOptions;
use anyhow::Context;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::io::Write;

/// Where each value is from, in the order of the help.
#[derive(Debug, Clone)]
pub struct Origins(Vec<Origin>);

#[derive(Debug, Clone)]
struct Origin {
    /// The flag, without its dashes.
    name: String,
    value: Option<String>,
    /// `default`, the flag, or the environment variable.
    from: String,
}

/// Where a value is from that nobody gave.
const DEFAULT: &str = "default";
/// Never a setting of its own.
const NOT_SETTINGS: [&str; 3] = ["print-config", "help", "version"];

impl Origins {
    /// Whether nobody gave a setting, so that its default is used.
    pub(super) fn is_default(&self, name: &str) -> bool {
        let origin = self.0.iter().find(|origin| origin.name == name);
        origin.is_some_and(|origin| origin.from == DEFAULT)
    }
}

impl Args for Origins {
    // It has no argument of its own: it looks at the others.
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Origins {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let command =
            ExporterArgs::augment_args(LogOptions::augment_args(Command::new("exporter")));
        let settings = command.get_arguments().filter_map(|arg| {
            let name = arg.get_long().filter(|name| !NOT_SETTINGS.contains(name))?;
            let id = arg.get_id().as_str();
            // What is said of logging is said before the subcommand, and perhaps was not passed on to it.
            if arg.is_hide_set() || matches.try_contains_id(id).is_err() {
                return None;
            }
            let value = matches.get_raw(id).and_then(|mut values| values.next());
            let collector = Collector::ALL
                .into_iter()
                .find(|collector| on(*collector) == name);
            let from = match (collector, matches.value_source(id)) {
                (Some(collector), _) => said_by(matches, collector).map(|(_, by)| by),
                (None, Some(ValueSource::CommandLine)) => Some(format!("--{name}")),
                (None, Some(ValueSource::EnvVariable)) => arg
                    .get_env()
                    .map(|variable| variable.to_string_lossy().into_owned()),
                (None, _) => None,
            };
            let from = from.unwrap_or_else(|| DEFAULT.to_owned());
            Some(Origin {
                name: name.to_owned(),
                value: value.map(|value| value.to_string_lossy().into_owned()),
                from,
            })
        });
        Ok(Self(settings.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Writes every setting as YAML, with its origin as a comment. Whether a collector is on is what follows from all that was
/// said of it and of others.
///
/// # Errors
///
/// Writing fails.
pub(super) fn write(args: &ExporterArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let collectors = &args.collectors.0;
    for Origin { name, value, from } in &args.origins.0 {
        let switch = Collector::ALL
            .into_iter()
            .find(|collector| on(*collector) == *name);
        if let Some(collector) = switch {
            let is_on = collectors.is_on(collector);
            let from = match from.as_str() {
                DEFAULT
                    if !is_on && collector.needs_nvml() && !collectors.is_on(Collector::Nvml) =>
                {
                    "off without collector.nvml"
                }
                DEFAULT if !is_on => DISABLE_DEFAULTS,
                from => from,
            };
            writeln!(out, "{name}: {is_on} # {from}")?;
            continue;
        }
        let off = Collector::ALL
            .into_iter()
            .any(|collector| interval_of(collector) == *name && !collectors.is_on(collector));
        let unused = if off { ", not used" } else { "" };
        let value = match value.as_deref() {
            None => "null".to_owned(),
            Some(value) => scalar(value)?,
        };
        writeln!(out, "{name}: {value} # {from}{unused}")?;
    }
    Ok(())
}

/// A value as YAML has it, on one line: quoted where it would be taken for something else, and as JSON, which is YAML too, where
/// it holds what no line can.
fn scalar(value: &str) -> anyhow::Result<String> {
    if value.parse::<u64>().is_ok() || matches!(value, "true" | "false") {
        return Ok(value.to_owned());
    }
    if value.chars().any(char::is_control) {
        return serde_json::to_string(value).context("cannot write a value as JSON");
    }
    let text = serde_saphyr::to_string(&value).context("cannot write a value as YAML")?;
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeMap;

    fn printed(arguments: &[&str]) -> String {
        let command = LogOptions::augment_args(Command::new("exporter").no_binary_name(true));
        let command = ExporterArgs::augment_args(command);
        let matches = command.try_get_matches_from(arguments).unwrap();
        let args = ExporterArgs::from_arg_matches(&matches).unwrap();
        let mut out = Vec::new();
        write(&args, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_setting_is_there_with_its_origin_and_it_is_yaml() {
        let text = printed(&[
            "--node-name=node #1",
            "--expected-gpus=8",
            "--no-collector.mig",
            "--collector.usage.interval=15s",
        ]);
        for line in [
            "listen: 0.0.0.0:9412 # default",
            "expected-gpus: 8 # --expected-gpus",
            "nvml: null # default",
            "log-format: text # default",
            "collector.nvml: true # default",
            "collector.nvml.interval: 1s # default",
            "collector.usage.interval: 15s # --collector.usage.interval",
            "collector.mig: false # --no-collector.mig",
            "collector.mig.interval: 5s # default, not used",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        let values: BTreeMap<String, serde_json::Value> = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(values["node-name"], "node #1");
        assert_eq!(values["collector.mig"], false);
        let command = ExporterArgs::augment_args(Command::new("exporter"));
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let flags: Vec<_> = flags.filter_map(|arg| arg.get_long()).collect();
        assert!(flags.len() > 25, "{flags:?}");
        for flag in flags
            .into_iter()
            .filter(|flag| !NOT_SETTINGS.contains(flag))
        {
            assert!(values.contains_key(flag), "{flag}");
        }
    }

    #[test]
    fn a_setting_that_somebody_gave_is_no_default() {
        let origins = |arguments: &[&str]| {
            let command = ExporterArgs::augment_args(Command::new("exporter").no_binary_name(true));
            let matches = command.try_get_matches_from(arguments).unwrap();
            ExporterArgs::from_arg_matches(&matches).unwrap().origins
        };
        let (one, other) = (["--node-name=a"], ["--node-name=a", "--kmsg=/dev/kmsg"]);
        assert!(origins(&one).is_default("kmsg"));
        assert!(!origins(&other).is_default("kmsg") && !origins(&other).is_default("none"));
    }

    #[test]
    fn a_value_of_several_lines_is_one_value() {
        let text = printed(&["--node-name=a\nb: c", "--web.config.file=x\ty"]);
        let values: BTreeMap<String, serde_json::Value> = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(values["node-name"], "a\nb: c", "{text}");
        assert_eq!(values["web.config.file"], "x\ty", "{text}");
        assert!(!values.contains_key("b"));
    }

    #[test]
    fn what_is_off_for_another_reason_says_so() {
        let text = printed(&["--node-name=a", "--no-collector.nvml"]);
        assert!(
            text.contains("\ncollector.usage: false # off without collector.nvml\n"),
            "{text}"
        );
        assert!(
            text.contains("\ncollector.nvml: false # --no-collector.nvml\n"),
            "{text}"
        );
        let only = [
            "--node-name=a",
            "--collector.disable-defaults",
            "--collector.kernel_log",
        ];
        let text = printed(&only);
        assert!(
            text.contains("\ncollector.pci_bus: false # collector.disable-defaults\n"),
            "{text}"
        );
        assert!(
            text.contains("\ncollector.kernel_log: true # --collector.kernel_log\n"),
            "{text}"
        );
    }
}
