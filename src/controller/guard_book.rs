//! Asks the guards of a policy, remembers each answer for a moment, and latches a `stopIf` that has come true.

use std::collections::HashMap;
use std::sync::Arc;
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
use crate::guards::truth::{Truth, Verdict};
use crate::kubernetes::clients::{ApiError, call};
use crate::prometheus::client::Client as Prometheus;
use crate::prometheus::condition::{Conditions, ask};
use crate::remediation::world::GuardFindings;

/// How long an answer serves: many faults of one policy ask within the same second.
const FRESH: Duration = Duration::from_millis(900);

/// The answers that were given lately, by policy. Of those who want the same policy's, one asks and the others wait for its
/// answer. Other policies do not wait: a guard that runs into its timeout holds nothing but its own policy.
pub struct GuardBook {
    prometheus: Prometheus,
    metrics: Metrics,
    conditions: Conditions,
    /// The outer lock is never held while Prometheus is asked.
    answers: Mutex<HashMap<String, Arc<Mutex<Option<Answered>>>>>,
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
            conditions: Conditions::default(),
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
        let slot = Arc::clone(
            self.answers
                .lock()
                .await
                .entry(policy.to_string())
                .or_default(),
        );
        let mut last = slot.lock().await;
        if let Some(answered) = last.as_ref()
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
        if let Some(before) = last.as_ref() {
            self.forget_guards(policy, &before.spec, Some(spec));
        }
        *last = Some(Answered {
            spec: spec.clone(),
            at: Instant::now(),
            findings: findings.clone(),
        });
        findings
    }

    /// Forgets the policies that no longer exist, and what their guards said.
    pub async fn retain(&self, exists: impl Fn(&str) -> bool) {
        let gone: Vec<_> = {
            let mut answers = self.answers.lock().await;
            let names: Vec<String> = answers
                .keys()
                .filter(|name| !exists(name))
                .cloned()
                .collect();
            names
                .into_iter()
                .filter_map(|name| answers.remove_entry(&name))
                .collect()
        };
        for (policy, slot) in gone {
            // Whoever is asking still must not show the series again afterwards.
            if let Some(answered) = slot.lock().await.take() {
                self.forget_guards(&policy, &answered.spec, None);
            }
        }
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
            let verdict = ask(&self.prometheus, &self.conditions.guard(&guard.expr), now).await;
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use futures::FutureExt;
    use prometheus_client::registry::Registry;
    use wiremock::matchers::body_string_contains;
    use wiremock::{Mock, MockServer, ResponseTemplate};

    use super::*;
    use crate::prometheus::client::Options;

    fn spec(expr: &str) -> RemediationPolicySpec {
        serde_json::from_value(json!({
            "guards": {"pauseIf": [{"name": "guard", "expr": expr}]},
            "steps": [{"cordon": {}}],
            "recovery": {"healthy": {"expr": "x == 1", "for": "1m"}},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn a_guard_without_an_answer_does_not_hold_up_other_policies() {
        let server = MockServer::start().await;
        let empty = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
        Mock::given(body_string_contains("slow"))
            .respond_with(
                ResponseTemplate::new(200)
                    .set_body_string(empty)
                    .set_delay(Duration::from_secs(60)),
            )
            .mount(&server)
            .await;
        Mock::given(body_string_contains("quick"))
            .respond_with(ResponseTemplate::new(200).set_body_string(empty))
            .mount(&server)
            .await;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let book = GuardBook::new(
            Prometheus::new(Options::new(server.uri())).unwrap(),
            metrics,
        );
        let now = Timestamp::UNIX_EPOCH;
        let (slow, quick) = (spec("slow > 1"), spec("quick > 1"));
        let mut asking = Box::pin(book.ask("slow", &slow, now));
        assert!((&mut asking).now_or_never().is_none());
        let findings = tokio::select! {
            biased;
            _ = &mut asking => panic!("the slow guard answered first"),
            findings = book.ask("quick", &quick, now) => findings,
        };
        // The metric does not exist, so the guard is Unknown.
        assert_eq!(findings.unknown.unwrap().0, "guard");
        let text = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text
        };
        assert!(text(&registry).contains("gpu_remediator_guard_state{policy=\"quick\""));
        book.retain(|policy| policy == "slow").await;
        assert!(!text(&registry).contains("gpu_remediator_guard_state{policy=\"quick\""));
    }
}
