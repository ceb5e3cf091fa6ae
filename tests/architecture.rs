//! The house is built one way: pure rooms decide, adapters talk, processes join. This reads every file of `src` and
//! fails on an import in the wrong direction, on a pure room that touches the world, and on a file that has outgrown
//! its one subject.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Rooms that decide.
const PURE: [&str; 6] = ["api", "xid", "rules", "guards", "remediation", "slo"];
/// Rooms that speak to one outside thing each.
const ADAPTERS: [&str; 4] = ["prometheus", "kubernetes", "nvml", "kmsg"];
/// Adapters that any adapter and any process may use.
const SHARED_ADAPTERS: [&str; 2] = ["http", "telemetry"];
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

/// Sibling test files are declared under `#[cfg(test)]` and named after what they hold.
fn is_test_file(path: &str) -> bool {
    Path::new(path).components().any(|c| {
        let name = c.as_os_str().to_string_lossy();
        let stem = name.trim_end_matches(".rs");
        stem == "tests" || stem.ends_with("_tests")
    })
}

/// `word` stands in the line, and not inside a longer name.
fn mentions(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let opens = word.starts_with(inside) && before.is_some_and(inside);
        let closes = word.ends_with(inside) && after.is_some_and(inside);
        !opens && !closes
    })
}

/// The text with comments, strings and character literals made blank; lines keep their numbers.
fn without_comments_and_strings(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    while i < chars.len() {
        let rest = &chars[i..];
        let end = if rest.starts_with(&['/', '/']) {
            rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
        } else if rest.starts_with(&['/', '*']) {
            block_comment(rest)
        } else if let Some(end) = raw_string(rest, i.checked_sub(1).map(|p| chars[p])) {
            end
        } else if rest[0] == '"' {
            quoted(rest, '"')
        } else if rest[0] == '\'' && is_character_literal(rest) {
            quoted(rest, '\'')
        } else {
            out.push(rest[0]);
            i += 1;
            continue;
        };
        out.extend(rest[..end].iter().map(|c| blank(*c)));
        i += end;
    }
    out
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i + 1 < rest.len() {
        match (rest[i], rest[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    rest.len()
}

fn raw_string(rest: &[char], before: Option<char>) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') || rest[0] != 'r' {
        return None;
    }
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let mut close = vec!['"'];
    close.extend(vec!['#'; hashes]);
    let body = &rest[hashes + 2..];
    let end = body.windows(close.len()).position(|w| w == close)?;
    Some(hashes + 2 + end + close.len())
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            '\\' => i += 1,
            c if c == quote => return i + 1,
            _ => {}
        }
        i += 1;
    }
    rest.len()
}

/// `'a'` and `'\n'` are characters, `'a` is a lifetime.
fn is_character_literal(rest: &[char]) -> bool {
    rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')
}

/// The code with every `#[cfg(test)]` item made blank. Its input has no strings and no comments any more.
fn without_test_modules(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        let mut depth = 0usize;
        let last = rest[at..].char_indices().find(|(_, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && matches!(c, '}' | ';')
        });
        let end = last.map_or(rest.len(), |(i, _)| at + i + 1);
        out.extend(rest[at..end].chars().filter(|c| *c == '\n'));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Every path that a `use` names, with groups written out, and the line on which the `use` begins.
fn use_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| !c.is_whitespace() && c != ')') {
            continue;
        }
        let Some(end) = code[at..].find(';') else {
            continue;
        };
        let line = code[..at].matches('\n').count() + 1;
        let tree: String = code[at + 4..at + end]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for path in expand("", &tree) {
            found.push((line, path));
        }
    }
    found
}

/// `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`.
fn expand(prefix: &str, tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree).trim();
        return vec![format!("{prefix}{path}")];
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = tree[open + 1..]
        .rsplit_once('}')
        .map_or("", |(inner, _)| inner);
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(expand(&prefix, &inner[start..i]));
                start = i + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        found.extend(expand(&prefix, &inner[start..]));
    }
    found
}

