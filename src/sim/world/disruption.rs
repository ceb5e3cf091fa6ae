//! The controller of PodDisruptionBudgets: how many disruptions each allows now.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::view::{Key, Pod, View};
use super::workloads::report;
use crate::sim::api_server::Store;
use crate::sim::api_server::resources::POD_DISRUPTION_BUDGETS;

/// How long an eviction that has not reached its pod counts (`DeletionTimeout` of the real controller).
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Looks at one budget.
pub(super) fn reconcile(
    view: &View,
    store: &Store,
    key: &Key,
    budget: &Arc<Value>,
    now: Timestamp,
) {
    let selects = |pod: &Pod| {
        let wanted = budget["spec"]["selector"]["matchLabels"].as_object();
        wanted.is_some_and(|wanted| {
            let labels = &pod.value["metadata"]["labels"];
            wanted.iter().all(|(name, value)| &labels[name] == value)
        })
    };
    let namespace = view.pods.range((key.0.clone(), String::new())..);
    let covered: Vec<(&Key, &Pod)> = namespace
        .take_while(|(pod, _)| pod.0 == key.0)
        .filter(|(_, pod)| selects(pod) && !pod.finished)
        .collect();
    // Evictions that the API server let through and that no pod shows yet.
    let mut disrupted = BTreeMap::new();
    let noted = budget["status"]["disruptedPods"].as_object();
    for (name, since) in noted.into_iter().flatten() {
        let pod = covered.iter().find(|(key, _)| key.1 == *name);
        let since = since.as_str().and_then(|t| t.parse::<Timestamp>().ok());
        let is_new = since.is_some_and(|t| now.duration_since(t) < DELETION_TIMEOUT);
        if is_new && pod.is_some_and(|(_, pod)| !pod.deleting) {
            disrupted.insert(
                name.clone(),
                budget["status"]["disruptedPods"][name].clone(),
            );
        }
    }
    let healthy = covered
        .iter()
        .filter(|(key, pod)| pod.ready && !pod.deleting && !disrupted.contains_key(&key.1))
        .count();
    let expected = expected(view, &covered);
    let share = |value: &Value| -> Option<usize> {
        if let Some(number) = value.as_u64() {
            return usize::try_from(number).ok();
        }
        let percent: usize = value.as_str()?.strip_suffix('%')?.parse().ok()?;
        // Rounded up, as GetScaledValueFromIntOrPercent does for budgets.
        Some((expected * percent).div_ceil(100))
    };
    let spec = &budget["spec"];
    let desired = match (share(&spec["minAvailable"]), share(&spec["maxUnavailable"])) {
        (Some(least), _) => least,
        (None, Some(most)) => expected.saturating_sub(most),
        (None, None) => 0,
    };
    let allowed = if expected == 0 {
        0
    } else {
        healthy.saturating_sub(desired)
    };
    let mut status = json!({
        "observedGeneration": budget["metadata"]["generation"],
        "currentHealthy": healthy, "desiredHealthy": desired,
        "disruptionsAllowed": allowed, "expectedPods": expected,
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = json!(disrupted);
    }
    if let Some(conditions) = budget["status"].get("conditions") {
        status["conditions"] = conditions.clone();
    }
    report(store, POD_DISRUPTION_BUDGETS, key, budget, status);
}

/// How many pods the owners of the covered pods want, each owner counted once; a pod without an owner counts itself.
fn expected(view: &View, covered: &[(&Key, &Pod)]) -> usize {
    let mut owners = BTreeMap::new();
    for (key, pod) in covered {
        let Some(owner) = pod.owner.as_ref().and_then(|uid| view.owner(uid)) else {
            owners.insert(format!("pod {}", key.1), 1);
            continue;
        };
        let (place, object) = owner;
        let count = match place {
            4 => object["spec"]["parallelism"].as_u64(),
            _ => object["spec"]["replicas"].as_u64(),
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        owners.insert(
            uid.to_owned(),
            usize::try_from(count.unwrap_or(1)).unwrap_or(0),
        );
    }
    owners.values().sum()
}
