//! GPU nodes, with kwok as their kubelet.

use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use super::wait::{eventually, seconds};

/// The extended resource of a GPU.
pub(crate) const GPU: &str = "nvidia.com/gpu";

/// GPUs of each node.
pub(crate) const GPUS_PER_NODE: u32 = 8;

/// Creates a node with eight GPUs in `zone` and returns it once it is ready
/// and pods can be scheduled on it.
pub(crate) async fn create(admin: &Client, name: &str, zone: &str) -> Node {
    let amounts = json!({
        "cpu": "64",
        "memory": "512Gi",
        "pods": "110",
        GPU: GPUS_PER_NODE.to_string(),
    });
    let node: Node = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "topology.kubernetes.io/zone": zone,
            },
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }))
    .expect("a node");
    let nodes: Api<Node> = Api::all(admin.clone());
    nodes
        .create(&PostParams::default(), &node)
        .await
        .expect("an administrator creates a node");
    eventually(
        seconds(60),
        &format!("node {name} to be ready"),
        async || {
            let node = get(admin, name).await;
            if !is_ready(&node) {
                return Err(format!("conditions {:?}", conditions(&node)));
            }
            let taints = taints(&node);
            if !taints.is_empty() {
                return Err(format!("taints {taints:?}"));
            }
            Ok(node)
        },
    )
    .await
}

/// The node `name` as it is now.
pub(crate) async fn get(admin: &Client, name: &str) -> Node {
    Api::<Node>::all(admin.clone())
        .get(name)
        .await
        .unwrap_or_else(|error| panic!("get node {name}: {error}"))
}

/// Whether the node is cordoned.
pub(crate) fn is_cordoned(node: &Node) -> bool {
    node.spec
        .as_ref()
        .and_then(|spec| spec.unschedulable)
        .unwrap_or(false)
}

/// Keys of the node's taints.
pub(crate) fn taints(node: &Node) -> Vec<String> {
    node.spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .map(|taint| taint.key.clone())
        .collect()
}

fn is_ready(node: &Node) -> bool {
    conditions(node).contains(&("Ready".to_owned(), "True".to_owned()))
}

fn conditions(node: &Node) -> Vec<(String, String)> {
    node.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .map(|condition| (condition.type_.clone(), condition.status.clone()))
        .collect()
}
