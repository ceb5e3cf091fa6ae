//! A remediation that fails is Failed, stays isolated, and people are told.

use gpu_remediator::api::{Phase, conditions};

use super::policy::Policy;
use super::world::{FAULTY, GPU, INFERENCE, World};
use crate::harness::wait::{seconds, throughout};
use crate::harness::workload;

#[tokio::test]
async fn one_pod_that_cannot_be_evicted_makes_the_fault_failed_and_the_webhook_hears_of_it() {
    let mut world = World::start(Policy::drain_node().eviction_timeout("10s")).await;
    workload::disruption_budget(&world.cluster.admin, INFERENCE, "llm", 0).await;
    let _controller = world.controller().await;
    world.fail_gpu();

    let fault = world.in_phase(seconds(60), Phase::Failed).await;
    let status = fault.status.clone().unwrap_or_default();
    for pod in &world.before {
        let name = workload::pod_name(pod);
        assert!(
            status.message.contains(name),
            "{name} is not in {}",
            status.message
        );
    }
    let succeeded = conditions::get(&status.conditions, conditions::SUCCEEDED).expect("Succeeded");
    assert_eq!(succeeded.status, "False");
    assert!(status.timeline.isolated_at.is_some());

    // People are told, with what they need to know.
    let alert = world.webhook.firing(seconds(30), "GpuFaultFailed").await;
    assert_eq!(alert.labels["node"], FAULTY);
    assert_eq!(alert.labels["gpu"], GPU.to_string());
    assert_eq!(alert.labels["uuid"], world.faulty.uuid(GPU));
    assert_eq!(alert.labels["xid"], "79");
    for pod in &world.before {
        let name = format!("{INFERENCE}/{}", workload::pod_name(pod));
        assert!(
            alert.labels["pods"].contains(&name),
            "{name} is not in {alert:?}"
        );
        assert!(
            alert.annotations["description"].contains(&name),
            "{alert:?}"
        );
    }

    // Isolation stays, also when the GPU is well again; no pod was touched.
    world.repair();
    throughout(seconds(5), "a failed fault keeps its node", async || {
        let status = world.fault().await?.status.unwrap_or_default();
        match (status.phase, world.isolation().await) {
            (Phase::Failed, (true, Some(_))) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(world.evicted(), Vec::<String>::new());
    let pods = workload::ready_pods(
        &world.cluster.admin,
        INFERENCE,
        "llm",
        world.before.len(),
        seconds(5),
    )
    .await;
    assert!(pods.iter().all(|pod| workload::node_of(pod) == FAULTY));
    assert_eq!(world.forbidden(), Vec::<String>::new());
}
