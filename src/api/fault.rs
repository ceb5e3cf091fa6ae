//! `GpuFault`: one fault on one GPU (or one whole node), from the first crossing of its rule to recovery.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault_status::GpuFaultStatus;

/// What was seen. Written once, never changed; what is done about it stands in the status. Any detector, or a person,
/// may create one.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "gpu-remediator.dev",
    version = "v1alpha1",
    kind = "GpuFault",
    plural = "gpufaults",
    shortname = "gf",
    category = "gpu-remediator",
    status = "GpuFaultStatus",
    derive = "PartialEq",
    doc = "One fault of one GPU, or of a whole node, and everything that was done about it.",
    printcolumn = r#"{"name": "Node", "type": "string", "jsonPath": ".spec.nodeName"}"#,
    printcolumn = r#"{"name": "GPU", "type": "string", "jsonPath": ".spec.gpu.index"}"#,
    printcolumn = r#"{"name": "Xid", "type": "integer", "jsonPath": ".spec.xid"}"#,
    printcolumn = r#"{"name": "Rule", "type": "string", "jsonPath": ".spec.ruleRef.alert"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[x_kube(validation = Rule::new("self == oldSelf").message("spec is immutable: it records what was seen; delete the GpuFault and create another"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuFaultSpec {
    /// Name of the node that has the fault.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,
    /// UID of that node when the fault was seen. A node that was deleted and made again is another node: the fault is
    /// then cancelled. Empty when a person did not give it; it is then taken from the node at the first visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_uid: Option<String>,
    /// The GPU; absent when the fault is the whole node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuRef>,
    /// NVIDIA Xid code, where the rule is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xid: Option<u32>,
    /// What happened, in one sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub message: String,
    /// When the fault was first seen: the first evaluation at which the rule's expression crossed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault_time: Option<Timestamp>,
    /// Identity of the fault: a digest of node name, node UID, GPU, rule and Xid. The object's name is made from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub fingerprint: Option<String>,
    /// The rule that saw it; absent on a fault that a person or another detector created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_ref: Option<RuleRef>,
    /// The policy that says what to do.
    pub policy_ref: PolicyRef,
    /// The sample on which the fault was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// One GPU, by the names under which the driver and the kernel know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuRef {
    /// Index of the GPU on its node, as NVML counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub index: Option<String>,
    /// UUID as NVML gives it, for example `GPU-2f6a…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 96))]
    pub uuid: Option<String>,
    /// PCI bus id as NVML gives it, for example `00000000:3B:00.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub pci_bus_id: Option<String>,
}

/// A rule inside a `GpuFaultRule`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleRef {
    /// Name of the `GpuFaultRule` object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Name of the group inside it.
    #[schemars(length(min = 1, max = 253))]
    pub group: String,
    /// Name of the alert inside the group.
    #[schemars(length(min = 1, max = 253))]
    pub alert: String,
}

/// A `RemediationPolicy`, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyRef {
    /// Name of the `RemediationPolicy` object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// The sample that opened the fault, as Prometheus returned it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evidence {
    /// The PromQL expression that was asked.
    #[schemars(length(max = 16384))]
    pub query: String,
    /// The sample's value, as text: `NaN` and `+Inf` are not JSON numbers.
    #[schemars(length(max = 64))]
    pub value: String,
    /// The sample's labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The sample's own time.
    pub sample_time: Timestamp,
}
