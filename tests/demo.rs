//! `demo` as its user sees it: the real binary, each story as a document and as text in a pipe.
#![cfg(feature = "sim")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

const SCENARIOS: [&str; 8] = [
    "xid-79",
    "pdb-blocks",
    "guard-pauses",
    "stop-guard",
    "eviction-fails",
    "application-error",
    "prometheus-down",
    "controller-crash",
];

/// The longest that a story may take: what the product says for the release build that people run, and more without
/// optimisation.
const LONGEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 30 });

fn demo(arguments: &[&str]) -> Output {
    demo_with(arguments, &[])
}

fn demo_with(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-remediator"));
    command.arg("demo").args(arguments);
    for name in [
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "LOG_LEVEL",
        "LOG_FORMAT",
    ] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Exit code 0, in time, nothing on standard error; answers what was printed.
fn told(arguments: &[&str]) -> String {
    let began = Instant::now();
    let output = demo(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{out}\n{err}");
    assert_eq!(err, "", "{arguments:?}");
    assert!(
        began.elapsed() < LONGEST,
        "{arguments:?}: {:?}",
        began.elapsed()
    );
    out
}

fn as_document(scenario: &str) -> Value {
    let out = told(&["--scenario", scenario, "--output", "json"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["scenario"], scenario);
    assert_eq!(document["outcome"], "AsExpected", "{document:#}");
    assert!(!document["expectations"].as_array().unwrap().is_empty());
    assert!(document["simulation"]["simulatedSeconds"].as_f64().unwrap() > 60.0);
    for event in document["events"].as_array().unwrap() {
        for field in ["time", "event", "text"] {
            assert!(event[field].is_string(), "{event:#}");
        }
    }
    document
}

/// The document and the text of a story hold what it is about.
fn story(scenario: &str, events: &[&str], words: &[&str]) -> Value {
    let document = as_document(scenario);
    let happened: Vec<_> = document["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    for wanted in events {
        assert!(
            happened.contains(wanted),
            "{scenario}: no {wanted} in {happened:?}"
        );
    }
    let out = told(&["--scenario", scenario]);
    assert!(
        !out.contains('\u{1b}'),
        "{scenario}: escape codes in a pipe\n{out}"
    );
    for word in words {
        assert!(out.contains(word), "{scenario}: no {word:?} in\n{out}");
    }
    assert!(
        out.contains(&format!("{scenario}: ended as expected.")),
        "{out}"
    );
    assert!(
        out.contains("Simulated: the Kubernetes API server"),
        "{out}"
    );
    document
}

#[test]
fn xid_79_is_the_default_and_tells_the_whole_loop() {
    let document = story(
        "xid-79",
        &[
            "KernelLogged",
            "FaultOpened",
            "NodeCordoned",
            "EvictionAnswered",
            "ReplacementJudged",
            "NodeUncordoned",
        ],
        &["79, ", "GpuFellOffTheBus", "fault to node back", "(100 %)"],
    );
    let times = &document["recoveryTimes"];
    let seconds = |name: &str| times[name].as_f64().unwrap();
    let isolated = seconds("faultToIsolatedSeconds");
    let recovered = seconds("faultToWorkloadRecoveredSeconds");
    let back = seconds("faultToNodeBackSeconds");
    assert!(
        0.0 < isolated && isolated < recovered && recovered < back,
        "{times}"
    );
    // The policy that is shipped proves a repair for 2 minutes and health for 5.
    assert!(back > 420.0, "{times}");
    let out = told(&[]);
    assert!(out.starts_with("xid-79  "));
    readme_shows(&out);
}

/// README leaves lines out, and shows no other.
fn readme_shows(out: &str) {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("This is what it prints").unwrap();
    let block = rest.split("```").nth(1).unwrap();
    let shown: Vec<&str> = block.lines().filter(|line| !line.is_empty()).collect();
    assert!(shown.len() > 20, "{block}");
    let mut printed = out.lines();
    for line in shown {
        assert!(
            printed.any(|printed| printed == line),
            "README shows this line, which the demo does not print at this place:\n{line}\n\n{out}"
        );
    }
}

#[test]
fn the_same_story_is_the_same_each_time_and_at_each_pace() {
    let mut first = as_document("xid-79");
    let out = told(&["--output", "json", "--speed", "2000"]);
    let mut second: Value = serde_json::from_str(&out).unwrap();
    for document in [&mut first, &mut second] {
        let simulation = document["simulation"].as_object_mut().unwrap();
        assert!(simulation.remove("wallSeconds").unwrap().as_f64().unwrap() > 0.0);
        assert!(
            simulation
                .remove("clockAcceleration")
                .unwrap()
                .as_f64()
                .unwrap()
                > 1.0
        );
    }
    pretty_same(&first, &second);
}

fn pretty_same(first: &Value, second: &Value) {
    let (first, second) = (format!("{first:#}"), format!("{second:#}"));
    for (one, other) in first.lines().zip(second.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(first, second);
}

#[test]
fn pdb_blocks() {
    story(
        "pdb-blocks",
        &["PersonActed"],
        &[
            "BlockedByDisruptionBudget",
            "PodDisruptionBudget inference/llm",
        ],
    );
}

#[test]
fn guard_pauses() {
    story(
        "guard-pauses",
        &["Staged"],
        &["PausedByGuard", "error-rate"],
    );
}

#[test]
fn stop_guard() {
    story(
        "stop-guard",
        &["PolicyStopped", "PolicyResumed"],
        &["StoppedByGuard", "capacity-floor"],
    );
}

#[test]
fn eviction_fails() {
    let document = story(
        "eviction-fails",
        &["FaultMoved"],
        &["Failed, EvictionTimedOut", "training/trainer-"],
    );
    assert_eq!(
        document["recoveryTimes"]["faultToNodeBackSeconds"],
        Value::Null
    );
    assert_eq!(document["faults"][0]["status"]["phase"], "Failed");
}

#[test]
fn application_error() {
    let document = story(
        "application-error",
        &["KernelLogged"],
        &["31, ", "No resources found"],
    );
    assert_eq!(document["faults"], serde_json::json!([]));
}

#[test]
fn prometheus_down() {
    story("prometheus-down", &["Staged"], &["HealthUnknown"]);
}

#[test]
fn controller_crash() {
    story("controller-crash", &["LeaderChanged"], &["holds the lease"]);
}

#[test]
fn every_scenario_is_listed_with_what_it_is_about() {
    let out = told(&["--list"]);
    assert!(!out.contains('\u{1b}'), "{out}");
    let names: Vec<_> = out
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(names, SCENARIOS);
    assert!(out.lines().all(|line| line.ends_with('.')), "{out}");
}

#[test]
fn an_unknown_scenario_is_an_error_that_names_the_known_ones() {
    let output = demo(&["--scenario", "xid-80"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let error = text(&output.stderr);
    for name in SCENARIOS {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn colours_follow_the_environment() {
    let forced = demo_with(&["--list"], &[("CLICOLOR_FORCE", "1")]);
    assert_eq!(forced.status.code(), Some(0));
    let story = ["--scenario", "application-error"];
    let forced = demo_with(&story, &[("CLICOLOR_FORCE", "1")]);
    assert!(text(&forced.stdout).contains('\u{1b}'));
    let plain = demo_with(&story, &[("CLICOLOR_FORCE", "0"), ("NO_COLOR", "1")]);
    assert!(!text(&plain.stdout).contains('\u{1b}'));
}

#[test]
fn a_reader_who_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpu-remediator"))
        .args(["demo", "--scenario", "application-error"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}
