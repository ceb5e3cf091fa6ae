//! `RemediationPolicy`: the steps, and everything that may hold them back.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::PromDuration;

/// What to do about a fault, in which order, and what may hold it back.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "gpu-remediator.dev",
    version = "v1alpha1",
    kind = "RemediationPolicy",
    plural = "remediationpolicies",
    shortname = "rp",
    category = "gpu-remediator",
    status = "RemediationPolicyStatus",
    derive = "PartialEq",
    doc = "What to do about a GPU fault, and everything that may hold it back.",
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}"#,
    printcolumn = r#"{"name": "Stopped", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Stopped\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemediationPolicySpec {
    /// `Enforce` acts; `Observe` only records the fault.
    #[serde(default)]
    pub mode: Mode,
    /// The nodes that this policy may act on, by label. Absent: every node. The budget counts these nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Conditions in PromQL that hold or stop the remediation. A guard without an answer holds.
    #[serde(default)]
    pub guards: Guards,
    /// How many nodes may be out of service because of, or besides, this policy.
    #[serde(default)]
    pub budget: Budget,
    /// What is done, in this order.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = Rule::new("self.all(s, (has(s.cordon) ? 1 : 0) + (has(s.evictPods) ? 1 : 0) + (has(s.verify) ? 1 : 0) == 1)").message("each step names exactly one action: cordon, evictPods or verify"))]
    #[x_kube(validation = Rule::new("!self.exists(s, has(s.evictPods)) || has(self[0].cordon)").message("evictPods needs a cordon before it, or its pods come back: make cordon the first step"))]
    pub steps: Vec<Step>,
    /// How health is proven before the node is given back.
    pub recovery: Recovery,
}

/// Whether a policy acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Record the fault, touch nothing.
    Observe,
    /// Act.
    #[default]
    Enforce,
}

/// Conditions in PromQL that hold the remediation back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guards {
    /// Hold while one of these is true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub pause_if: Vec<Guard>,
    /// Stop when one of these is true, and stay stopped until a person resumes the policy with the annotation
    /// `gpu-remediator.dev/resume`. Faults that have displaced no pod yet are undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub stop_if: Vec<Guard>,
}

/// One guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guard {
    /// Name, as it appears in conditions, events and metrics.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The condition. True when its result is not empty; a scalar, or a comparison with `bool`, is true when it is not
    /// 0. Before it counts as false, each metric in it must exist, and what it compares must have data.
    #[schemars(length(min = 1, max = 4096))]
    #[x_kube(validation = Rule::new("self.trim().size() > 0").message("a guard has an expr: write the PromQL condition that holds the remediation"))]
    pub expr: String,
}

/// How many nodes may be out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Of the nodes that the policy selects, how many may be unavailable at once, whoever made them so: a number, or a
    /// percentage, rounded down, but at least 1. Default 10%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 && self <= 100000 : self.matches('^([1-9][0-9]?|100)%$')").message("maxUnavailable is a positive number of nodes, or a percentage from 1% to 100%"))]
    pub max_unavailable: Option<IntOrString>,
    /// How many nodes may be in the middle of their steps at once under this policy. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100000))]
    pub max_concurrent: Option<i32>,
}

/// One step: exactly one action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Step {
    /// Mark the node unschedulable, with our mark. A node that is cordoned already stays its owner's.
    Cordon(Cordon),
    /// Evict the GPU pods on the node through the Eviction API; no other pod.
    EvictPods(EvictPods),
    /// Wait until a query proves that the fault is repaired.
    Verify(Verify),
}

/// Parameters of `cordon`: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cordon {}

/// Parameters of `evictPods`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvictPods {
    /// How long until a pod that is still there makes the step fail. Time during which a guard holds does not count.
    #[serde(default = "default_evict_timeout")]
    pub timeout: PromDuration,
}

/// Parameters of `verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verify {
    /// The condition, in PromQL. `{{ .node }}`, `{{ .uuid }}`, `{{ .gpu }}` and `{{ .xid }}` stand for the fault's own.
    /// Where it compares, every series on the left must pass.
    #[schemars(length(min = 1, max = 4096))]
    #[x_kube(validation = Rule::new("self.trim().size() > 0").message("verify has an expr: write the PromQL condition that proves it"))]
    pub expr: String,
    /// For how long it must hold without a gap.
    #[serde(rename = "for")]
    pub hold: PromDuration,
    /// How long until an unproven repair makes the step fail.
    #[serde(default = "default_verify_timeout")]
    pub timeout: PromDuration,
}

/// How the node comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recovery {
    /// The proof of health.
    pub healthy: Healthy,
    /// How long a displaced pod's replacement may take to become Ready before it counts as failed.
    #[serde(default = "default_reschedule_deadline")]
    pub reschedule_deadline: PromDuration,
    /// For how long an ended fault is kept before it is deleted.
    #[serde(default = "default_retention")]
    pub retention: PromDuration,
}

/// The proof of health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Healthy {
    /// The condition, in PromQL; see `verify.expr`.
    #[schemars(length(min = 1, max = 4096))]
    #[x_kube(validation = Rule::new("self.trim().size() > 0").message("healthy has an expr: write the PromQL condition that proves it"))]
    pub expr: String,
    /// For how long it must hold without a gap.
    #[serde(rename = "for")]
    pub hold: PromDuration,
}

fn seconds(seconds: u64) -> PromDuration {
    PromDuration::from(std::time::Duration::from_secs(seconds))
}

fn default_evict_timeout() -> PromDuration {
    seconds(15 * 60)
}

fn default_verify_timeout() -> PromDuration {
    seconds(30 * 60)
}

fn default_reschedule_deadline() -> PromDuration {
    seconds(10 * 60)
}

fn default_retention() -> PromDuration {
    seconds(7 * 24 * 3600)
}

/// What the controller found out about the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemediationPolicyStatus {
    /// `Stopped`: a `stopIf` guard was true, and no person has resumed the policy since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_string()]))]
    pub conditions: Vec<Condition>,
    /// The guard that stopped the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// When it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Timestamp>,
}

impl RemediationPolicyStatus {
    /// A `stopIf` guard has latched.
    pub fn is_stopped(&self) -> bool {
        self.stopped_by.is_some()
    }
}
