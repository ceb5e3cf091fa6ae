//! `--collector.NAME`, `--no-collector.NAME` and `--collector.NAME.interval`, in the manner of node_exporter.

use super::duration;
use crate::exporter::{Collector, Collectors};
use clap::builder::BoolishValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::time::Duration;

pub(super) const DISABLE_DEFAULTS: &str = "collector.disable-defaults";
const HEADING: &str =
    "Collectors; each is switched off by --no-collector.NAME, or by `false` in its variable";

/// Which collectors are on, and how often each asks.
#[derive(Debug, Clone)]
pub struct CollectorArgs(pub Collectors);

/// The flag that switches a collector on.
pub(super) fn on(collector: Collector) -> String {
    format!("collector.{}", collector.name())
}

fn off(collector: Collector) -> String {
    format!("no-{}", on(collector))
}

pub(super) fn interval_of(collector: Collector) -> String {
    format!("{}.interval", on(collector))
}

fn variable(flag: &str) -> String {
    let flag = flag.replace(['.', '-'], "_").to_uppercase();
    format!("GPU_EXPORTER_{flag}")
}

fn switches(collector: Collector) -> [Arg; 2] {
    let (on, off) = (on(collector), off(collector));
    let help = format!("{} [default: on]", collector.collects());
    let switch = |name: String| {
        Arg::new(name.clone())
            .long(name.clone())
            .action(ArgAction::SetTrue)
            // It may be said again. That one is said after the other is no error either, whatever the variable says.
            .overrides_with(name)
            .help_heading(HEADING)
    };
    [
        switch(on.clone())
            .env(variable(&on))
            .value_parser(BoolishValueParser::new())
            .help(help),
        switch(off).hide(true),
    ]
}

fn how_often(collector: Collector, default: Duration) -> Arg {
    let name = interval_of(collector);
    let help = match collector {
        Collector::Nvml => "Time between two askings of each GPU for its health".to_owned(),
        _ if collector.needs_nvml() => format!(
            "Time between two askings for {}; at most as often as `nvml` asks",
            collector.name()
        ),
        _ => "Time between two askings".to_owned(),
    };
    let arg = Arg::new(name.clone())
        .long(name.clone())
        .env(variable(&name))
        .value_name("DURATION")
        .value_parser(duration)
        .default_value(format!("{}s", default.as_secs()))
        .help_heading(HEADING)
        .help(help);
    match collector {
        Collector::Nvml => arg.visible_alias("interval"),
        _ => arg,
    }
}

