//! Who is on the stage: rules, the policy and what it guards.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::scenario::Scenario;
use crate::api::policy::Guard;
use crate::api::{GpuFaultRule, RemediationPolicy};
use crate::sim::run::shipped::{self, Unreadable};
use crate::sim::world::{Behaviour, Owner, Workload, WorldPlan};

/// How long a technician needs to come.
pub const SPARE_TIME: Duration = Duration::from_secs(60);

/// Nodes.
pub const NODES: u32 = 6;
/// GPUs of each.
pub const GPUS: u32 = 8;
/// Replicas of Deployment `inference/llm`.
pub const LLM_REPLICAS: u32 = 6;
/// The share of requests that a service in trouble answers with an error.
pub const ERRORS: f64 = 0.2;
/// The same for a service that is well.
pub const FEW_ERRORS: f64 = 0.001;

/// The shipped rules, as they are.
///
/// # Errors
///
/// They are no rules.
pub fn rules() -> Result<GpuFaultRule, Unreadable> {
    shipped::rules(None)
}

/// The shipped policy; with the guards of two services where the story is about them.
///
/// # Errors
///
/// It is no policy.
pub fn policy(scenario: Scenario) -> Result<RemediationPolicy, Unreadable> {
    let mut policy = shipped::policy()?;
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

/// Nodes and workloads. The story about the capacity floor has one service alone: its policy is to stop before any pod has
/// moved, and only the service's budget holds its pods back.
pub fn plan(scenario: Scenario) -> WorldPlan {
    let seconds = Duration::from_secs;
    let behaving = |start, end| Behaviour {
        start: seconds(start),
        end: seconds(end),
        ..Behaviour::default()
    };
    let plan = WorldPlan::new()
        .nodes(NODES, GPUS)
        .workload(
            Workload::new("inference", "llm", Owner::Deployment, LLM_REPLICAS, 2)
                .min_available("5")
                .behaving(behaving(20, 8)),
        )
        .workload(Workload::new("web", "frontend", Owner::Deployment, 6, 0));
    if scenario == Scenario::StopGuard {
        return plan;
    }
    plan.workload(
        Workload::new("training", "trainer", Owner::StatefulSet, 3, 4).behaving(behaving(15, 12)),
    )
    .workload(Workload::new("batch", "render", Owner::Job, 6, 1).behaving(behaving(5, 3)))
}

/// What the reader is told at the beginning.
pub fn description(scenario: Scenario) -> String {
    let mut text = format!(
        "{NODES} nodes of {GPUS} GPUs, an exporter on each, two controllers, Prometheus with a scrape each second, and\n"
    );
    for workload in plan(scenario).workloads() {
        let kind = match workload.owner {
            Owner::StatefulSet => "StatefulSet",
            Owner::Job | Owner::PlainJob => "Job",
            _ => "Deployment",
        };
        let gpus = match workload.gpus {
            0 => "no GPU".to_owned(),
            1 => "1 GPU each".to_owned(),
            gpus => format!("{gpus} GPUs each"),
        };
        let budget = workload.min_available.as_ref();
        let budget = budget.map_or_else(String::new, |least| {
            format!(", PodDisruptionBudget minAvailable {least}")
        });
        let name = format!("{}/{}", workload.namespace, workload.name);
        text.push_str(&format!(
            "  {kind:<11} {name:<17} {} pods, {gpus}{budget}\n",
            workload.replicas
        ));
    }
    let change = match scenario {
        Scenario::GuardPauses => ", with a guard on the errors of llm added",
        Scenario::StopGuard => ", with a guard on the replicas of llm added and room for 2 nodes",
        _ => "",
    };
    text + "Rules and policy are those that come with the product"
        + change
        + ". Times are simulated, and counted from the fault."
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
