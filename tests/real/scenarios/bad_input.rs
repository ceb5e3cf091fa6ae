//! Input that cannot work is told with its reason, and touches nothing.

use gpu_remediator::api::Phase;
use serde_json::{Value, json};

use super::policy::{DRAIN_NODE, Policy};
use super::world::World;
use crate::harness::tools::kubectl;
use crate::harness::wait::{eventually, seconds};

#[tokio::test]
async fn a_fault_for_a_node_that_does_not_exist_is_failed_and_touches_nothing() {
    let mut world = World::start(Policy::drain_node()).await;
    let _controller = world.controller().await;
    world.apply(
        &json!({
            "apiVersion": "gpu-remediator.dev/v1alpha1",
            "kind": "GpuFault",
            "metadata": {"name": "nowhere"},
            "spec": {"nodeName": "no-such-node", "policyRef": {"name": DRAIN_NODE}},
        })
        .to_string(),
    );
    let fault = world.in_phase(seconds(30), Phase::Failed).await;
    let status = fault.status.clone().unwrap_or_default();
    assert_eq!(status.reason, "NodeNotFound");
    assert!(
        status.message.contains("no-such-node"),
        "{}",
        status.message
    );
    assert_eq!(world.isolation().await, (false, None));
    assert_eq!(world.evicted(), Vec::<String>::new());
}

#[tokio::test]
async fn rules_that_cannot_work_say_so_and_open_nothing() {
    let mut world = World::start(Policy::drain_node()).await;
    let _controller = world.controller().await;
    for (name, expr, policy, said) in [
        (
            "no-policy",
            "gpu_up >= 0",
            "no-such-policy",
            "no-such-policy",
        ),
        ("bad-promql", "gpu_up ==", DRAIN_NODE, "gpu_up =="),
    ] {
        world.apply(
            &json!({
                "apiVersion": "gpu-remediator.dev/v1alpha1",
                "kind": "GpuFaultRule",
                "metadata": {"name": name},
                "spec": {"groups": [{"name": name, "interval": "1s", "rules": [
                    {"alert": "Bad", "expr": expr, "remediation": {"policy": policy}},
                ]}]},
            })
            .to_string(),
        );
        let kubeconfig = world.cluster.admin_kubeconfig().to_owned();
        eventually(
            seconds(20),
            &format!("the rule {name} to say what is wrong"),
            async || {
                let text = kubectl(&kubeconfig, ["get", "gpufaultrule", name, "-o", "json"], "")
                    .expect_ok("kubectl get gpufaultrule");
                let object: Value =
                    serde_json::from_str(&text).map_err(|error| error.to_string())?;
                let status = object["status"].to_string();
                let ready = object["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|condition| {
                        condition["type"] == "Ready" && condition["status"] == "False"
                    });
                if ready && (status.contains(said) || status.contains("parse error")) {
                    return Ok(());
                }
                Err(status)
            },
        )
        .await;
    }
    assert!(world.faults().await.expect("a list").is_empty());
}
