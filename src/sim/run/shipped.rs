//! The rules that come with the product, and what simulated clusters change about them.

use std::time::Duration;

use crate::api::GpuFaultRule;
use crate::api::duration::PromDuration;
use crate::rules::shipped;
pub use crate::rules::shipped::{Unreadable, policy};

/// The shipped rules. They look each second; where a day is to pass quickly, another interval is given.
///
/// # Errors
///
/// They are no rules.
pub fn rules(interval: Option<Duration>) -> Result<GpuFaultRule, Unreadable> {
    let mut rules = shipped::rules()?;
    if let Some(interval) = interval {
        for group in &mut rules.spec.groups {
            group.interval = Some(PromDuration::from(interval));
        }
    }
    Ok(rules)
}
