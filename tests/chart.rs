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

/// What `gpu-remediator` prints with `arguments`.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gpu-remediator"))
        .args(arguments)
        .output()
        .expect("gpu-remediator runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_chart_has_the_resource_definitions_that_the_product_prints() {
    let folder = "charts/gpu-remediator/files/crds";
    let mut all = String::new();
    for name in ["gpufaults", "gpufaultrules", "remediationpolicies"] {
        let file = format!("{folder}/{name}.yaml");
        let now = printed(&["crds", name]);
        // Not assert_eq: nobody reads two definitions of a thousand lines side by side.
        assert!(
            read(&file) == now,
            "{file} is not what the product prints; write it anew: cargo run -- crds {name} > {file}"
        );
        all.push_str("---\n");
        all.push_str(&now);
    }
    // There is no fourth, on either side.
    assert_eq!(printed(&["crds"]), all);
    assert_eq!(
        std::fs::read_dir(repository(folder))
            .expect("a folder")
            .count(),
        3
    );
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
    let tests = read("tests/alerts/gpu-remediator_test.yaml");
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
