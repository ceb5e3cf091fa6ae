//! One rule group: its rules, asked at the same evaluation time, and what follows from the answers.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};

use super::judge::Judge;
use super::opening::{FaultOpener, Judgement, OpenError, Opened};
use super::rule_metrics::{NO_NODE_LABEL, OPEN_FAILED, POLICY_NOT_FOUND, RuleLabels, RuleMetrics};
use crate::api::fault::RuleRef;
use crate::api::rule::{Rule, RuleGroup, RulePhase, RuleStatus};
use crate::clock::Clock;
use crate::prometheus::client::Client;
use crate::rules::activation::Activation;
use crate::rules::answer::{Answer, Unknown, UnknownReason};
use crate::rules::state::longest_gap;
use crate::rules::template::TemplateError;

/// How many queries of one group are under way at once.
const QUERIES_AT_ONCE: usize = 8;

/// How many faults of one rule are opened at once.
const OPENINGS_AT_ONCE: usize = 16;

/// Tells whether there is a policy of a name.
pub type PolicyExists = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What the evaluation of a group needs from outside.
pub struct Surroundings<O> {
    /// The wall time.
    pub clock: Clock,
    /// The judge.
    pub prometheus: Client,
    /// Who opens faults.
    pub opener: Arc<O>,
    /// Whether there is a policy of a name.
    pub policy_exists: PolicyExists,
    /// Metrics.
    pub metrics: RuleMetrics,
}

/// A rule group under evaluation.
pub struct GroupRun {
    object: String,
    query_offset: SignedDuration,
    interval: SignedDuration,
    rules: Vec<RuleRun>,
}

struct RuleRun {
    rule: Rule,
    reference: RuleRef,
    labels: RuleLabels,
    judge: Result<Judge, TemplateError>,
    /// Why the rule is Degraded although its answer can be trusted.
    complaint: Option<(&'static str, String)>,
}

impl GroupRun {
    /// A group of the object `object`, taking up the alerts of `before`.
    pub fn new(
        object: &str,
        group: &RuleGroup,
        interval: SignedDuration,
        before: &[RuleStatus],
        now: Timestamp,
    ) -> Self {
        let rules = group
            .rules
            .iter()
            .map(|rule| {
                let saved = before
                    .iter()
                    .find(|status| status.group == group.name && status.alert == rule.alert);
                RuleRun {
                    judge: Judge::new(group, rule, interval, saved, now),
                    reference: RuleRef {
                        name: object.to_owned(),
                        group: group.name.clone(),
                        alert: rule.alert.clone(),
                    },
                    labels: RuleLabels {
                        rule: object.to_owned(),
                        group: group.name.clone(),
                        alert: rule.alert.clone(),
                    },
                    rule: rule.clone(),
                    complaint: None,
                }
            })
            .collect();
        Self {
            object: object.to_owned(),
            query_offset: group
                .query_offset
                .map_or(SignedDuration::ZERO, |offset| offset.as_signed()),
            interval,
            rules,
        }
    }

    /// The labels of the group's metrics, one set for each rule.
    pub fn metric_labels(&self) -> impl Iterator<Item = &RuleLabels> {
        self.rules.iter().map(|rule| &rule.labels)
    }

    /// Asks every rule at the evaluation time `slot`, and opens what fires.
    ///
    /// `may_act` is asked again right before each opening: leadership may end while Prometheus is being waited for.
    pub async fn evaluate<O: FaultOpener>(
        &mut self,
        slot: Timestamp,
        surroundings: &Surroundings<O>,
        may_act: &(dyn Fn() -> bool + Sync),
    ) {
        let at = slot.saturating_sub(self.query_offset).unwrap_or(slot);
        let prometheus = &surroundings.prometheus;
        let expressions: Vec<String> = self
            .rules
            .iter()
            .map(|rule| rule.rule.expr.clone())
            .collect();
        let answers: Vec<Result<Answer, Unknown>> = stream::iter(expressions)
            .map(async |expr| {
                let answer = prometheus.query(&expr, at).await;
                let answered = answer
                    .as_ref()
                    .map_or_else(|error| error.is_answered(), |_| true);
                surroundings.metrics.prometheus_up(answered);
                answer.map_err(Unknown::from)
            })
            .buffered(QUERIES_AT_ONCE)
            .collect()
            .await;
        for (rule, answer) in self.rules.iter_mut().zip(answers) {
            let before = rule.complaint.as_ref().map(|(reason, _)| *reason);
            rule.judge(slot, &answer, surroundings, may_act).await;
            rule.report(before, surroundings);
        }
    }

    /// The state of each rule as it is written to the object.
    pub fn statuses(&self, now: Timestamp) -> Vec<RuleStatus> {
        let oldest = now
            .saturating_sub(longest_gap(self.interval))
            .unwrap_or(Timestamp::MIN);
        self.rules.iter().map(|rule| rule.status(oldest)).collect()
    }

