//! Who is on the stage: rules, the policy and what it guards.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use serde_json::{Value, json};

use super::scenario::Scenario;
use crate::api::policy::Guard;
use crate::api::{GpuFaultRule, RemediationPolicy};
use crate::sim::api_server::Resource;
use crate::sim::api_server::resources::{GPU_FAULT_RULES, NAMESPACES, REMEDIATION_POLICIES};

/// What the reader is told at the beginning.
pub const DESCRIPTION: &str = "\
Six nodes of eight GPUs, an exporter on each, two controllers, Prometheus with a scrape each second, and
  Deployment inference/llm      6 replicas with 2 GPUs each, PodDisruptionBudget maxUnavailable 1
  StatefulSet training/trainer  3 replicas with 4 GPUs each
  Job batch/render              6 indexes with 1 GPU each
  Deployment web/frontend       6 replicas without a GPU
The rules and the policy are those that come with the product. Times are simulated, and counted from the fault.";

/// How long a technician needs to come.
pub const SPARE_TIME: Duration = Duration::from_secs(60);

/// Nodes.
pub const NODES: u32 = 6;
/// GPUs of each.
pub const GPUS: u32 = 8;
/// Replicas of Deployment `inference/llm`.
pub const LLM_REPLICAS: i64 = 6;
/// The StatefulSet's pods have names that begin so.
pub const TRAINER: &str = "trainer";
/// The share of requests that a service in trouble answers with an error.
pub const ERRORS: f64 = 0.2;
/// The same for a service that is well.
pub const FEW_ERRORS: f64 = 0.001;

/// The rules that come with the product.
const RULES: &str = include_str!("../../../rules/xid-fatal.yaml");
/// The policy that comes with the product.
const POLICY: &str = include_str!("../../../rules/policies/drain-node.yaml");

/// The namespaces of the story.
const NAMESPACES_USED: [&str; 5] = ["gpu-remediator", "inference", "training", "batch", "web"];

/// The shipped files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// One is no YAML of its kind.
    #[error("a rule file that is part of the program cannot be read")]
    Yaml(#[from] serde_saphyr::Error),
    /// One cannot be written as JSON.
    #[error("a rule file that is part of the program cannot be sent")]
    Json(#[from] serde_json::Error),
}

/// The shipped rules, as they are.
///
/// # Errors
///
/// They are no rules.
pub fn rules() -> Result<GpuFaultRule, Unreadable> {
    Ok(serde_saphyr::from_str(RULES)?)
}

/// The shipped policy; with the guards of two services where the story is about them.
///
/// # Errors
///
/// It is no policy.
pub fn policy(scenario: Scenario) -> Result<RemediationPolicy, Unreadable> {
    let mut policy: RemediationPolicy = serde_saphyr::from_str(POLICY)?;
    let guards = &mut policy.spec.guards;
    match scenario {
        Scenario::GuardPauses => guards.pause_if.push(Guard {
            name: "error-rate".into(),
            expr: "sum(rate(http_requests_total{job=\"llm\",code=~\"5..\"}[2m])) / \
                   sum(rate(http_requests_total{job=\"llm\"}[2m])) > 0.05"
                .into(),
        }),
        Scenario::StopGuard => {
            guards.stop_if.push(Guard {
                name: "capacity-floor".into(),
                expr: format!(
                    "kube_deployment_status_replicas_available{{namespace=\"inference\",deployment=\"llm\"}} < {LLM_REPLICAS}"
                ),
            });
            // A node without power counts as well: there must be room for the one of the story.
            policy.spec.budget.max_unavailable = Some(IntOrString::Int(2));
        }
        _ => {}
    }
    Ok(policy)
}

/// What the cluster holds before its workloads: namespaces, the rules, the policy.
///
/// # Errors
///
/// The shipped files cannot be read.
pub fn objects(scenario: Scenario) -> Result<Vec<(&'static Resource, Value)>, Unreadable> {
    let mut objects: Vec<_> = NAMESPACES_USED
        .iter()
        .map(|name| (NAMESPACES, json!({"metadata": {"name": name}})))
        .collect();
    objects.push((GPU_FAULT_RULES, serde_json::to_value(rules()?)?));
    objects.push((
        REMEDIATION_POLICIES,
        serde_json::to_value(policy(scenario)?)?,
    ));
    Ok(objects)
}

/// The nodes' names.
pub fn node_names() -> Vec<String> {
    (1..=NODES).map(|n| format!("gpu-node-{n}")).collect()
}

/// The workloads.
pub fn plan(_scenario: Scenario) -> crate::sim::world::WorldPlan {
    crate::sim::world::WorldPlan
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_files_are_read_and_only_two_stories_add_guards() {
        assert!(!rules().unwrap().spec.groups.is_empty());
        for scenario in Scenario::ALL {
            let guards = policy(scenario).unwrap().spec.guards;
            let guarded = !guards.pause_if.is_empty() || !guards.stop_if.is_empty();
            let wanted = matches!(scenario, Scenario::GuardPauses | Scenario::StopGuard);
            assert_eq!(guarded, wanted, "{scenario}");
        }
    }
}
