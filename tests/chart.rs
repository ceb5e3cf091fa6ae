//! What the chart and the alert rules promise that can be held without a
//! cluster: copies are equal to what they are copies of.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The documents of a YAML stream, without the separators.
fn documents(text: &str) -> Vec<String> {
    text.split("---\n")
        .map(str::trim)
        .filter(|document| !document.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_chart_has_the_resource_definitions_that_the_product_prints() {
    let printed = Command::new(env!("CARGO_BIN_EXE_gpu-remediator"))
        .arg("crds")
        .output()
        .expect("gpu-remediator crds");
    assert!(printed.status.success(), "{printed:?}");
    let printed = documents(&String::from_utf8(printed.stdout).expect("text"));
    let mut names = Vec::new();
    for file in std::fs::read_dir(repository("charts/gpu-remediator/files/crds")).expect("a folder")
    {
        let path = file.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a definition");
        assert!(
            printed.contains(&documents(&text).concat()),
            "{} differs from what `gpu-remediator crds` prints: write it anew",
            path.display()
        );
        names.push(
            path.file_name()
                .expect("a file")
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort();
    assert_eq!(
        names,
        [
            "gpufaultrules.yaml",
            "gpufaults.yaml",
            "remediationpolicies.yaml"
        ]
    );
    assert_eq!(printed.len(), names.len());
}

#[test]
fn the_chart_has_the_alert_rules_that_stand_beside_it() {
    assert_eq!(
        read("charts/gpu-remediator/files/alerts.yaml"),
        read("rules/alerts/gpu-remediator.yaml"),
        "copy the one to the other"
    );
}

#[test]
fn every_alert_has_a_severity_a_test_and_a_runbook_that_is_there() {
    let rules = read("rules/alerts/gpu-remediator.yaml");
    let tests = read("rules/alerts/gpu-remediator_test.yaml");
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(!alerts.is_empty());
    assert_eq!(rules.matches("labels: {severity: ").count(), alerts.len());
    for alert in alerts {
        let runbook = format!("docs/runbooks/{alert}.md");
        assert!(
            rules.contains(&format!("runbook_url: {runbook}\n")),
            "{alert} names no {runbook}"
        );
        assert!(
            read(&runbook).starts_with(&format!("# {alert}\n")),
            "{runbook} has another heading"
        );
        assert!(
            tests.contains(&format!("alertname: {alert}\n")),
            "{alert} has no test"
        );
    }
}
