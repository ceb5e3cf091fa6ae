//! What a pod is to us: whether it holds a GPU, why it stays, whether it may replace another.

use std::sync::Arc;

use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::clients::{ApiError, call};
use super::views::PodView;
use crate::api::fault_status::{OwnerRef, PodRef};
use crate::remediation::world::StayReason;
use crate::slo::matching::Candidate;

/// Lists the pods on a node afresh.
pub async fn on_node(client: &Client, node: &str) -> Result<Vec<Arc<PodView>>, ApiError> {
    let api: Api<PodView> = Api::all(client.clone());
    let parameters = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let list = call("listing the pods of a node", api.list(&parameters)).await?;
    Ok(list.items.into_iter().map(Arc::new).collect())
}

/// The pod as a reference.
pub fn reference(pod: &PodView) -> PodRef {
    PodRef {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
    }
}

/// The pod asks for a GPU as an extended resource: `nvidia.com/gpu` or a MIG profile such as `nvidia.com/mig-1g.10gb`.
/// The GPU operator's shared resources (`nvidia.com/gpu.shared`) count as well.
pub fn asks_for_gpu(pod: &PodView) -> bool {
    let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    containers
        .flat_map(|c| c.resources.limits.iter().chain(&c.resources.requests))
        .any(|(name, quantity)| is_gpu_resource(name) && quantity.0 != "0")
}

/// Whether an extended resource is GPUs and nothing else.
pub(super) fn is_gpu_resource(name: &str) -> bool {
    name == "nvidia.com/gpu"
        || name.starts_with("nvidia.com/gpu.")
        || name.starts_with("nvidia.com/mig-")
}

/// The names of the ResourceClaims that the pod uses.
pub fn claim_names(pod: &PodView) -> Vec<String> {
    let direct = pod.spec.resource_claims.iter();
    let generated = pod.status.resource_claim_statuses.iter();
    direct
        .chain(generated)
        .filter_map(|c| c.resource_claim_name.clone())
        .collect()
}

/// Why the pod is never evicted, if so.
pub fn stays(pod: &PodView, protected_namespaces: &[String]) -> Option<StayReason> {
    if pod
        .annotations()
        .contains_key("kubernetes.io/config.mirror")
    {
        return Some(StayReason::Static);
    }
    if controller(pod).is_some_and(|o| o.kind == "DaemonSet") {
        return Some(StayReason::DaemonSet);
    }
    let namespace = pod.namespace().unwrap_or_default();
    protected_namespaces
        .contains(&namespace)
        .then_some(StayReason::ProtectedNamespace)
}

/// The pod's own controller.
pub fn controller(pod: &PodView) -> Option<OwnerRef> {
    pod.owner_references()
        .iter()
        .find(|o| o.controller == Some(true))
        .map(|o| OwnerRef {
            kind: o.kind.clone(),
            name: o.name.clone(),
            uid: o.uid.clone(),
        })
}

/// The pod's slot under its owner: the name of a StatefulSet's pod, the completion index of a Job's.
pub fn slot(pod: &PodView) -> Option<String> {
    match controller(pod)?.kind.as_str() {
        "StatefulSet" => Some(pod.name_any()),
        "Job" => pod
            .labels()
            .get("batch.kubernetes.io/job-completion-index")
            .cloned(),
        _ => None,
    }
}

/// The pod as a possible replacement, under the given root owner.
pub fn candidate(pod: &PodView, root: Option<OwnerRef>) -> Candidate {
    let ready = pod.condition("Ready").filter(|c| c.status == "True");
    let scheduled = pod.condition("PodScheduled");
    let waiting = pod
        .status
        .container_statuses
        .iter()
        .filter_map(|c| c.state.waiting.as_ref()?.reason.as_deref());
    Candidate {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        namespace: pod.namespace().unwrap_or_default(),
        owner: root,
        slot: slot(pod),
        created: pod.creation_timestamp().map(|t| t.0).unwrap_or_default(),
        node: pod.spec.node_name.clone(),
        ready_since: ready
            .and_then(|c| c.last_transition_time.as_ref())
            .map(|t| t.0),
        ending: pod.metadata.deletion_timestamp.is_some() || pod.is_finished(),
        gated: !pod.spec.scheduling_gates.is_empty(),
        unschedulable: scheduled
            .is_some_and(|c| c.status == "False" && c.reason.as_deref() == Some("Unschedulable")),
        start_failure: waiting
            .into_iter()
            .any(|r| r.contains("BackOff") || r.contains("Err")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: serde_json::Value) -> PodView {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_holds_a_gpu_is_a_gpu_pod() {
        let with = |name: &str, quantity: &str| {
            let containers = json!([{"resources": {"limits": {name: quantity, "cpu": "1"}}}]);
            asks_for_gpu(&pod(
                json!({"metadata": {"name": "p"}, "spec": {"containers": containers}}),
            ))
        };
        assert!(
            with("nvidia.com/gpu", "1")
                && with("nvidia.com/mig-1g.10gb", "2")
                && with("nvidia.com/gpu.shared", "1")
        );
        assert!(
            !with("nvidia.com/gpu", "0") && !with("amd.com/gpu", "1") && !with("memory", "1Gi")
        );
        assert!(!asks_for_gpu(&pod(json!({"metadata": {"name": "p"}}))));
        let init = json!([{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]);
        assert!(asks_for_gpu(&pod(
            json!({"metadata": {"name": "p"}, "spec": {"initContainers": init}})
        )));
    }

    #[test]
    fn what_is_kept_for_following_says_as_much_about_a_replacement_as_the_whole_pod() {
        let owner = |kind: &str| {
            json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true},
                {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "v"}])
        };
        let statuses = [
            json!({"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Initialized", "status": "True"}], "containerStatuses": [{"state": {"running": {}}}]}),
            json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
            json!({"containerStatuses": [{"state": {"running": {}}}, {"state": {"waiting": {"reason": "ErrImagePull"}}}]}),
            json!({"phase": "Failed"}),
        ];
        for kind in ["ReplicaSet", "StatefulSet", "Job"] {
            for status in &statuses {
                let whole = pod(json!({
                    "metadata": {"name": "p", "namespace": "n", "uid": "1", "ownerReferences": owner(kind),
                        "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"a": "b"},
                        "labels": {"app": "x", "batch.kubernetes.io/job-completion-index": "3"}},
                    "spec": {"nodeName": "a", "schedulingGates": [{"name": "g"}],
                        "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
                    "status": status,
                }));
                let mut kept = whole.clone();
                kept.trim_for_following();
                assert!(kept.spec.containers.is_empty() && kept.is_owned());
                assert_eq!(controller(&kept), controller(&whole));
                assert_eq!(candidate(&kept, None), candidate(&whole, None));
            }
        }
        assert!(!pod(json!({"metadata": {"name": "p"}})).is_owned());
    }

    #[test]
    fn daemons_static_pods_and_protected_namespaces_stay() {
        let owned = |kind: &str| {
            let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
            pod(json!({"metadata": {"name": "p", "namespace": "ns", "ownerReferences": owner}}))
        };
        assert_eq!(stays(&owned("DaemonSet"), &[]), Some(StayReason::DaemonSet));
        assert_eq!(stays(&owned("ReplicaSet"), &[]), None);
        assert_eq!(
            stays(&owned("ReplicaSet"), &["ns".into()]),
            Some(StayReason::ProtectedNamespace)
        );
        let mirror =
            json!({"metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}}});
        assert_eq!(stays(&pod(mirror), &[]), Some(StayReason::Static));
    }
}
