//! The Eviction API, `policy/v1`: the disruption budgets decide.

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::Deletion;
use super::refusal::Refusal;
use super::resources::{POD_DISRUPTION_BUDGETS, PODS};
use super::selector::label_selector_matches;
use super::state::{Access, Entry, Key, State};
use super::write::Preconditions;

const WOULD_VIOLATE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const SEVERAL: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
/// How many evictions a budget may have in flight.
const MOST_DISRUPTED: usize = 2000;

impl State {
    /// Evicts a pod, or says why not.
    pub(super) fn evict(
        &mut self,
        access: &Access,
        key: &Key,
        eviction: &Value,
    ) -> Result<(), Refusal> {
        if eviction["metadata"]["name"].as_str().unwrap_or_default() != key.1 {
            return Err(Refusal::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let pod = self
            .get(PODS, key)
            .cloned()
            .ok_or_else(|| Refusal::not_found(PODS, &key.1))?;
        let options = &eviction["deleteOptions"];
        let mut deletion = Deletion::parse(options)?;
        if !needs_no_budget(&pod.value) {
            let budgets = self.budgets_of(&pod.value);
            if budgets.len() > 1 {
                return Err(Refusal::new(500, "", SEVERAL));
            }
            if let Some((budget_key, budget)) = budgets.into_iter().next()
                && (is_ready(&pod.value) || !unhealthy_may_go(&budget.value))
            {
                self.take_from(access, &budget_key, &budget, &key.1)?;
            }
        }
        if !access.dry_run && pod.value["metadata"]["deletionTimestamp"].is_null() {
            deletion.preconditions.check(PODS, &key.1, &pod.value)?;
            self.mark_as_disrupted(access, key)?;
            // The condition made a new revision.
            deletion.preconditions = Preconditions {
                uid: deletion.preconditions.uid,
                resource_version: None,
            };
        }
        self.delete(access, PODS, key, &deletion)?;
        Ok(())
    }

    fn budgets_of(&self, pod: &Value) -> Vec<(Key, Arc<Entry>)> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let labels = &pod["metadata"]["labels"];
        let from = (namespace.to_owned(), String::new());
        self.table(POD_DISRUPTION_BUDGETS)
            .objects
            .range(from..)
            .take_while(|(key, _)| key.0 == namespace)
            .filter(|(_, budget)| {
                let selector = &budget.value["spec"]["selector"];
                selector.is_object() && label_selector_matches(selector, labels)
            })
            .map(|(key, budget)| (key.clone(), budget.clone()))
            .collect()
    }

    /// Takes one disruption from a budget.
    fn take_from(
        &mut self,
        access: &Access,
        key: &Key,
        budget: &Entry,
        pod: &str,
    ) -> Result<(), Refusal> {
        let (name, status) = (&key.1, &budget.value["status"]);
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        let generation = budget.value["metadata"]["generation"].as_i64().unwrap_or(0);
        if number("observedGeneration") < generation {
            let why =
                format!("The disruption budget {name} is still being processed by the server.");
            return Err(blocked(&why, Some(10)));
        }
        let forbidden = |why: &str| {
            let message = format!(
                "{} {name:?} is forbidden: {why}",
                POD_DISRUPTION_BUDGETS.qualified()
            );
            Refusal::new(403, "Forbidden", message)
        };
        if number("disruptionsAllowed") < 0 {
            return Err(forbidden("pdb disruptions allowed is negative"));
        }
        let disrupted = status["disruptedPods"].as_object();
        if disrupted.is_some_and(|d| d.len() > MOST_DISRUPTED) {
            return Err(forbidden(
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            ));
        }
        if number("disruptionsAllowed") == 0 {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let failed = conditions.find(|c| {
                c["type"] == "DisruptionAllowed"
                    && c["status"] == "False"
                    && c["reason"] == "SyncFailed"
            });
            let why = match failed {
                Some(condition) => format!(
                    "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
                    condition["message"].as_str().unwrap_or_default()
                ),
                None if number("currentHealthy") > number("desiredHealthy") => {
                    format!("The disruption budget {name} does not allow evicting pods currently")
                }
                None => format!(
                    "The disruption budget {name} needs {} healthy pods and has {} currently",
                    number("desiredHealthy"),
                    number("currentHealthy")
                ),
            };
            return Err(blocked(&why, None));
        }
        if access.dry_run {
            return Ok(());
        }
        let now = self.now();
        let access = Access {
            subresource: Some("status"),
            ..access.clone()
        };
        self.update(&access, POD_DISRUPTION_BUDGETS, key, |budget| {
            let mut budget = budget.clone();
            let status = &mut budget["status"];
            let left = status["disruptionsAllowed"].as_i64().unwrap_or(0) - 1;
            status["disruptionsAllowed"] = json!(left);
            status["disruptedPods"][pod] = json!(now);
            if left == 0 {
                let observed = status["observedGeneration"].clone();
                set_condition(
                    status,
                    json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                        "message": "", "observedGeneration": observed, "lastTransitionTime": now}),
                );
            }
            Ok(budget)
        })?;
        Ok(())
    }

    fn mark_as_disrupted(&mut self, access: &Access, key: &Key) -> Result<(), Refusal> {
        let now = self.now();
        let access = Access {
            subresource: Some("eviction"),
            ..access.clone()
        };
        let Some(pod) = self.get(PODS, key) else {
            return Ok(());
        };
        let mut pod = (*pod.value).clone();
        set_condition(
            &mut pod["status"],
            json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastTransitionTime": now, "lastProbeTime": null}),
        );
        self.put(&access, PODS, key, Some(pod));
        Ok(())
    }
}

fn set_condition(status: &mut Value, condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    if let Some(conditions) = status["conditions"].as_array_mut() {
        match conditions
            .iter_mut()
            .find(|c| c["type"] == condition["type"])
        {
            Some(present) if present["status"] == condition["status"] => {
                let since = present["lastTransitionTime"].take();
                *present = condition;
                present["lastTransitionTime"] = since;
            }
            Some(present) => *present = condition,
            None => conditions.push(condition),
        }
    }
}

/// A pod that has ended, has not begun or is ending already costs no disruption.
fn needs_no_budget(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str();
    matches!(phase, Some("Succeeded" | "Failed" | "Pending"))
        || !pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// May a pod that is not healthy go without costing a disruption?
fn unhealthy_may_go(budget: &Value) -> bool {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0)
}

fn blocked(why: &str, retry_after_seconds: Option<u32>) -> Refusal {
    let causes = json!([{"reason": "DisruptionBudget", "message": why}]);
    Refusal::new(429, "TooManyRequests", WOULD_VIOLATE).with_causes(causes, retry_after_seconds)
}
