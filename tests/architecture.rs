//! The house is built one way: pure rooms decide, adapters talk, processes join. This reads every file of `src` and
//! fails on an import in the wrong direction, on a pure room that touches the world, and on a file that has outgrown
//! its one subject.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "architecture/source.rs"]
mod source;
#[path = "architecture/the_checker.rs"]
mod the_checker;

use std::fmt;
use std::path::Path;

use source::{
    is_test_file, mentions, references, use_paths, without_comments_and_strings,
    without_test_modules,
};

/// Rooms that decide.
const PURE: [&str; 7] = [
    "api",
    "xid",
    "rules",
    "guards",
    "remediation",
    "slo",
    "yaml",
];
/// Rooms that speak to one outside thing each.
const ADAPTERS: [&str; 4] = ["prometheus", "kubernetes", "nvml", "kmsg"];
/// Adapters that any adapter and any process may use.
const SHARED_ADAPTERS: [&str; 3] = ["clock", "http", "telemetry"];
/// Rooms that join the others.
const PROCESSES: [&str; 3] = ["exporter", "controller", "sim"];
/// The rooms of the command line.
const OUTER: [&str; 3] = ["commands", "cli", "main"];
/// The map of the house, which names every room.
const MAP: &str = "lib";

/// A file has one subject; what is longer has two.
const LONGEST_FILE: usize = 400;

/// What a pure room never mentions, and why.
const FORBIDDEN_IN_PURE: [(&str, &str); 19] = [
    ("async fn", "waits"),
    ("async move", "waits"),
    (".await", "waits"),
    ("tokio", "waits"),
    ("futures::", "waits"),
    ("kube::Client", "talks to the API server"),
    ("kube::client", "talks to the API server"),
    ("kube::Api", "talks to the API server"),
    ("kube::api::Api", "talks to the API server"),
    ("kube::runtime", "talks to the API server"),
    ("reqwest", "talks over HTTP"),
    ("hyper", "talks over HTTP"),
    ("tracing", "writes a log"),
    ("Timestamp::now", "reads the clock"),
    ("SystemTime", "reads the clock"),
    ("Instant::now", "reads the clock"),
    ("std::fs", "touches the machine"),
    ("std::net", "touches the machine"),
    ("std::env", "touches the machine"),
];

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// May that room use this one?
fn may_use(room: &str, other: &str) -> bool {
    let is_pure = |r| PURE.contains(&r);
    let is_shared = |r| SHARED_ADAPTERS.contains(&r);
    let is_adapter = |r| ADAPTERS.contains(&r) || is_shared(r);
    let is_process = |r| PROCESSES.contains(&r);
    if room == other || room == MAP {
        return true;
    }
    if is_pure(room) {
        return is_pure(other);
    }
    if is_adapter(room) {
        return is_pure(other) || is_shared(other);
    }
    if is_process(room) {
        // The exporter and the controller are two programs; the simulation may hold either, and neither holds it.
        return is_pure(other) || is_adapter(other) || (room == "sim" && is_process(other));
    }
    match room {
        "commands" => is_pure(other) || is_adapter(other) || is_process(other),
        "cli" => other == "commands" || is_pure(other) || is_adapter(other) || is_process(other),
        "main" => true,
        _ => false,
    }
}

fn is_room(name: &str) -> bool {
    name == MAP
        || [&PURE[..], &ADAPTERS, &SHARED_ADAPTERS, &PROCESSES, &OUTER]
            .iter()
            .any(|rooms| rooms.contains(&name))
}

/// Checks one file of that room. `path` is relative to `src`.
fn check(room: &str, path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut report = |line: usize, what: String| {
        found.push(Violation {
            path: path.to_string(),
            line,
            what,
        });
    };
    if !is_room(room) {
        report(
            1,
            format!("{room:?} is no room of the house; place it in tests/architecture.rs"),
        );
    }
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        report(
            lines,
            format!("{lines} lines; a file of one subject stays within {LONGEST_FILE}"),
        );
    }
    // A test may reach further than the code that it proves.
    if is_test_file(path) {
        return found;
    }
    let code = without_test_modules(&without_comments_and_strings(text));
    for (line, other) in references(path, &code) {
        if !may_use(room, &other) {
            report(line, format!("{room} must not use {other}"));
        }
    }
    if PURE.contains(&room) {
        for (line, text) in code.lines().enumerate() {
            for (word, does) in FORBIDDEN_IN_PURE {
                if mentions(text, word) {
                    report(line + 1, format!("{room} is pure, but `{word}` {does}"));
                }
            }
        }
        for (line, path) in use_paths(&code) {
            if let Some((_, does)) = FORBIDDEN_IN_PURE.iter().find(|(word, _)| {
                path == *word
                    || path
                        .strip_prefix(word)
                        .is_some_and(|rest| rest.starts_with("::"))
            }) && path.contains("::")
            {
                report(line, format!("{room} is pure, but `{path}` {does}"));
            }
        }
    }
    found.sort_by(|a, b| (a.line, &a.what).cmp(&(b.line, &b.what)));
    // One word per line is enough: `use kube::client::Client` breaks one rule, not two.
    found.dedup_by(|a, b| a.line == b.line);
    found
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_house_is_built_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&src, &mut all);
    assert!(
        all.len() > 20,
        "only {} files were found: wrong folder?",
        all.len()
    );
    let mut broken = Vec::new();
    for file in all {
        let relative = file.strip_prefix(&src).unwrap();
        let first = relative.iter().next().unwrap().to_str().unwrap();
        let room = first.trim_end_matches(".rs");
        let text = std::fs::read_to_string(&file).unwrap();
        broken.extend(check(room, relative.to_str().unwrap(), &text));
    }
    let report: Vec<String> = broken.iter().map(ToString::to_string).collect();
    assert!(report.is_empty(), "\n{}", report.join("\n"));
}
