//! The alert rules that the product ships, as Prometheus' own tool reads them.

use crate::harness::tools::{promtool, repository};

#[test]
fn promtool_accepts_the_alert_rules() {
    let rules = repository("rules/alerts/gpu-remediator.yaml");
    let printed = promtool(
        ["check", "rules", "--lint-fatal"]
            .map(Into::into)
            .into_iter()
            .chain([rules.into_os_string()]),
    )
    .expect_ok("promtool check rules");
    let text = std::fs::read_to_string(repository("rules/alerts/gpu-remediator.yaml"))
        .expect("the alert rules");
    let written = text.matches("- alert: ").count() + text.matches("- record: ").count();
    assert!(written > 0);
    assert!(
        printed.contains(&format!("SUCCESS: {written} rules found")),
        "{printed}"
    );
}

#[test]
fn the_alert_rules_fire_when_they_should_and_only_then() {
    let tests = repository("tests/alerts/gpu-remediator_test.yaml");
    promtool(
        ["test", "rules"]
            .map(Into::into)
            .into_iter()
            .chain([tests.into_os_string()]),
    )
    .expect_ok("promtool test rules");
}
