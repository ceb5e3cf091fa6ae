//! `gpu-remediator rules check`: what is wrong with rule files, where, and how to mend it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anyhow::Context;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;

use crate::prometheus::client::{Client, Options};
use crate::prometheus::error::QueryError;
use crate::rules::file::RuleFile;
use crate::rules::problem::{Problem, Severity};

/// Arguments of `rules check`.
#[derive(Args, Clone, Debug)]
pub struct RulesCheckArgs {
    /// Files or folders with GpuFaultRules and RemediationPolicies, or Prometheus rule files with `remediation` blocks; `-` is the standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Files or folders that define the RemediationPolicies, which the rules then must name.
    #[arg(long, value_name = "FILE")]
    pub policies: Vec<PathBuf>,

    /// A Prometheus that judges the expressions. Its word counts more than that of the built-in parser.
    #[arg(
        long,
        value_name = "URL",
        env = "GPU_REMEDIATOR_PROMETHEUS",
        hide_env_values = true
    )]
    pub prometheus: Option<String>,

    /// A file with the bearer token for Prometheus.
    #[arg(long, value_name = "FILE")]
    pub prometheus_bearer_token_file: Option<PathBuf>,

    /// How the problems are written.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// How the problems are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people, with the lines concerned.
    Text,
    /// For programs.
    Json,
}

/// One file with what was found in it.
struct Checked {
    name: String,
    text: String,
    file: RuleFile,
}

#[derive(Serialize)]
struct Report<'a> {
    files: usize,
    rules: usize,
    errors: usize,
    warnings: usize,
    problems: Vec<ReportedProblem<'a>>,
}

#[derive(Serialize)]
struct ReportedProblem<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    severity: &'static str,
    check: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<&'a str>,
}

/// Checks the files and writes what was found to `out`. The exit code is 1 when there is an error, and 0 with warnings only.
///
/// # Errors
///
/// When Prometheus cannot be asked, or `out` cannot be written.
pub async fn run(args: &RulesCheckArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut paths = Vec::new();
    for path in args.files.iter().chain(&args.policies) {
        let found = expand(path);
        if !found.is_empty() && found.iter().all(|path| paths.contains(path)) {
            continue;
        }
        paths.extend(found);
    }
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    let mut checked: Vec<Checked> = paths.iter().map(|path| read(path)).collect();
    let mut defined = BTreeMap::new();
    for one in &mut checked {
        let twice = one.file.defined_before(&one.text, &one.name, &mut defined);
        one.file.problems.extend(twice);
    }
    let mut policies: Option<BTreeSet<String>> = (!args.policies.is_empty()).then(BTreeSet::new);
    for one in checked.iter().filter(|one| !one.file.policies.is_empty()) {
        policies
            .get_or_insert_default()
            .extend(one.file.policies.iter().cloned());
    }
    if let Some(policies) = policies {
        for one in &mut checked {
            let missing = one.file.missing_policies(&one.text, &policies);
            one.file.problems.extend(missing);
        }
    }
    for one in &mut checked {
        one.file.problems.sort_by_key(|problem| problem.span.start);
    }
    if let Some(url) = &args.prometheus {
        let mut options = Options::new(url);
        options
            .bearer_token_file
            .clone_from(&args.prometheus_bearer_token_file);
        let client = Client::new(options)?;
        for one in &mut checked {
            ask_prometheus(&client, one).await?;
        }
    }
    let count = |severity: Severity| {
        checked
            .iter()
            .flat_map(|one| &one.file.problems)
            .filter(|problem| problem.severity == severity)
            .count()
    };
    let report = Report {
        files: checked.len(),
        rules: checked.iter().map(|one| one.file.with_remediation).sum(),
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        problems: checked.iter().flat_map(reported).collect(),
    };
    match args.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
        }
        Output::Text => {
            for one in &checked {
                for problem in &one.file.problems {
                    writeln!(out, "{}\n", render(one, problem))?;
                }
            }
            writeln!(out, "{}", summary(&report, &checked))?;
        }
    }
    Ok(ExitCode::from(u8::from(report.errors > 0)))
}

/// The files that a path stands for: a folder for the YAML files in it and below it. A folder that cannot be read, or holds
/// none, stands for itself, so that it is reported like a file that cannot be read.
fn expand(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(path, &mut files);
    if files.is_empty() {
        files.push(path.to_owned());
    }
    files
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        files.push(path.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(path).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>, _>>()
    }) else {
        files.push(path.to_owned());
        return;
    };
    let mut entries = entries;
    entries.sort();
    for entry in entries {
        let yaml = entry
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml");
        if yaml || entry.is_dir() {
            collect(&entry, files);
        }
    }
}

/// One file. One that cannot be read is a problem of its own and does not keep the others from being checked.
fn read(path: &Path) -> Checked {
    let (name, bytes) = if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        ("<stdin>".to_owned(), read.map(|_| bytes))
    } else {
        (path.display().to_string(), std::fs::read(path))
    };
    let empty_folder = std::fs::read_dir(path).is_ok();
    let text = match bytes {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8")),
        Err(_) if empty_folder => Err(format!("the folder {name} holds no YAML file")),
        Err(error) => Err(format!("cannot read {name}: {error}")),
    };
    match text {
        Ok(text) => Checked {
            file: RuleFile::read(&text),
            name,
            text,
        },
        Err(message) => Checked {
            file: RuleFile::unreadable(&message),
            name,
            text: String::new(),
        },
    }
}

async fn ask_prometheus(client: &Client, one: &mut Checked) -> anyhow::Result<()> {
    let now = Timestamp::now();
    for expression in one.file.expressions.clone() {
        match client.parse(&expression.expr, now).await {
            Ok(()) => one.file.judged(&one.text, &expression, None),
            Err(QueryError::BadData(message)) => {
                one.file.judged(&one.text, &expression, Some(&message));
            }
            Err(error) => return Err(error).context("Prometheus could not judge the expressions"),
        }
    }
    Ok(())
}

fn reported(one: &Checked) -> impl Iterator<Item = ReportedProblem<'_>> {
    one.file.problems.iter().map(|problem| ReportedProblem {
        file: &one.name,
        line: problem.line,
        column: problem.column,
        severity: match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        check: problem.check.as_str(),
        message: &problem.message,
        mend: problem.mend.as_deref(),
    })
}

fn render(one: &Checked, problem: &Problem) -> String {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let snippet = Snippet::source(&one.text)
        .path(&one.name)
        .annotation(AnnotationKind::Primary.span(problem.span.clone()));
    let mut group = Group::with_title(
        level
            .primary_title(&problem.message)
            .id(problem.check.as_str()),
    )
    .element(snippet);
    if let Some(mend) = &problem.mend {
        group = group.element(Level::HELP.message(mend));
    }
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let renderer = if coloured {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    renderer.render(&[group])
}

fn summary(report: &Report<'_>, checked: &[Checked]) -> String {
    let plural = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let foreign: usize = checked.iter().map(|one| one.file.without_remediation).sum();
    let foreign = match foreign {
        0 => String::new(),
        count => format!(" ({count} without remediation not checked)"),
    };
    format!(
        "{} in {}{foreign}: {}, {}",
        plural(report.rules, "rule"),
        plural(report.files, "file"),
        plural(report.errors, "error"),
        plural(report.warnings, "warning"),
    )
}