impl Args for CollectorArgs {
    fn augment_args(command: Command) -> Command {
        let command = command.arg(
            Arg::new(DISABLE_DEFAULTS)
                .long(DISABLE_DEFAULTS)
                .env(variable(DISABLE_DEFAULTS))
                .action(ArgAction::SetTrue)
                .value_parser(BoolishValueParser::new())
                .help_heading(HEADING)
                .help("Switch off every collector that is not switched on by its own flag"),
        );
        Collector::ALL
            .into_iter()
            .fold(command, |command, collector| {
                let interval = collector.default_interval();
                command
                    .args(switches(collector))
                    .args(interval.map(|default| how_often(collector, default)))
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// What was said of a collector, and by what: the last flag, else the variable. `None` where nothing was said.
pub(super) fn said_by(matches: &ArgMatches, collector: Collector) -> Option<(bool, String)> {
    let (on, off) = (on(collector), off(collector));
    let place = |flag: &str| {
        let given = matches.value_source(flag) == Some(ValueSource::CommandLine);
        let places = given.then(|| matches.indices_of(flag)).flatten();
        places.and_then(Iterator::max)
    };
    match (place(&on), place(&off)) {
        (None, None) => {
            let by_variable = matches.value_source(&on) == Some(ValueSource::EnvVariable);
            by_variable.then(|| (matches.get_flag(&on), variable(&on)))
        }
        (said_on, said_off) if said_on > said_off => Some((true, format!("--{on}"))),
        _ => Some((false, format!("--{off}"))),
    }
}

fn said(matches: &ArgMatches, collector: Collector) -> Option<bool> {
    said_by(matches, collector).map(|(is_on, _)| is_on)
}

impl FromArgMatches for CollectorArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let wrong = |message: String| clap::Error::raw(ErrorKind::ValueValidation, message);
        let by_default = !matches.get_flag(DISABLE_DEFAULTS);
        let is_on = |collector| said(matches, collector).unwrap_or(by_default);
        if !is_on(Collector::Nvml) {
            let needs = Collector::ALL.into_iter().filter(|collector| {
                collector.needs_nvml() && said(matches, *collector) == Some(true)
            });
            if let Some(collector) = needs.into_iter().next() {
                return Err(wrong(format!(
                    "--{} needs --{}, which is off: it is asked of the GPUs that this finds\n",
                    on(collector),
                    on(Collector::Nvml)
                )));
            }
        }
        let on = Collector::ALL
            .into_iter()
            .filter(|collector| is_on(*collector));
        let collectors = Collectors::new(on.map(|collector| {
            let interval = collector.default_interval();
            let interval = interval.and_then(|_| {
                matches
                    .get_one::<Duration>(&interval_of(collector))
                    .copied()
            });
            (collector, interval)
        }));
        if collectors.is_empty() {
            return Err(wrong(
                "every collector is off: switch on one at least, such as --collector.nvml\n"
                    .to_owned(),
            ));
        }
        Ok(Self(collectors))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use Collector::{Details, KernelLog, Nvml, PciBus, PodResources, Usage};

    fn parse(arguments: &[&str]) -> Result<Collectors, String> {
        let command = CollectorArgs::augment_args(Command::new("exporter").no_binary_name(true));
        let matches = command
            .try_get_matches_from(arguments)
            .map_err(|error| error.to_string())?;
        CollectorArgs::from_arg_matches(&matches)
            .map(|args| args.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn all_are_on_at_their_default_intervals() {
        assert_eq!(parse(&[]).unwrap(), Collectors::default());
        for collector in Collector::ALL {
            let flag = format!("--{}", on(collector));
            assert_eq!(parse(&[&flag]).unwrap(), Collectors::default(), "{flag}");
        }
    }

    #[test]
    fn each_can_be_switched_off_and_the_last_word_counts() {
        for collector in Collector::ALL {
            let (on, off) = (
                format!("--{}", on(collector)),
                format!("--{}", off(collector)),
            );
            assert!(!parse(&[&off]).unwrap().is_on(collector), "{off}");
            assert!(!parse(&[&on, &off]).unwrap().is_on(collector));
            assert!(parse(&[&off, &off, &on]).unwrap().is_on(collector));
            assert!(!parse(&[&on, &off, &on, &off]).unwrap().is_on(collector));
        }
        let without = parse(&["--no-collector.nvml"]).unwrap();
        assert!(!without.is_on(Usage) && without.is_on(KernelLog) && without.is_on(PciBus));
    }

    #[test]
    fn only_what_is_asked_for_where_the_defaults_are_off() {
        let only = parse(&["--collector.disable-defaults", "--collector.kernel_log"]).unwrap();
        let on = Collector::ALL.map(|collector| only.is_on(collector));
        assert_eq!(on, Collector::ALL.map(|collector| collector == KernelLog));
        let error = parse(&["--collector.disable-defaults"]).unwrap_err();
        assert!(error.contains("every collector is off"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_said() {
        let error = parse(&["--no-collector.nvml", "--collector.mig"]).unwrap_err();
        assert!(
            error.contains("--collector.mig needs --collector.nvml"),
            "{error}"
        );
        let error = parse(&["--collector.mig.interval", "soon"]).unwrap_err();
        assert!(error.contains("not a duration such as 500ms"), "{error}");
        let error = parse(&["--collector.kernel_log.interval", "1s"]).unwrap_err();
        assert!(error.contains("unexpected argument"), "{error}");
        assert!(parse(&["--collector.gpu"]).is_err());
    }

    #[test]
    fn the_documentation_has_each_as_it_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
        let text = std::fs::read_to_string(path).unwrap();
        for collector in Collector::ALL {
            let interval = collector.default_interval();
            let every = interval.map_or(String::new(), |every| format!("{}s ", every.as_secs()));
            let (name, collects) = (collector.name(), collector.collects());
            let row = format!("| `{name}` | {collects} | {every}|");
            assert!(text.lines().any(|line| line == row), "no such line: {row}");
        }
    }

    #[test]
    fn each_has_its_interval() {
        let seconds = Duration::from_secs;
        let collectors = parse(&[
            "--interval=2s",
            "--collector.usage.interval=15s",
            "--collector.pod_resources.interval=1m",
        ])
        .unwrap();
        assert_eq!(collectors.interval(Nvml), seconds(2));
        assert_eq!(collectors.interval(Usage), seconds(15));
        assert_eq!(collectors.interval(PodResources), seconds(60));
        assert_eq!(collectors.interval(Details), seconds(30));
        let same = parse(&["--collector.nvml.interval=2s"]).unwrap();
        assert_eq!(same.interval(Nvml), seconds(2));
    }
}
