//! A GPU that is held through Dynamic Resource Allocation counts as one.

use std::collections::BTreeSet;

use gpu_remediator::api::Phase;
use gpu_remediator::api::fault_status::RescheduleOutcome;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::policy::Policy;
use super::world::{FAULTY, INFERENCE, SPARE, World};
use crate::harness::tools::kubectl;
use crate::harness::wait::seconds;
use crate::harness::workload;

/// The driver of GPUs, and one of something else.
const GPU_DRIVER: &str = "gpu.nvidia.com";
const NIC_DRIVER: &str = "nic.example.test";

/// Two devices of `driver` on `node`, as the driver's kubelet plugin would publish them.
fn slice(driver: &str, node: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": format!("{node}-{driver}")},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "device-0"}, {"name": "device-1"}],
        },
    })
}

fn class(driver: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [
            {"cel": {"expression": format!("device.driver == '{driver}'")}},
        ]},
    })
}

/// One device of `driver`.
fn request(driver: &str) -> Value {
    json!({"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": driver}}]}})
}

fn template(name: &str, driver: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": INFERENCE},
        "spec": {"spec": request(driver)},
    })
}

async fn only_pod(world: &World, app: &str) -> Pod {
    workload::ready_pods(&world.cluster.admin, INFERENCE, app, 1, seconds(60))
        .await
        .remove(0)
}

#[tokio::test]
async fn pods_that_hold_a_gpu_by_a_claim_move_and_those_that_hold_something_else_stay() {
    let mut world = World::start(Policy::drain_node()).await;
    let mut objects = vec![
        class(GPU_DRIVER),
        class(NIC_DRIVER),
        template("gpu", GPU_DRIVER),
        template("nic", NIC_DRIVER),
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "own", "namespace": INFERENCE},
            "spec": request(GPU_DRIVER),
        }),
    ];
    for node in [FAULTY, SPARE] {
        objects.extend([slice(GPU_DRIVER, node), slice(NIC_DRIVER, node)]);
    }
    world.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());

    // The scheduler can only choose the node that will fail.
    let kubeconfig = world.cluster.admin_kubeconfig().to_owned();
    kubectl(&kubeconfig, ["cordon", SPARE], "").expect_ok("kubectl cordon");
    for (app, claim) in [
        ("by-template", json!({"resourceClaimTemplateName": "gpu"})),
        ("by-name", json!({"resourceClaimName": "own"})),
        ("network", json!({"resourceClaimTemplateName": "nic"})),
    ] {
        workload::claiming_deployment(&world.cluster.admin, INFERENCE, app, claim).await;
    }
    let mut moving: Vec<Pod> = world.before.clone();
    for app in ["by-template", "by-name"] {
        moving.push(only_pod(&world, app).await);
    }
    let network = only_pod(&world, "network").await;
    for pod in moving.iter().chain([&network]) {
        assert_eq!(workload::node_of(pod), FAULTY);
    }
    kubectl(&kubeconfig, ["uncordon", SPARE], "").expect_ok("kubectl uncordon");

    let _controller = world.controller().await;
    world.fail_gpu();
    world
        .until(
            seconds(90),
            "every GPU pod to have a replacement",
            |status| {
                status.timeline.drained_at.is_some()
                    && status.displaced_pods.len() == moving.len()
                    && status
                        .displaced_pods
                        .iter()
                        .all(|pod| pod.outcome == RescheduleOutcome::Rescheduled)
            },
        )
        .await;

    let names: BTreeSet<String> = moving
        .iter()
        .map(|pod| workload::pod_name(pod).to_owned())
        .collect();
    let evicted = world.evicted();
    assert_eq!(evicted.len(), names.len(), "{evicted:?}");
    assert_eq!(evicted.into_iter().collect::<BTreeSet<_>>(), names);
    for app in ["by-template", "by-name"] {
        assert_eq!(workload::node_of(&only_pod(&world, app).await), SPARE);
    }
    for (app, stayed) in [("network", &network), ("cpu", &world.cpu)] {
        let pods = workload::pods(&world.cluster.admin, INFERENCE, app).await;
        assert_eq!(
            pods.iter().map(workload::uid).collect::<Vec<_>>(),
            [workload::uid(stayed)],
            "{app} stays"
        );
    }
    // The scheduler has allocated GPUs of the other node, and left the rest.
    let claims = Api::<ResourceClaim>::namespaced(world.cluster.admin.clone(), INFERENCE)
        .list(&ListParams::default())
        .await
        .expect("an administrator lists claims")
        .items;
    let mut held: Vec<(String, String)> = claims
        .into_iter()
        .filter_map(|claim| claim.status?.allocation?.devices?.results)
        .flatten()
        .map(|result| (result.driver, result.pool))
        .collect();
    held.sort();
    let of = |driver: &str, node: &str| (driver.to_owned(), node.to_owned());
    assert_eq!(
        held,
        [
            of(GPU_DRIVER, SPARE),
            of(GPU_DRIVER, SPARE),
            of(NIC_DRIVER, FAULTY)
        ]
    );

    world.repair();
    world.in_phase(seconds(60), Phase::Recovered).await;
    assert_eq!(world.isolation().await, (false, None));
    assert_eq!(world.forbidden(), Vec::<String>::new());
}