/// The rooms that the file names, in `use` lines and in paths, and where.
fn references(path: &str, code: &str) -> BTreeSet<(usize, String)> {
    let mut found = BTreeSet::new();
    let mut add = |line: usize, full: &str| {
        if let Some(room) = room_of(path, full) {
            found.insert((line, room));
        }
    };
    for (line, full) in use_paths(code) {
        add(line, &full);
    }
    for (line, text) in code.lines().enumerate() {
        for start in ["crate::", "gpu_remediator::", "super::"] {
            for (at, _) in text.match_indices(start) {
                let before = text[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                    continue;
                }
                let full: String = text[at..]
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
                    .collect();
                add(line + 1, &full);
            }
        }
    }
    found
}

/// The room that a path leads to, seen from that file; `None` where it leads out of the house or stays in the file.
fn room_of(file: &str, path: &str) -> Option<String> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut module: Vec<&str> = Path::new(file)
        .iter()
        .filter_map(|part| part.to_str())
        .map(|part| part.trim_end_matches(".rs"))
        .filter(|part| *part != "mod")
        .collect();
    match parts.next()? {
        "crate" | "gpu_remediator" => module.clear(),
        "super" => {
            module.pop();
            while parts.next_if_eq(&"super").is_some() {
                module.pop();
            }
        }
        _ => return None,
    }
    let room = module.first().copied().or_else(|| parts.next())?;
    (!room.is_empty()).then(|| room.to_string())
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

mod the_checker {
    use super::*;

    /// The violations of one file, without their places.
    fn broken(room: &str, path: &str, text: &str) -> Vec<String> {
        check(room, path, text)
            .into_iter()
            .map(|v| v.what)
            .collect()
    }

    #[test]
    fn catches_imports_in_the_wrong_direction() {
        for (room, text) in [
            ("guards", "use crate::prometheus::Client;"),
            ("api", "use crate::kubernetes::nodes;"),
            ("slo", "fn f() { crate::http::serve() }"),
            ("rules", "use crate::{api::names, controller::evaluate};"),
            ("remediation", "use crate::telemetry;"),
            ("xid", "pub use crate::exporter as e;"),
            ("prometheus", "use crate::kubernetes::clients::call;"),
            ("kubernetes", "use crate::nvml::Sample;"),
            ("nvml", "pub(crate) use crate::kmsg::Record;"),
            ("kmsg", "use crate::controller;"),
            ("http", "use crate::prometheus;"),
            ("telemetry", "use crate::kubernetes;"),
            ("exporter", "use crate::controller::World;"),
            ("controller", "use crate::exporter::Settings;"),
            ("controller", "use crate::sim;"),
            ("controller", "use crate::commands::run;"),
            ("sim", "use crate::cli::Arguments;"),
            ("commands", "use crate::cli;"),
            ("guards", "use gpu_remediator::prometheus;"),
            (
                "guards",
                "use crate::{\n    api,\n    kubernetes::{nodes, pods},\n};",
            ),
        ] {
            let path = format!("{room}/x.rs");
            assert_eq!(broken(room, &path, text).len(), 1, "{room}: {text}");
        }
    }

    #[test]
    fn lets_imports_in_the_right_direction_pass() {
        for (room, text) in [
            ("guards", "use crate::api::policy::Budget;"),
            ("remediation", "use crate::{guards::budget, slo::matching};"),
            ("prometheus", "use crate::rules::Sample; use crate::http;"),
            ("kubernetes", "use crate::telemetry; use super::nodes;"),
            ("exporter", "use crate::{nvml, kmsg, xid, http, telemetry};"),
            (
                "controller",
                "use crate::{prometheus, kubernetes, remediation};",
            ),
            ("sim", "use crate::controller;"),
            ("commands", "use crate::{controller, exporter, sim, rules};"),
            ("cli", "use crate::commands;"),
            ("main", "use gpu_remediator::{cli, commands};"),
            ("lib", "pub mod api; pub use crate::kubernetes::nodes;"),
        ] {
            let path = format!("{room}/x.rs");
            assert_eq!(
                broken(room, &path, text),
                Vec::<String>::new(),
                "{room}: {text}"
            );
        }
    }

