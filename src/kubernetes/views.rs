//! Trimmed views of nodes, pods and PodDisruptionBudgets. A full Pod costs 37 kB in a cache, such a view a few hundred
//! bytes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::api::names;
use crate::remediation::mark::CordonMark;
use crate::remediation::world::NodeFacts;

/// A node: schedulable, Ready, our mark.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = "Node")]
pub struct NodeView {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(default)]
    pub spec: NodeSpecView,
    /// Status.
    #[serde(default)]
    pub status: NodeStatusView,
}

/// The part of a node's specification that is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeSpecView {
    /// No new pods are scheduled here.
    #[serde(default)]
    pub unschedulable: bool,
}

/// The part of a node's status that is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatusView {
    /// Conditions.
    #[serde(default)]
    pub conditions: Vec<ConditionView>,
}

/// A condition of a core object.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status.
    pub status: String,
    /// Reason.
    #[serde(default)]
    pub reason: Option<String>,
    /// When the status last changed.
    #[serde(default)]
    pub last_transition_time: Option<Time>,
}

impl NodeView {
    /// Drops what is never looked at, before the node is cached.
    pub fn trim(&mut self) {
        trim(&mut self.metadata, &[names::CORDON_ANNOTATION]);
        self.status.conditions.retain(|c| c.type_ == "Ready");
    }

    /// The kubelet reports Ready.
    pub fn is_ready(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    }

    /// The facts for a decision.
    pub fn facts(&self) -> NodeFacts {
        let annotation = self
            .metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(names::CORDON_ANNOTATION));
        let mark: Option<CordonMark> = annotation.and_then(|text| serde_json::from_str(text).ok());
        NodeFacts {
            name: self.metadata.name.clone().unwrap_or_default(),
            uid: self.metadata.uid.clone().unwrap_or_default(),
            unschedulable: self.spec.unschedulable,
            ready: self.is_ready(),
            labels: self.metadata.labels.clone().unwrap_or_default(),
            mark_unreadable: annotation.is_some() && mark.is_none(),
            mark,
        }
    }
}

/// A pod: where it is, what it holds, how it fares.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = "Pod")]
pub struct PodView {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(default)]
    pub spec: PodSpecView,
    /// Status.
    #[serde(default)]
    pub status: PodStatusView,
}

/// The part of a pod's specification that is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpecView {
    /// The node that it is bound to.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Containers.
    #[serde(default)]
    pub containers: Vec<ContainerView>,
    /// Init containers.
    #[serde(default)]
    pub init_containers: Vec<ContainerView>,
    /// Dynamic resource claims.
    #[serde(default)]
    pub resource_claims: Vec<PodClaimView>,
    /// Gates that hold scheduling back.
    #[serde(default)]
    pub scheduling_gates: Vec<serde_json::Value>,
}

/// The part of a container that is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContainerView {
    /// What it asks for.
    #[serde(default)]
    pub resources: ResourcesView,
}

/// Resource requests and limits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ResourcesView {
    /// Limits.
    #[serde(default)]
    pub limits: BTreeMap<String, Quantity>,
    /// Requests.
    #[serde(default)]
    pub requests: BTreeMap<String, Quantity>,
}

/// A claim that a pod names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodClaimView {
    /// Name within the pod.
    pub name: String,
    /// The claim's own name, where the pod names it directly.
    #[serde(default)]
    pub resource_claim_name: Option<String>,
}

/// The part of a pod's status that is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatusView {
    /// Phase.
    #[serde(default)]
    pub phase: Option<String>,
    /// Conditions.
    #[serde(default)]
    pub conditions: Vec<ConditionView>,
    /// Claims that were made for the pod from templates.
    #[serde(default)]
    pub resource_claim_statuses: Vec<PodClaimView>,
    /// Container states.
    #[serde(default)]
    pub container_statuses: Vec<ContainerStatusView>,
}

/// The part of a container's status that is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContainerStatusView {
    /// State.
    #[serde(default)]
    pub state: ContainerStateView,
}

/// The state of a container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContainerStateView {
    /// It waits, for this reason.
    #[serde(default)]
    pub waiting: Option<WaitingView>,
}

/// Why a container waits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WaitingView {
    /// Reason.
    #[serde(default)]
    pub reason: Option<String>,
}

impl PodView {
    /// Drops what is never looked at, before the pod is cached.
    pub fn trim(&mut self) {
        trim(&mut self.metadata, &["kubernetes.io/config.mirror"]);
        self.status
            .conditions
            .retain(|c| matches!(c.type_.as_str(), "Ready" | "PodScheduled"));
    }

    /// Drops what a drain looks at and a search for replacements does not: a namespace may have very many pods. What is left
    /// of a pod that nobody owns is of no use: see [`PodView::is_owned`].
    pub fn trim_for_following(&mut self) {
        self.trim();
        self.metadata.annotations = None;
        self.metadata.finalizers = None;
        let slot = "batch.kubernetes.io/job-completion-index";
        self.metadata.labels = self.metadata.labels.take().map(|labels| {
            labels
                .into_iter()
                .filter(|(name, _)| name == slot)
                .collect()
        });
        if let Some(owners) = &mut self.metadata.owner_references {
            owners.retain(|owner| owner.controller == Some(true));
        }
        self.spec.containers = Vec::new();
        self.spec.init_containers = Vec::new();
        self.spec.resource_claims = Vec::new();
        self.status.resource_claim_statuses = Vec::new();
        self.status
            .container_statuses
            .retain(|container| container.state.waiting.is_some());
        self.status.container_statuses.shrink_to_fit();
        self.status.conditions.shrink_to_fit();
    }

    /// A controller runs it, and would replace it.
    pub fn is_owned(&self) -> bool {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.controller == Some(true))
    }

    /// The condition of that type.
    pub fn condition(&self, type_: &str) -> Option<&ConditionView> {
        self.status.conditions.iter().find(|c| c.type_ == type_)
    }

    /// It has succeeded or failed.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

/// A PodDisruptionBudget: whom it selects, how many it lets go.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = "PodDisruptionBudget")]
pub struct BudgetView {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(default)]
    pub spec: BudgetSpecView,
    /// Status.
    #[serde(default)]
    pub status: BudgetStatusView,
}

/// The part of a budget's specification that is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BudgetSpecView {
    /// The pods that it protects.
    #[serde(default)]
    pub selector: Option<LabelSelector>,
}

/// The part of a budget's status that is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatusView {
    /// How many pods may be evicted now.
    #[serde(default)]
    pub disruptions_allowed: i32,
}

fn trim(metadata: &mut ObjectMeta, annotations: &[&str]) {
    metadata.managed_fields = None;
    if let Some(all) = &mut metadata.annotations {
        all.retain(|key, _| annotations.contains(&key.as_str()));
    }
}
