//! The rules and the policy that come with the product, and what simulated clusters change about them.

use std::time::Duration;

use crate::api::duration::PromDuration;
use crate::api::{GpuFaultRule, RemediationPolicy};

const RULES: &str = include_str!("../../../rules/xid-fatal.yaml");
const POLICY: &str = include_str!("../../../rules/policies/drain-node.yaml");

/// A shipped file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a rule file that is part of the program cannot be read")]
pub struct Unreadable(#[from] serde_saphyr::Error);

/// The shipped rules. They look each second; where a day is to pass quickly, another interval is given.
///
/// # Errors
///
/// They are no rules.
pub fn rules(interval: Option<Duration>) -> Result<GpuFaultRule, Unreadable> {
    let mut rules: GpuFaultRule = serde_saphyr::from_str(RULES)?;
    if let Some(interval) = interval {
        for group in &mut rules.spec.groups {
            group.interval = Some(PromDuration::from(interval));
        }
    }
    Ok(rules)
}

/// The shipped policy.
///
/// # Errors
///
/// It is no policy.
pub fn policy() -> Result<RemediationPolicy, Unreadable> {
    Ok(serde_saphyr::from_str(POLICY)?)
}
