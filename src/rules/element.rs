//! One pending or firing alert of a rule, as its state holds it.

use jiff::{SignedDuration, Timestamp};

use super::alert::Alert;
use super::answer::Labels;
use crate::api::rule::AlertPhase;

/// An alert without its labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Element {
    pub(super) phase: AlertPhase,
    pub(super) active_at: Timestamp,
    pub(super) firing_since: Option<Timestamp>,
    pub(super) keep_firing_since: Option<Timestamp>,
    pub(super) last_seen: Timestamp,
    pub(super) value: f64,
    pub(super) sample_time: Timestamp,
}

impl Element {
    /// No time of it is one to come any more. A firing alert that is said to be seen then, by more than `gap`, was seen when the
    /// clock was ahead: nobody knows how long ago that was, so it is longer than `kept`.
    pub(super) fn set_back(&mut self, now: Timestamp, gap: SignedDuration, kept: SignedDuration) {
        if self.phase == AlertPhase::Firing && self.last_seen.duration_since(now) > gap {
            let too_long = kept.saturating_add(SignedDuration::from_secs(1));
            self.last_seen = now.saturating_sub(too_long).unwrap_or(Timestamp::MIN);
        }
        self.last_seen = self.last_seen.min(now);
        self.sample_time = self.sample_time.min(self.last_seen);
        self.active_at = self.active_at.min(now);
        self.firing_since = self.firing_since.map(|since| since.min(now));
        self.keep_firing_since = self.keep_firing_since.map(|since| since.min(now));
    }

    /// As it is at an evaluation. What was seen longer ago than `kept` is stale.
    pub(super) fn alert(&self, labels: &Labels, now: Timestamp, kept: SignedDuration) -> Alert {
        Alert {
            labels: labels.clone(),
            value: self.value,
            active_at: self.active_at,
            sample_time: self.sample_time,
            seen: self.keep_firing_since.is_none(),
            stale: now.duration_since(self.last_seen) > kept,
        }
    }
}