    /// The name of the object that the group belongs to.
    pub fn object(&self) -> &str {
        &self.object
    }
}

/// What there is to say of a rule that cannot be evaluated.
fn nothing_known(rule: &RuleRef, slot: Timestamp) -> Judgement {
    Judgement {
        rule: rule.clone(),
        at: slot,
        known: false,
        firing: Vec::new(),
        stale: Vec::new(),
        unclear: Vec::new(),
    }
}

/// An activation, the UID of its node's object, and what became of its opening, if that was tried.
type Tried = (
    Activation,
    Option<String>,
    Option<Result<Opened, OpenError>>,
);

impl RuleRun {
    async fn judge<O: FaultOpener>(
        &mut self,
        slot: Timestamp,
        answer: &Result<Answer, Unknown>,
        surroundings: &Surroundings<O>,
        may_act: &(dyn Fn() -> bool + Sync),
    ) {
        let metrics = &surroundings.metrics;
        let Ok(judge) = &mut self.judge else {
            metrics.evaluated(&self.labels, slot, Some(UnknownReason::TemplateFailed));
            // The rule may have fired before it was edited.
            surroundings
                .opener
                .judged(nothing_known(&self.reference, slot))
                .await;
            return;
        };
        let before = judge.state.last_error().map(|error| error.reason);
        let evaluation = judge.state.evaluate(slot, answer);
        let failed = evaluation.error.as_ref().map(|error| error.reason);
        metrics.evaluated(&self.labels, slot, failed);
        // The counter tells how often; the log tells when it began.
        if let Some(error) = &evaluation.error
            && failed != before
        {
            tracing::warn!(
                rule = %self.reference.name, alert = %self.reference.alert, reason = %error.reason, error = %error.detail,
                "a rule has no trustworthy answer; nothing opens and nothing closes on it"
            );
        }
        let judgement = judge.judgement(&self.reference, slot, &evaluation);
        surroundings.opener.judged(judgement).await;
        self.complaint = None;
        if evaluation.error.is_some() {
            return;
        }
        let node_uid = |node: &str| surroundings.opener.node_uid(node);
        let (openings, nodeless) =
            judge.openings(&self.rule, &self.reference, &evaluation, node_uid);
        if let Some(message) = nodeless {
            self.complaint = Some((NO_NODE_LABEL, message));
        }
        if !(surroundings.policy_exists)(&self.rule.remediation.policy) {
            self.complaint = Some((
                POLICY_NOT_FOUND,
                format!(
                    "there is no RemediationPolicy {}",
                    self.rule.remediation.policy
                ),
            ));
            return;
        }
        let results: Vec<_> = stream::iter(openings)
            .map(async |(activation, opening)| {
                // Looked at before: a node that is replaced meanwhile is looked at again.
                let node_uid = surroundings.opener.node_uid(&opening.subject.node);
                if !may_act() {
                    return (activation, node_uid, None);
                }
                let result = surroundings.opener.open(opening).await;
                (activation, node_uid, Some(result))
            })
            .buffer_unordered(OPENINGS_AT_ONCE)
            .collect()
            .await;
        self.note(results);
    }

    /// Makes a rule that fires in vain heard: the metric tells for how long, the log and an Event when it began.
    fn report<O: FaultOpener>(&self, before: Option<&'static str>, surroundings: &Surroundings<O>) {
        let reason = match (&self.judge, &self.complaint) {
            (Err(_), _) => Some(UnknownReason::TemplateFailed.as_str()),
            (Ok(_), complaint) => complaint.as_ref().map(|(reason, _)| *reason),
        };
        surroundings.metrics.degraded(&self.labels, reason);
        if let Some((reason, message)) = &self.complaint
            && before != Some(*reason)
        {
            tracing::warn!(
                rule = %self.reference.name, alert = %self.reference.alert, reason, error = %message,
                "a rule cannot open what it finds"
            );
            surroundings
                .opener
                .in_vain(&self.reference, reason, message);
        }
    }

    /// Remembers what was opened; the rest is tried again at the next evaluation.
    fn note(&mut self, results: Vec<Tried>) {
        let Ok(judge) = &mut self.judge else { return };
        for (activation, node_uid, result) in results {
            match result {
                // Asked again at each evaluation: the machine that is there now may have the same fault.
                Some(Ok(Opened::OfAnEarlierMachine)) | None => {}
                Some(Ok(outcome)) => {
                    tracing::info!(
                        rule = %self.reference.name, alert = %self.reference.alert, ?outcome, activation = ?activation,
                        "a rule fires"
                    );
                    judge.activations.opened(activation, node_uid);
                }
                Some(Err(error)) => {
                    let cause = error.source.to_string();
                    tracing::warn!(
                        rule = %self.reference.name, alert = %self.reference.alert, %error, %cause,
                        "a fault could not be opened; it is tried again at the next evaluation"
                    );
                    self.complaint = Some((OPEN_FAILED, format!("{error}: {cause}")));
                }
            }
        }
    }

    fn status(&self, oldest: Timestamp) -> RuleStatus {
        let judge = match &self.judge {
            Ok(judge) => judge,
            Err(error) => {
                return RuleStatus {
                    group: self.reference.group.clone(),
                    alert: self.reference.alert.clone(),
                    state: RulePhase::Degraded,
                    reason: Some(UnknownReason::TemplateFailed.to_string()),
                    last_error: Some(error.to_string()),
                    ..RuleStatus::default()
                };
            }
        };
        let mut status = judge.state.status();
        let old = judge
            .state
            .last_evaluation()
            .is_some_and(|last| last < oldest);
        let complaint = if old {
            Some((
                UnknownReason::TooOld.as_str(),
                "the last evaluation is too old".to_owned(),
            ))
        } else {
            self.complaint
                .clone()
                .filter(|_| status.last_error.is_none())
        };
        if let Some((reason, message)) = complaint {
            status.state = RulePhase::Degraded;
            status.reason = Some(reason.to_owned());
            status.last_error = Some(message.chars().take(1024).collect());
        }
        status
    }
}

#[cfg(test)]
#[path = "rule_group_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "rule_group_evidence_tests.rs"]
mod evidence_tests;
