//! Alerts, and what one evaluation made of them.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::answer::{Labels, Unknown};

/// One alert of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// What identifies it: the labels of the series without its name, the rule's labels, and `alertname`.
    pub labels: Labels,
    /// The value of the sample that was seen last.
    pub value: f64,
    /// When the series was first seen: the same for as long as the alert is active.
    pub active_at: Timestamp,
    /// The time of the sample that was seen last.
    pub sample_time: Timestamp,
    /// Whether the series was there when it was last looked for; `keep_firing_for` keeps an alert that is not.
    pub seen: bool,
    /// Whether it was last seen longer ago than alerts are kept firing for, as after a time without answers. It is kept all
    /// the same, but nothing follows from it until it is seen again.
    pub stale: bool,
}

/// What an evaluation made of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Alerts that fire since this evaluation.
    pub newly_firing: Vec<Alert>,
    /// Every alert that fires, the newly firing ones included.
    pub firing: Vec<Alert>,
    /// Alerts that fired and no longer do.
    pub resolved: Vec<Alert>,
    /// Why nothing is known; the alerts then are as they were before, and nothing may be opened or closed on them.
    pub error: Option<Unknown>,
    /// The labels of samples that were NaN or histograms: of them nothing is known.
    pub unclear: BTreeSet<Labels>,
}
