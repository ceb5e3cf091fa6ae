//! The pending and firing alerts of one rule.
//!
//! As in Prometheus, except that the state survives a restart, that exceeding `limit` freezes instead of clears, that NaN and
//! histograms are no evidence, and that `for` begins anew when nothing was known for too long.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::alert::{Alert, Evaluation};
use super::answer::{Answer, Labels, Sample, SampleValue, Unknown, UnknownReason};
use super::element::Element;
use super::template::{Dialect, Template, TemplateError};
use crate::api::rule::{ActiveAlert, AlertPhase, Rule, RuleGroup, RulePhase, RuleStatus};

/// How many alerts of one rule are written to its status.
const STATUS_ALERTS: usize = 1000;

/// The shortest time without news that is a gap.
const SHORTEST_GAP: SignedDuration = SignedDuration::from_secs(30);

/// The longest time without news that changes nothing for a group with this interval: three evaluations.
pub fn longest_gap(interval: SignedDuration) -> SignedDuration {
    interval.saturating_mul(3).max(SHORTEST_GAP)
}

/// The state of one rule.
#[derive(Clone, Debug)]
pub struct RuleState {
    group: String,
    alert: String,
    labels: BTreeMap<String, Template>,
    hold: SignedDuration,
    keep_firing_for: SignedDuration,
    limit: usize,
    interval: SignedDuration,
    active: BTreeMap<Labels, Element>,
    series_seen: u64,
    last_evaluation: Option<Timestamp>,
    last_error: Option<Unknown>,
}

impl RuleState {
    /// A rule without alerts, evaluated every `interval`.
    ///
    /// # Errors
    ///
    /// When a label is not a template.
    pub fn new(
        group: &RuleGroup,
        rule: &Rule,
        interval: SignedDuration,
    ) -> Result<Self, TemplateError> {
        let labels = group
            .labels
            .iter()
            .chain(&rule.labels)
            .map(|(name, text)| Ok((name.clone(), Template::parse(text, Dialect::Alert)?)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            group: group.name.clone(),
            alert: rule.alert.clone(),
            labels,
            hold: rule
                .hold
                .map_or(SignedDuration::ZERO, |hold| hold.as_signed()),
            keep_firing_for: rule
                .keep_firing_for
                .map_or(SignedDuration::ZERO, |keep| keep.as_signed()),
            limit: group
                .limit
                .filter(|limit| *limit > 0)
                .map_or(usize::MAX, |limit| limit as usize),
            interval,
            active: BTreeMap::new(),
            series_seen: 0,
            last_evaluation: None,
            last_error: None,
        })
    }

    /// Takes up the alerts of an earlier process.
    ///
    /// A pending alert keeps the time it has waited only if it was seen recently enough; a firing one keeps everything.
    /// Alerts under other labels than the rule's present ones belong to an earlier form of the rule and are dropped.
    #[must_use]
    pub fn restored(mut self, status: &RuleStatus, now: Timestamp) -> Self {
        for saved in &status.active {
            // The clock of the earlier process may have been ahead; a time to come would stop the counting.
            let Some(active_at) = saved.active_at.as_ref().map(|time| time.0.min(now)) else {
                continue;
            };
            if saved.labels.get("alertname") != Some(&self.alert)
                || !self.has_rule_labels(&saved.labels)
            {
                continue;
            }
            let last_seen = saved.last_seen.as_ref().map_or(active_at, |time| time.0);
            if saved.state == AlertPhase::Pending && self.gap_is_too_long(last_seen, now) {
                continue;
            }
            let mut element = Element {
                phase: saved.state,
                active_at,
                firing_since: saved.firing_since.as_ref().map(|time| time.0),
                keep_firing_since: saved.keep_firing_since.as_ref().map(|time| time.0),
                last_seen,
                // The value is not kept; the next sample brings one.
                value: f64::NAN,
                sample_time: last_seen,
            };
            element.set_back(now, longest_gap(self.interval), self.kept());
            self.active.insert(saved.labels.clone(), element);
        }
        self.last_evaluation = status.last_evaluation.as_ref().map(|time| time.0.min(now));
        self.series_seen = status.series_seen;
        self
    }

