//! The whole loop, undisturbed.

use gpu_remediator::api::{Phase, conditions};

use super::policy::Policy;
use super::world::{Application, FAULTY, FINE, GPU, INFERENCE, World};
use crate::harness::product::sample;
use crate::harness::wait::{eventually, seconds, throughout};
use crate::harness::workload;

#[tokio::test]
async fn from_a_line_in_the_kernel_log_to_recovered() {
    let mut world = World::start(Policy::drain_node()).await;
    workload::disruption_budget(&world.cluster.admin, INFERENCE, "llm", 1).await;
    let controller = world.controller().await;
    let paused = Application {
        error_ratio: 0.5,
        ..FINE
    };
    world.application(paused).await;

    // The exporter says what happened, and the GPU keeps its identity.
    world.fail_gpu();
    let uuid = world.faulty.uuid(GPU).to_owned();
    let down = world
        .prometheus
        .eventually(seconds(10), r#"gpu_up{node="gpu-a"} == 0"#)
        .await;
    assert_eq!(down.len(), 1, "{down:?}");
    assert_eq!(down[0].0["UUID"], uuid.as_str());
    assert_eq!(down[0].0["gpu"], "3");
    let counted = world
        .prometheus
        .eventually(seconds(10), r#"gpu_xid_errors_total{xid="79"} == 1"#)
        .await;
    assert_eq!(counted.len(), 1, "{counted:?}");
    assert_eq!(counted[0].0["UUID"], uuid.as_str());

    // One fault, held by the guard, and that is seen on it.
    let fault = world
        .until(seconds(20), "the guard to hold the fault", |status| {
            status.reason == "PausedByGuard"
        })
        .await;
    assert_eq!(fault.spec.node_name, FAULTY);
    assert_eq!(fault.spec.xid, Some(79));
    let gpu = fault.spec.gpu.clone().expect("the fault names its GPU");
    assert_eq!(gpu.uuid.as_deref(), Some(uuid.as_str()));
    let status = fault.status.clone().unwrap_or_default();
    assert_eq!(status.phase, Phase::Pending);
    let admitted = conditions::get(&status.conditions, conditions::ADMITTED).expect("Admitted");
    assert_eq!(
        (admitted.status.as_str(), admitted.reason.as_str()),
        ("False", "PausedByGuard")
    );
    assert!(
        admitted.message.contains("error-rate"),
        "{}",
        admitted.message
    );
    throughout(seconds(3), "a held fault touches nothing", async || {
        let fault = world.fault().await?;
        if world.isolation().await != (false, None) {
            return Err("the node is cordoned or marked".to_owned());
        }
        match fault.status.map(|status| status.phase) {
            Some(Phase::Pending) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    // The guard lets go: cordoned with our mark.
    world.application(FINE).await;
    let name = fault.metadata.name.clone().expect("a name");
    eventually(
        seconds(15),
        "the node to be cordoned with our mark",
        async || match world.isolation().await {
            (true, Some(mark)) if mark.contains(&name) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;

    // Drained one pod at a time: never fewer than three are ready.
    eventually(seconds(60), "every GPU pod to have moved", async || {
        let pods = workload::pods(&world.cluster.admin, INFERENCE, "llm").await;
        let ready = pods
            .iter()
            .filter(|pod| workload::is_ready(pod) && pod.metadata.deletion_timestamp.is_none())
            .count();
        assert!(
            ready >= 3,
            "the budget lets one go at a time: {ready} are ready"
        );
        match pods
            .iter()
            .filter(|pod| workload::node_of(pod) == FAULTY)
            .count()
        {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        }
    })
    .await;

    // Nothing comes back before it is proven healthy.
    world
        .until(seconds(15), "the repair to be awaited", |status| {
            status.reason == "Verifying"
        })
        .await;
    throughout(
        seconds(3),
        "an unproven node stays cordoned",
        async || match world.isolation().await {
            (true, Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    world.repair();
    let fault = world.expect_recovered().await;

    // The rule still fires, about the same event: the same fault, still over.
    throughout(seconds(5), "a fault that is over stays over", async || {
        let again = world.fault().await?;
        let status = again.status.unwrap_or_default();
        if again.metadata.uid == fault.metadata.uid
            && status.phase == Phase::Recovered
            && status.occurrence == 1
        {
            return Ok(());
        }
        Err(format!("{} {}", status.phase.as_str(), status.reason))
    })
    .await;
    let metrics = controller.metrics().await;
    for (series, value) in [
        ("gpu_remediator_fault_to_isolated_seconds_count", 1.0),
        (
            "gpu_remediator_fault_to_workload_recovered_seconds_count",
            1.0,
        ),
        ("gpu_remediator_fault_to_node_back_seconds_count", 1.0),
        ("gpu_remediator_pods_displaced_total", 4.0),
        ("gpu_remediator_pod_reschedules_total", 4.0),
        (
            "gpu_remediator_pod_reschedule_failures_total{reason=\"unschedulable\"}",
            0.0,
        ),
        ("gpu_remediator_faults{phase=\"Recovered\"}", 1.0),
        ("gpu_remediator_faults{phase=\"Processing\"}", 0.0),
        ("gpu_remediator_holds_total{reason=\"PausedByGuard\"}", 1.0),
        ("gpu_remediator_nodes_isolated", 0.0),
        ("gpu_remediator_leader", 1.0),
    ] {
        assert_eq!(sample(&metrics, series), value, "{series}");
    }
    // Each step was told as an Event about the fault.
    let events = crate::harness::tools::kubectl(
        world.cluster.admin_kubeconfig(),
        [
            "get",
            "events.events.k8s.io",
            "-A",
            "-o",
            "jsonpath={range .items[?(@.regarding.kind==\"GpuFault\")]}{.reason}{\"\\n\"}{end}",
        ],
        "",
    )
    .expect_ok("kubectl get events");
    for reason in ["FaultOpened", "PausedByGuard", "Admitted", "Recovered"] {
        assert!(
            events.lines().any(|is| is == reason),
            "no Event {reason} in {events}"
        );
    }
}

#[tokio::test]
async fn a_stop_guard_latches_until_a_person_resumes() {
    let mut world = World::start(Policy::drain_node()).await;
    let _controller = world.controller().await;
    let stopped = Application {
        replicas: 0,
        ..FINE
    };
    world.application(stopped).await;
    world.fail_gpu();
    world
        .until(seconds(20), "the guard to stop the fault", |status| {
            status.reason == "StoppedByGuard"
        })
        .await;

    // It has latched: the guard's own recovery changes nothing.
    world.application(FINE).await;
    throughout(seconds(4), "a stopped policy touches nothing", async || {
        if world.isolation().await != (false, None) || !world.evicted().is_empty() {
            return Err("the node was touched".to_owned());
        }
        Ok(())
    })
    .await;

    crate::harness::tools::kubectl(
        world.cluster.admin_kubeconfig(),
        [
            "annotate",
            "remediationpolicy",
            super::policy::DRAIN_NODE,
            "gpu-remediator.dev/resume=yes",
        ],
        "",
    )
    .expect_ok("kubectl annotate");
    world
        .until(seconds(60), "the pods to be gone", |status| {
            status.timeline.drained_at.is_some()
        })
        .await;
    world.repair();
    world.expect_recovered().await;
}
