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
    assert!(printed.contains("SUCCESS: 7 rules found"), "{printed}");
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