    /// Whether the rule's fixed labels are among `labels`; templated ones depend on the sample and cannot be compared.
    fn has_rule_labels(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(name, template)| {
            if template.labels().next().is_some() || template.uses_value() {
                return true;
            }
            let text = template.expand(labels, 0.0);
            labels.get(name).map_or("", String::as_str) == text
        })
    }

    fn gap_is_too_long(&self, last_seen: Timestamp, now: Timestamp) -> bool {
        now.duration_since(last_seen) > longest_gap(self.interval)
    }

    /// How long ago an alert that is kept firing may have been seen, when there was an answer all the time.
    fn kept(&self) -> SignedDuration {
        self.keep_firing_for
            .saturating_add(longest_gap(self.interval))
    }

    /// Takes an answer that holds for the evaluation time `now`.
    pub fn evaluate(&mut self, now: Timestamp, answer: &Result<Answer, Unknown>) -> Evaluation {
        let seen = answer
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|answer| self.identify(answer));
        let now = match self.last_evaluation {
            // An answer that counts says that the clock is right now, so it was ahead before.
            Some(last) if seen.is_ok() && self.gap_is_too_long(now, last) => {
                let (gap, kept) = (longest_gap(self.interval), self.kept());
                self.active
                    .values_mut()
                    .for_each(|element| element.set_back(now, gap, kept));
                now
            }
            // A clock that was set back a little must not shorten or undo what was counted.
            last => last.map_or(now, |last| now.max(last)),
        };
        self.last_evaluation = Some(now);
        let seen = match seen {
            Ok(seen) => seen,
            Err(unknown) => return self.unchanged(now, unknown),
        };
        self.series_seen = seen.series;
        let held = self.active.keys().filter(|labels| {
            !seen.numbers.contains_key(*labels) && seen.without_number.contains(*labels)
        });
        let count = seen.numbers.len() + held.count();
        if count > self.limit {
            let problem = format!("{count} alerts, the limit of the group is {}", self.limit);
            return self.unchanged(now, Unknown::new(UnknownReason::LimitExceeded, problem));
        }
        self.last_error = None;
        let mut evaluation = Evaluation {
            unclear: seen.without_number.clone(),
            ..Evaluation::default()
        };
        self.advance_missing(now, &seen, &mut evaluation);
        self.advance_seen(now, &seen, &mut evaluation);
        evaluation.firing = self.firing(now);
        evaluation
    }

    /// Alerts whose series the answer lacks: pending ones end, firing ones end when `keep_firing_for` is over.
    fn advance_missing(&mut self, now: Timestamp, seen: &Seen, evaluation: &mut Evaluation) {
        let (keep_firing_for, kept) = (self.keep_firing_for, self.kept());
        self.active.retain(|labels, element| {
            if seen.numbers.contains_key(labels) || seen.without_number.contains(labels) {
                return true;
            }
            if element.phase == AlertPhase::Pending {
                return false;
            }
            let since = *element.keep_firing_since.get_or_insert(now);
            if now.duration_since(since) < keep_firing_for {
                return true;
            }
            evaluation.resolved.push(element.alert(labels, now, kept));
            false
        });
    }

    fn advance_seen(&mut self, now: Timestamp, seen: &Seen, evaluation: &mut Evaluation) {
        let kept = self.kept();
        for (labels, (value, sample_time)) in &seen.numbers {
            let gap = self
                .active
                .get(labels)
                .filter(|element| element.phase == AlertPhase::Pending)
                .is_some_and(|element| self.gap_is_too_long(element.last_seen, now));
            let element = self.active.entry(labels.clone()).or_insert(Element {
                phase: AlertPhase::Pending,
                active_at: now,
                firing_since: None,
                keep_firing_since: None,
                last_seen: now,
                value: *value,
                sample_time: *sample_time,
            });
            if gap {
                element.active_at = now;
            }
            element.value = *value;
            element.sample_time = *sample_time;
            element.last_seen = now;
            element.keep_firing_since = None;
            if element.phase == AlertPhase::Pending
                && now.duration_since(element.active_at) >= self.hold
            {
                element.phase = AlertPhase::Firing;
                element.firing_since = Some(now);
                evaluation
                    .newly_firing
                    .push(element.alert(labels, now, kept));
            }
        }
    }

    fn unchanged(&mut self, now: Timestamp, unknown: Unknown) -> Evaluation {
        self.last_error = Some(unknown.clone());
        Evaluation {
            firing: self.firing(now),
            error: Some(unknown),
            ..Evaluation::default()
        }
    }

    /// The alerts that fire, as they are at an evaluation.
    pub fn firing(&self, now: Timestamp) -> Vec<Alert> {
        let kept = self.kept();
        self.active
            .iter()
            .filter(|(_, element)| element.phase == AlertPhase::Firing)
            .map(|(labels, element)| element.alert(labels, now, kept))
            .collect()
    }

    /// Gives each sample its identity.
    fn identify(&self, answer: &Answer) -> Result<Seen, Unknown> {
        let mut seen = Seen {
            series: answer.samples.len() as u64,
            ..Seen::default()
        };
        for sample in &answer.samples {
            let labels = self.identity(sample);
            if seen.numbers.contains_key(&labels) || seen.without_number.contains(&labels) {
                return Err(Unknown::new(
                    UnknownReason::DuplicateLabelSet,
                    format!("two series have the labels {}", show(&labels)),
                ));
            }
            match sample.number() {
                Some(value) => {
                    seen.numbers.insert(labels, (value, sample.at));
                }
                None => {
                    seen.without_number.insert(labels);
                }
            }
        }
        Ok(seen)
    }

    fn identity(&self, sample: &Sample) -> Labels {
        let value = match sample.value {
            SampleValue::Float(value) => value,
            SampleValue::Histogram => 0.0,
        };
        let mut labels = sample.labels.clone();
        labels.remove("__name__");
        for (name, template) in &self.labels {
            labels.insert(name.clone(), template.expand(&sample.labels, value));
        }
        labels.insert("alertname".to_owned(), self.alert.clone());
        // An empty label is no label.
        labels.retain(|_, text| !text.is_empty());
        labels
    }

    /// When the rule was last evaluated.
    pub fn last_evaluation(&self) -> Option<Timestamp> {
        self.last_evaluation
    }

    /// Why the last evaluation is not known, if it is not.
    pub fn last_error(&self) -> Option<&Unknown> {
        self.last_error.as_ref()
    }

    /// The state as it is written to the object.
    pub fn status(&self) -> RuleStatus {
        let phase = if self.last_error.is_some() {
            RulePhase::Degraded
        } else if self
            .active
            .values()
            .any(|element| element.phase == AlertPhase::Firing)
        {
            RulePhase::Firing
        } else if self.active.is_empty() {
            RulePhase::Inactive
        } else {
            RulePhase::Pending
        };
        // What fires is written first: where the status is full, a pending alert is the smaller loss.
        let mut elements: Vec<_> = self.active.iter().collect();
        elements.sort_by_key(|(_, element)| element.phase == AlertPhase::Pending);
        RuleStatus {
            group: self.group.clone(),
            alert: self.alert.clone(),
            state: phase,
            reason: self
                .last_error
                .as_ref()
                .map(|error| error.reason.to_string()),
            series_seen: self.series_seen,
            last_evaluation: self.last_evaluation.map(MicroTime),
            last_error: self
                .last_error
                .as_ref()
                .map(|error| error.detail.chars().take(1024).collect()),
            active: elements
                .into_iter()
                .take(STATUS_ALERTS)
                .map(|(labels, element)| ActiveAlert {
                    labels: labels.clone(),
                    state: element.phase,
                    active_at: Some(MicroTime(element.active_at)),
                    firing_since: element.firing_since.map(MicroTime),
                    keep_firing_since: element.keep_firing_since.map(MicroTime),
                    last_seen: Some(MicroTime(element.last_seen)),
                })
                .collect(),
        }
    }
}

/// The samples of an answer by identity.
#[derive(Default)]
struct Seen {
    series: u64,
    numbers: BTreeMap<Labels, (f64, Timestamp)>,
    without_number: BTreeSet<Labels>,
}

fn show(labels: &Labels) -> String {
    let pairs: Vec<_> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
