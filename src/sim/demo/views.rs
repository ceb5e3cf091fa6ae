//! What a story looks at in the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::narration::wants_gpu;
use super::progress::Wait;
use super::stage::Stage;
use crate::api::fault_status::{Action, GpuFaultStatus, Outcome, Phase};
use crate::api::policy::Step;
use crate::api::{GpuFault, RemediationPolicy};
use crate::sim::api_server::Store;
use crate::sim::api_server::resources::{
    DEPLOYMENTS, GPU_FAULTS, NODES, POD_DISRUPTION_BUDGETS, PODS, REMEDIATION_POLICIES,
};
use crate::sim::prometheus::Value as Answer;

/// A pod that holds GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuPod {
    /// Namespace and name.
    pub name: String,
    /// Its node.
    pub node: String,
}

impl Stage {
    /// Every fault, as the API has it.
    #[must_use]
    pub fn faults(&self) -> Vec<Arc<Value>> {
        self.cluster.store().list(GPU_FAULTS)
    }

    /// The fault of the story.
    #[must_use]
    pub fn fault(&self) -> Option<GpuFault> {
        first_fault(self.cluster.store())
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> Option<GpuFaultStatus> {
        self.fault()?.status
    }

    /// A node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<Arc<Value>> {
        self.cluster.store().get(NODES, None, name)
    }

    /// The node is unschedulable.
    #[must_use]
    pub fn is_cordoned(&self, node: &str) -> bool {
        let node = self.node(node);
        node.is_some_and(|n| n.pointer("/spec/unschedulable") == Some(&Value::Bool(true)))
    }

    /// The GPU pods on all nodes, by name.
    #[must_use]
    pub fn gpu_pods(&self) -> Vec<GpuPod> {
        let pods = self.cluster.store().list(PODS);
        let gpu_pods = pods.iter().filter(|pod| wants_gpu(pod));
        gpu_pods
            .filter_map(|pod| {
                Some(GpuPod {
                    name: full_name(pod),
                    node: pod.pointer("/spec/nodeName")?.as_str()?.to_owned(),
                })
            })
            .collect()
    }

    /// The GPU pods on a node.
    #[must_use]
    pub fn gpu_pods_on(&self, node: &str) -> Vec<GpuPod> {
        let mut pods = self.gpu_pods();
        pods.retain(|pod| pod.node == node);
        pods
    }

    /// The node with GPU pods of the most kinds; of several, the first.
    #[must_use]
    pub fn node_with_all_kinds(&self) -> String {
        let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pod in self.gpu_pods() {
            let namespace = pod.name.split('/').next().unwrap_or_default();
            let kinds = kinds.entry(pod.node).or_default();
            kinds.insert(namespace.to_owned());
        }
        let most = kinds.values().map(BTreeSet::len).max();
        let found = kinds.into_iter().find(|(_, k)| Some(k.len()) == most);
        found.map(|(node, _)| node).unwrap_or_default()
    }

    /// Another node with a pod of Deployment `inference/llm`.
    #[must_use]
    pub fn another_node_with_llm(&self, node: &str) -> String {
        let pods = self.gpu_pods().into_iter();
        let mut others = pods.filter(|p| p.node != node && p.name.starts_with("inference/llm-"));
        others.next().map(|pod| pod.node).unwrap_or_default()
    }

    /// How many errors of that Xid Prometheus has counted on a node.
    #[must_use]
    pub fn xid_errors(&self, node: &str, xid: u32) -> Option<f64> {
        let query = format!("sum(gpu_xid_errors_total{{node=\"{node}\",xid=\"{xid}\"}})");
        match self.cluster.prometheus().instant(&query).ok()? {
            Answer::Vector(series) => Some(series.first()?.1.value),
            _ => None,
        }
    }

    /// The pods without a GPU: their UIDs, by name and node.
    #[must_use]
    pub fn other_pods(&self) -> BTreeMap<String, String> {
        self.uids(|pod| !wants_gpu(pod))
    }

    /// Every pod's UID, by name and node.
    #[must_use]
    pub fn pod_uids(&self) -> BTreeMap<String, String> {
        self.uids(|_| true)
    }

    fn uids(&self, wanted: impl Fn(&Value) -> bool) -> BTreeMap<String, String> {
        let pods = self.cluster.store().list(PODS);
        let pods = pods.iter().filter(|pod| wanted(pod));
        pods.map(|pod| {
            let text = |pointer| pod.pointer(pointer).and_then(Value::as_str);
            let node = text("/spec/nodeName").unwrap_or("nowhere");
            let uid = text("/metadata/uid").unwrap_or_default();
            (format!("{} on {node}", full_name(pod)), uid.to_owned())
        })
        .collect()
    }

    /// How many disruptions the budget of Deployment `inference/llm` allows now.
    #[must_use]
    pub fn disruptions_allowed(&self) -> Option<i64> {
        let store = &self.cluster.store();
        let budget = store.get(POD_DISRUPTION_BUDGETS, Some("inference"), "llm")?;
        budget.pointer("/status/disruptionsAllowed")?.as_i64()
    }

    /// How many replicas of Deployment `inference/llm` are available.
    #[must_use]
    pub fn llm_available(&self) -> u32 {
        let deployment = self
            .cluster
            .store()
            .get(DEPLOYMENTS, Some("inference"), "llm");
        let available = deployment.and_then(|d| d.pointer("/status/availableReplicas")?.as_u64());
        available.and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
    }

    /// Who holds the lease.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.cluster.leader()
    }

    /// The promises of the product that were broken, in words, and how many checks were made.
    #[must_use]
    pub fn broken_promises(&self) -> (Vec<String>, u64) {
        let (violations, checked) = self.cluster.broken_promises();
        (
            violations
                .iter()
                .map(|v| format!("promise {}: {}", v.promise, v.what))
                .collect(),
            checked,
        )
    }
}

fn first_fault(store: &Store) -> Option<GpuFault> {
    let faults = store.list(GPU_FAULTS);
    serde_json::from_value(faults.first()?.as_ref().clone()).ok()
}

/// The proof that is under way: of a repair or of health, since when it holds, and for how long it must.
pub(super) fn proof(store: &Store) -> Option<Wait> {
    let fault = first_fault(store)?;
    let status = fault.status?;
    let wait = |what: &str, since: Timestamp, hold: Duration| {
        Some(Wait {
            what: what.to_owned(),
            takes: Some((since, hold)),
        })
    };
    if status.phase == Phase::Recovering {
        let policy = store.get(REMEDIATION_POLICIES, None, &fault.spec.policy_ref.name)?;
        let policy: RemediationPolicy = serde_json::from_value(policy.as_ref().clone()).ok()?;
        let hold = policy.spec.recovery.healthy.hold.as_duration();
        return wait("health is being proven", status.healthy_since?, hold);
    }
    let verifying = status
        .attempts
        .iter()
        .find(|a| a.action == Action::Verify && a.outcome == Outcome::Running)?;
    let step = usize::try_from(verifying.step?).ok()?;
    let Step::Verify(verify) = status.plan.get(step)? else {
        return None;
    };
    let hold = verify.hold.as_duration();
    wait(
        "the repair is being verified",
        verifying.proven_since?,
        hold,
    )
}

fn full_name(pod: &Value) -> String {
    let text = |pointer| pod.pointer(pointer).and_then(Value::as_str);
    format!(
        "{}/{}",
        text("/metadata/namespace").unwrap_or_default(),
        text("/metadata/name").unwrap_or_default()
    )
}