    #[test]
    fn follows_super_to_the_room_where_it_leads() {
        let text = "use super::super::kubernetes::nodes;";
        assert_eq!(
            broken("guards", "guards/budget.rs", text),
            ["guards must not use kubernetes"]
        );
        assert_eq!(
            broken("guards", "guards/mod.rs", "use super::kubernetes::nodes;"),
            ["guards must not use kubernetes"]
        );
        assert!(broken("guards", "guards/budget.rs", "use super::window;").is_empty());
        assert!(broken("guards", "guards/deep/x.rs", "use super::super::window;").is_empty());
    }

    #[test]
    fn catches_a_pure_room_that_touches_the_world() {
        for text in [
            "async fn f() {}",
            "fn f() { g(async move { 1 }) }",
            "fn f() { g().await }",
            "use tokio::sync::watch;",
            "use futures::StreamExt;",
            "use kube::Client;",
            "use kube::{Client, ResourceExt};",
            "use kube::{\n    CustomResource,\n    client::Body,\n};",
            "fn f(api: kube::Api<Node>) {}",
            "use kube::api::Api;",
            "use kube::runtime::watcher;",
            "use reqwest::Url;",
            "use hyper::body;",
            "fn f() { tracing::info!(1) }",
            "let now = jiff::Timestamp::now();",
            "use std::time::SystemTime;",
            "let t = Instant::now();",
            "use std::{collections::BTreeMap, fs};",
            "let a = std::env::var(name);",
            "use std::net::IpAddr;",
        ] {
            assert_eq!(broken("slo", "slo/x.rs", text).len(), 1, "{text}");
            let found = broken("kubernetes", "kubernetes/x.rs", text);
            assert!(found.is_empty(), "an adapter may: {text}: {found:?}");
        }
    }

    #[test]
    fn lets_a_pure_room_speak_of_the_world() {
        for text in [
            "/// Unlike `tokio`, and without std::fs.\nfn f() {}",
            "/* async fn /* nested */ tokio */ fn f() {}",
            "const M: &str = \"use kube::Client; \\\" tokio\";",
            "const M: &str = r#\"tracing \" hyper\"#;",
            "use kube::{CustomResource, KubeSchema};",
            "fn f(hyperbola: &str, tracings: u8) {}",
            "fn f<'a>(c: char) -> bool { c == '\"' || c == '\\'' }",
            "fn f(now: Timestamp) {}",
            "#[cfg(test)]\nmod tests { use std::fs; async fn f() { if a { b } } }",
            "#[cfg(test)]\nmod decide_tests;\nfn f() {}",
        ] {
            assert_eq!(
                broken("slo", "slo/x.rs", text),
                Vec::<String>::new(),
                "{text}"
            );
        }
        assert!(broken("slo", "slo/matching_tests.rs", "use std::fs;").is_empty());
    }

    #[test]
    fn sees_what_stands_after_a_test_module() {
        let text = "#[cfg(test)]\nmod tests { fn f() { } }\nuse tokio::time;\n#[cfg(test)]\nmod more;\nuse std::fs;";
        let lines: Vec<usize> = check("slo", "slo/x.rs", text)
            .iter()
            .map(|v| v.line)
            .collect();
        assert_eq!(lines, [3, 6]);
    }

    #[test]
    fn counts_every_line_of_every_file() {
        let longest = "\n".repeat(LONGEST_FILE);
        assert!(broken("slo", "slo/x.rs", &longest).is_empty());
        let longer = "\n".repeat(LONGEST_FILE + 1);
        assert_eq!(broken("slo", "slo/x.rs", &longer).len(), 1);
        assert_eq!(broken("slo", "slo/x_tests.rs", &longer).len(), 1);
    }

    #[test]
    fn a_new_room_must_be_placed() {
        assert_eq!(broken("utils", "utils/mod.rs", "").len(), 1);
        assert_eq!(
            broken("slo", "slo/x.rs", "use crate::utils::f;"),
            ["slo must not use utils"]
        );
    }
}
