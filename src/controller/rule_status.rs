//! Writes the status of a `GpuFaultRule` when it says something new, and otherwise seldom.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::api::conditions;
use crate::api::rule::{AlertPhase, GpuFaultRule, GpuFaultRuleStatus, RulePhase, RuleStatus};
use crate::kubernetes::clients::{ApiError, call};

/// The owner of the fields that are written.
const FIELD_MANAGER: &str = "gpu-remediator-rules";

/// Whether every rule of the object can be judged.
const READY: &str = "Ready";

/// How long nothing is written when nothing has changed.
const SELDOM: SignedDuration = SignedDuration::from_secs(60);

/// The same while an alert is pending: a restart then must know that it was seen a short while ago, or `for` begins anew.
const WHILE_PENDING: SignedDuration = SignedDuration::from_secs(10);

/// How often a write is tried again because the object was changed in between.
const TRIES: usize = 5;

/// Writes the status of one object.
pub struct StatusWriter {
    api: Api<GpuFaultRule>,
    name: String,
    uid: Option<String>,
    /// The version of the object that was seen last. It ties a write to this object: the API server does not look at the
    /// UID in an apply of a status.
    version: Option<String>,
    generation: Option<i64>,
    conditions: Vec<Condition>,
    written: Option<(Vec<RuleStatus>, Timestamp)>,
}

impl StatusWriter {
    /// A writer for the object as it is now.
    pub fn new(client: Client, object: &GpuFaultRule) -> Self {
        Self {
            api: Api::all(client),
            name: object.name_any(),
            uid: object.metadata.uid.clone(),
            version: object.metadata.resource_version.clone(),
            generation: object.metadata.generation,
            conditions: object
                .status
                .as_ref()
                .map(|status| status.conditions.clone())
                .unwrap_or_default(),
            written: None,
        }
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes the states, if they are news or the last writing is long ago. Nothing is written on another object of the same
    /// name: whoever judges that one tells its state.
    ///
    /// # Errors
    ///
    /// When the API server does not take it; the next call then writes it.
    pub async fn write(&mut self, rules: Vec<RuleStatus>, now: Timestamp) -> Result<(), ApiError> {
        if !self.is_due(&rules, now) {
            return Ok(());
        }
        let mut conditions = self.conditions.clone();
        let degraded = rules.iter().find(|rule| rule.state == RulePhase::Degraded);
        let evaluated = rules.iter().all(|rule| rule.last_evaluation.is_some());
        let (ready, reason, message) = match degraded {
            Some(rule) => (
                Some(false),
                rule.reason.as_deref().unwrap_or("Degraded"),
                format!(
                    "{}: {}",
                    rule.alert,
                    rule.last_error.as_deref().unwrap_or("")
                ),
            ),
            None if evaluated => (
                Some(true),
                "Evaluated",
                "every rule is evaluated".to_owned(),
            ),
            None => (
                None,
                "NotEvaluated",
                "not every rule has been evaluated yet".to_owned(),
            ),
        };
        conditions::set(
            &mut conditions,
            READY,
            ready,
            reason,
            &message,
            self.generation,
            now,
        );
        let status = GpuFaultRuleStatus {
            observed_generation: self.generation,
            conditions,
            rules,
        };
        self.apply(&status).await?;
        self.conditions = status.conditions;
        self.written = Some((status.rules, now));
        Ok(())
    }

    async fn apply(&mut self, status: &GpuFaultRuleStatus) -> Result<(), ApiError> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let patch = json!({
                "apiVersion": "gpu-remediator.dev/v1alpha1",
                "kind": "GpuFaultRule",
                "metadata": {"name": self.name, "resourceVersion": self.version},
                "status": status,
            });
            let parameters = PatchParams::apply(FIELD_MANAGER).force();
            let patch = Patch::Apply(&patch);
            let request = self.api.patch_status(&self.name, &parameters, &patch);
            match call("writing a rule's status", request).await {
                Ok(written) => {
                    self.version = written.metadata.resource_version;
                    return Ok(());
                }
                // Somebody has changed the object, or it is another one.
                Err(error) if error.is_conflict() && tries > 0 => {}
                Err(error) => return Err(error),
            }
            let found = call("reading a rule", self.api.get_metadata_opt(&self.name)).await?;
            match found {
                Some(found) if found.metadata.uid == self.uid => {
                    self.version = found.metadata.resource_version;
                }
                _ => return Ok(()),
            }
        }
    }

    fn is_due(&self, rules: &[RuleStatus], now: Timestamp) -> bool {
        let Some((written, at)) = &self.written else {
            return true;
        };
        let pending = rules
            .iter()
            .flat_map(|rule| &rule.active)
            .any(|alert| alert.state == AlertPhase::Pending);
        // A clock that was ahead is not waited for.
        let age = now.duration_since(*at).abs();
        age >= SELDOM
            || (pending && age >= WHILE_PENDING)
            || written.len() != rules.len()
            || written
                .iter()
                .zip(rules)
                .any(|(old, new)| news(old) != news(new))
    }
}

/// The status without the times that move at each evaluation, and without the count that may.
fn news(status: &RuleStatus) -> RuleStatus {
    let mut news = status.clone();
    // The first evaluation is news, the ones after it are not.
    news.last_evaluation = None;
    news.series_seen = u64::from(status.last_evaluation.is_some());
    for alert in &mut news.active {
        alert.last_seen = None;
    }
    news
}
