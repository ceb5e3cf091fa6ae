//! Asks the guards of a policy, remembers each answer for a moment, and latches a `stopIf` that has come true.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::metrics::{GuardLabels, Metrics};
use crate::api::conditions;
use crate::api::names;
use crate::api::policy::{Guard, RemediationPolicyStatus};
use crate::api::{RemediationPolicy, RemediationPolicySpec};
use crate::guards::condition::Condition;
use crate::guards::truth::{Truth, Verdict};
use crate::kubernetes::clients::{ApiError, call};
use crate::prometheus::client::Client as Prometheus;
use crate::prometheus::condition::ask;
use crate::remediation::world::GuardFindings;

/// How long an answer serves: many faults of one policy ask within the same second.
const FRESH: Duration = Duration::from_millis(900);

/// The answers that were given lately, by policy. One asks, the others wait for its answer.
pub struct GuardBook {
    prometheus: Prometheus,
    metrics: Metrics,
    answers: Mutex<HashMap<String, Answered>>,
}

struct Answered {
    spec: RemediationPolicySpec,
    at: Instant,
    findings: GuardFindings,
}

impl GuardBook {
    /// No answers yet.
    pub fn new(prometheus: Prometheus, metrics: Metrics) -> Self {
        Self {
            prometheus,
            metrics,
            answers: Mutex::default(),
        }
    }

    /// What the policy's guards say now.
    pub async fn ask(
        &self,
        policy: &str,
        spec: &RemediationPolicySpec,
        now: Timestamp,
    ) -> GuardFindings {
        let mut answers = self.answers.lock().await;
        if let Some(answered) = answers.get(policy)
            && answered.at.elapsed() < FRESH
            && answered.spec == *spec
        {
            return answered.findings.clone();
        }
        let (stop, pause) = tokio::join!(
            self.ask_all(policy, "stopIf", &spec.guards.stop_if, now),
            self.ask_all(policy, "pauseIf", &spec.guards.pause_if, now),
        );
        let first = |list: &[(String, Verdict)], truth: Truth| {
            list.iter()
                .find(|(_, v)| v.truth == truth)
                .map(|(name, v)| (name.clone(), v.detail.clone()))
        };
        let findings = GuardFindings {
            stop: first(&stop, Truth::True),
            pause: first(&pause, Truth::True),
            unknown: first(&stop, Truth::Unknown).or_else(|| first(&pause, Truth::Unknown)),
        };
        if let Some(before) = answers.get(policy) {
            self.forget_guards(policy, &before.spec, Some(spec));
        }
        let answered = Answered {
            spec: spec.clone(),
            at: Instant::now(),
            findings: findings.clone(),
        };
        answers.insert(policy.to_string(), answered);
        findings
    }

    /// Forgets the policies that no longer exist, and what their guards said.
    pub async fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut answers = self.answers.lock().await;
        answers.retain(|policy, answered| {
            let keep = exists(policy);
            if !keep {
                self.forget_guards(policy, &answered.spec, None);
            }
            keep
        });
    }

    /// A guard that is gone must not go on showing what it said last.
    fn forget_guards(
        &self,
        policy: &str,
        before: &RemediationPolicySpec,
        now: Option<&RemediationPolicySpec>,
    ) {
        type Pick = fn(&RemediationPolicySpec) -> &[Guard];
        let kinds: [(&'static str, Pick); 2] = [
            ("stopIf", |s| &s.guards.stop_if),
            ("pauseIf", |s| &s.guards.pause_if),
        ];
        for (kind, pick) in kinds {
            for guard in pick(before) {
                if !now.is_some_and(|n| pick(n).iter().any(|g| g.name == guard.name)) {
                    self.metrics.guard_state.remove(&GuardLabels {
                        policy: policy.to_string(),
                        guard: guard.name.clone(),
                        kind,
                    });
                }
            }
        }
    }

    async fn ask_all(
        &self,
        policy: &str,
        kind: &'static str,
        guards: &[Guard],
        now: Timestamp,
    ) -> Vec<(String, Verdict)> {
        join_all(guards.iter().map(async |guard| {
            let verdict = ask(&self.prometheus, &Condition::guard(&guard.expr), now).await;
            let labels = GuardLabels {
                policy: policy.to_string(),
                guard: guard.name.clone(),
                kind,
            };
            self.metrics
                .guard_state
                .get_or_create(&labels)
                .set(match verdict.truth {
                    Truth::True => 1,
                    Truth::False => 0,
                    Truth::Unknown => -1,
                });
            (guard.name.clone(), verdict)
        }))
        .await
    }
}

/// Writes down that a guard has stopped the policy. From then on it holds until a person resumes it, whatever the guard
/// says.
pub async fn latch(
    client: &Client,
    policy: &RemediationPolicy,
    guard: &str,
    detail: &str,
    now: Timestamp,
) -> Result<(), ApiError> {
    let mut status = policy.status.clone().unwrap_or_default();
    if status.is_stopped() {
        return Ok(());
    }
    status.stopped_by = Some(guard.to_string());
    status.stopped_at = Some(now);
    let message = format!("Guard {guard:?} was true: {detail}");
    let generation = policy.metadata.generation;
    conditions::set(
        &mut status.conditions,
        conditions::STOPPED,
        Some(true),
        "StoppedByGuard",
        &message,
        generation,
        now,
    );
    write(client, policy, &status).await
}

/// A person has resumed the policy: the latch is released, then the annotation is removed. In this order a crash in
/// between only releases it once more.
pub async fn resume(
    client: &Client,
    policy: &RemediationPolicy,
    now: Timestamp,
) -> Result<(), ApiError> {
    let mut status = policy.status.clone().unwrap_or_default();
    if status.is_stopped() {
        status.stopped_by = None;
        status.stopped_at = None;
        let generation = policy.metadata.generation;
        let message = "A person resumed the policy";
        conditions::set(
            &mut status.conditions,
            conditions::STOPPED,
            Some(false),
            "Resumed",
            message,
            generation,
            now,
        );
        write(client, policy, &status).await?;
    }
    let api: Api<RemediationPolicy> = Api::all(client.clone());
    let patch = json!({"metadata": {"annotations": {names::RESUME_ANNOTATION: null}}});
    let name = policy.metadata.name.clone().unwrap_or_default();
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
    call(
        "removing a resume annotation",
        api.patch(&name, &parameters, &patch),
    )
    .await?;
    Ok(())
}

async fn write(
    client: &Client,
    policy: &RemediationPolicy,
    status: &RemediationPolicyStatus,
) -> Result<(), ApiError> {
    let api: Api<RemediationPolicy> = Api::all(client.clone());
    let name = policy.metadata.name.clone().unwrap_or_default();
    // Explicit nulls: a merge patch keeps what it does not name.
    let patch = json!({"status": {
        "conditions": status.conditions,
        "stoppedBy": status.stopped_by,
        "stoppedAt": status.stopped_at,
    }});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
    call(
        "writing a policy's status",
        api.patch_status(&name, &parameters, &patch),
    )
    .await?;
    Ok(())
}
