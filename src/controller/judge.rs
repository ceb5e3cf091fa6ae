//! What one rule makes of an answer: its alerts, whom they are about, and which faults are to be opened.

use jiff::{SignedDuration, Timestamp};

use super::opening::{Judgement, Opening};
use crate::api::fault::RuleRef;
use crate::api::rule::{Rule, RuleGroup, RuleStatus};
use crate::rules::activation::{Activation, Activations};
use crate::rules::alert::Evaluation;
use crate::rules::state::RuleState;
use crate::rules::subject::SubjectTemplates;
use crate::rules::template::{Dialect, Template, TemplateError};

/// A rule that can be evaluated.
pub(super) struct Judge {
    pub(super) state: RuleState,
    subjects: SubjectTemplates,
    message: Template,
    pub(super) activations: Activations,
}

impl Judge {
    /// Takes up the alerts of an earlier process.
    pub(super) fn new(
        group: &RuleGroup,
        rule: &Rule,
        interval: SignedDuration,
        saved: Option<&RuleStatus>,
        now: Timestamp,
    ) -> Result<Self, TemplateError> {
        let state = RuleState::new(group, rule, interval)?;
        let message = ["summary", "description"]
            .into_iter()
            .find_map(|name| rule.annotations.get(name))
            .unwrap_or(&rule.alert);
        Ok(Self {
            state: match saved {
                Some(status) => state.restored(status, now),
                None => state,
            },
            subjects: SubjectTemplates::new(&rule.remediation)?,
            message: Template::parse(message, Dialect::Alert)?,
            activations: Activations::default(),
        })
    }

    /// What an evaluation showed.
    pub(super) fn judgement(
        &self,
        reference: &RuleRef,
        slot: Timestamp,
        evaluation: &Evaluation,
    ) -> Judgement {
        let subject = |labels| self.subjects.resolve(labels).ok();
        let firing = evaluation.firing.iter();
        let firing = firing.filter_map(|alert| Some((subject(&alert.labels)?, alert.clone())));
        let (stale, firing): (Vec<_>, Vec<_>) = firing.partition(|(_, alert)| alert.stale);
        Judgement {
            rule: reference.clone(),
            at: slot,
            known: evaluation.error.is_none(),
            firing,
            stale: stale.into_iter().map(|(subject, _)| subject).collect(),
            unclear: evaluation.unclear.iter().filter_map(subject).collect(),
        }
    }

    /// The faults that are to be opened, and why an alert names no node.
    pub(super) fn openings(
        &mut self,
        rule: &Rule,
        reference: &RuleRef,
        evaluation: &Evaluation,
        node_uid: impl Fn(&str) -> Option<String>,
    ) -> (Vec<(Activation, Opening)>, Option<String>) {
        let (mut complaint, mut firing) = (None, Vec::new());
        for alert in &evaluation.firing {
            match self.subjects.resolve(&alert.labels) {
                Ok(subject) => firing.push((subject, alert.clone())),
                Err(error) => complaint = Some(error.to_string()),
            }
        }
        let unopened = self.activations.firing(firing, node_uid);
        let openings = unopened
            .into_iter()
            .map(|(activation, subject, alert)| {
                let opening = Opening {
                    rule: reference.clone(),
                    policy: rule.remediation.policy.clone(),
                    subject,
                    message: self.message.expand(&alert.labels, alert.value),
                    alert,
                    expr: rule.expr.clone(),
                };
                (activation, opening)
            })
            .collect();
        (openings, complaint)
    }
}
