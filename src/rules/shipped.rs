//! The rules and the policy that come with the product.

use super::promql::{parse, selectors};
use crate::api::{GpuFaultRule, RemediationPolicy};
use promql_parser::label::Matcher;

const RULES: &str = include_str!("../../rules/xid-fatal.yaml");
const POLICY: &str = include_str!("../../rules/policies/drain-node.yaml");
/// The exporter's families that have a label `xid`.
const XID_FAMILIES: [&str; 2] = ["gpu_xid_errors_total", "gpu_xid_last_timestamp_seconds"];

/// A shipped file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a rule file that is part of the program cannot be read")]
pub struct Unreadable(#[from] serde_saphyr::Error);

/// The shipped rules.
///
/// # Errors
///
/// They are no rules.
pub fn rules() -> Result<GpuFaultRule, Unreadable> {
    Ok(serde_saphyr::from_str(RULES)?)
}

/// The shipped policy.
///
/// # Errors
///
/// It is no policy.
pub fn policy() -> Result<RemediationPolicy, Unreadable> {
    Ok(serde_saphyr::from_str(POLICY)?)
}

/// A rule that looks at an Xid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// The name of the alert.
    pub alert: String,
    /// The policy that its faults follow.
    pub policy: String,
}

/// Which rules open a fault about an Xid: those whose expression asks for a series with that `xid`.
#[must_use]
pub fn interested(rules: &GpuFaultRule, code: u32) -> Vec<Interest> {
    let all = rules.spec.groups.iter().flat_map(|group| &group.rules);
    all.filter(|rule| asks_for(&rule.expr, &code.to_string()))
        .map(|rule| Interest {
            alert: rule.alert.clone(),
            policy: rule.remediation.policy.clone(),
        })
        .collect()
}

fn asks_for(expr: &str, code: &str) -> bool {
    let Ok(expr) = parse(expr) else { return false };
    selectors(&expr).into_iter().any(|selector| {
        let family = selector.name.as_deref();
        let mut of_xid = selector
            .matchers
            .matchers
            .iter()
            .filter(|m| m.name == "xid");
        family.is_some_and(|family| XID_FAMILIES.contains(&family))
            && of_xid.all(|matcher: &Matcher| matcher.is_match(code))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_shipped_rules_and_what_they_look_at() {
        let rules = rules().unwrap();
        let alerts = |code| -> Vec<String> {
            let all = interested(&rules, code);
            all.into_iter().map(|interest| interest.alert).collect()
        };
        assert_eq!(alerts(79), ["GpuFellOffTheBus"]);
        for application in [13, 31, 43, 45] {
            assert!(alerts(application).is_empty(), "{application}");
        }
        let policy = policy().unwrap().metadata.name;
        assert_eq!(interested(&rules, 79)[0].policy, policy.unwrap());
    }

    #[test]
    fn a_pattern_and_no_label_at_all() {
        assert!(asks_for("gpu_xid_errors_total{xid=~\"4.|79\"} > 0", "79"));
        assert!(!asks_for("gpu_xid_errors_total{xid!=\"79\"} > 0", "79"));
        assert!(asks_for("increase(gpu_xid_errors_total[5m]) > 0", "31"));
        assert!(!asks_for("gpu_up == 0", "79"));
        assert!(!asks_for("(", "79"));
    }
}
