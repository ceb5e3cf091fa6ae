//! The status of a `GpuFault`: its phase, what holds it, what was attempted, whom it displaced, and when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::Step;

/// What has been done about the fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuFaultStatus {
    /// Summary of the conditions.
    #[serde(default)]
    pub phase: Phase,
    /// Why the fault is where it is: one word out of a closed list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The same in one sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The contract: `Admitted`, `Isolated`, `Drained`, `Paused`, `Stopped`, `Healthy`, `Succeeded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_string()]))]
    pub conditions: Vec<Condition>,
    /// How often this fault has occurred: 1, and one more each time its rule fires anew after it had ended.
    #[serde(default)]
    pub occurrence: u32,
    /// How often the steps have been run in the whole life of the fault: 1, and one more each time it occurs again,
    /// returns before recovery was complete, or is retried by a person.
    #[serde(default)]
    pub round: u32,
    /// When the rule's expression first crossed in this occurrence; every recovery time is counted from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_at: Option<Timestamp>,
    /// UID of the node that this fault is about, as found at the first visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uid: Option<String>,
    /// The steps, as the policy had them when the fault was admitted. A policy that is edited later does not change a
    /// remediation that is under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,
    /// Each numbered run of a step, written before its side effect. The last 50 are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// What isolates the node on behalf of this fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// GPU pods that were evicted because of this fault, and what became of their replacements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub displaced_pods: Vec<DisplacedPod>,
    /// Since when the health query has held without a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Timestamp>,
    /// When each stage was reached, in this occurrence.
    #[serde(default)]
    pub timeline: Timeline,
}

/// Where a fault stands.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum Phase {
    /// Seen, not yet allowed to act.
    #[default]
    Pending,
    /// Steps are running.
    Processing,
    /// Isolated, GPU pods gone, steps done.
    Handled,
    /// Health is being proven.
    Recovering,
    /// Isolation undone.
    Recovered,
    /// A step failed for good; isolation stays until a person acts.
    Failed,
    /// A person uncordoned, or the node is gone.
    Cancelled,
}

impl Phase {
    /// Every phase, in the order of a fault's life.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Processing,
        Self::Handled,
        Self::Recovering,
        Self::Recovered,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name as it stands in the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Processing => "Processing",
            Self::Handled => "Handled",
            Self::Recovering => "Recovering",
            Self::Recovered => "Recovered",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }

    /// The fault has ended: nothing more will be done for this occurrence.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Recovered | Self::Cancelled)
    }

    /// The fault may hold its node out of service.
    pub fn holds_node(self) -> bool {
        matches!(
            self,
            Self::Processing | Self::Handled | Self::Recovering | Self::Failed
        )
    }
}

/// The kind of a step or of another effect that is attempted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Action {
    /// Mark the node unschedulable.
    Cordon,
    /// Evict the GPU pods on the node.
    EvictPods,
    /// Wait until a query proves that the repair worked.
    Verify,
    /// Undo our cordon.
    Uncordon,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 4] = [Self::Cordon, Self::EvictPods, Self::Verify, Self::Uncordon];

    /// The name as it stands in the object, in events and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cordon => "Cordon",
            Self::EvictPods => "EvictPods",
            Self::Verify => "Verify",
            Self::Uncordon => "Uncordon",
        }
    }
}

/// How an attempt ended, or that it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// Begun; its effect may or may not have happened yet.
    #[default]
    Running,
    /// Done.
    Succeeded,
    /// Given up.
    Failed,
    /// Stopped by a person, or because the node is gone.
    Cancelled,
}

/// One numbered run of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Number of the attempt, counted over the whole life of the fault.
    pub number: u32,
    /// The round (see `status.round`) that it belongs to.
    pub round: u32,
    /// What was attempted.
    pub action: Action,
    /// Position of the step in `status.plan`; absent for what is not a step (the final uncordon).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// When it was begun.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default)]
    pub outcome: Outcome,
    /// More, in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For an eviction: the pods that it is about, by UID. A pod that is not in this list is never evicted by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodRef>,
    /// For an eviction that failed: the GPU pods that were still on the node, those that were ending among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stayed: Vec<PodRef>,
    /// For a verification: since when its query has held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_since: Option<Timestamp>,
    /// Since when a guard holds this attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_since: Option<Timestamp>,
    /// For how many milliseconds guards have held it before; time that does not count against its deadline.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_millis: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// One pod of one incarnation.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct PodRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID: a pod made again under the same name is another pod.
    pub uid: String,
}

impl std::fmt::Display for PodRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What isolates the node on behalf of this fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// The cordon is ours. `false`: the node had been cordoned by someone else already, and stays so after recovery.
    pub cordon_owned: bool,
    /// When the node was seen cordoned with this fault's mark.
    pub cordoned_at: Timestamp,
}

/// A GPU pod that is evicted because of this fault. It is written here before its eviction is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisplacedPod {
    /// The pod that was evicted.
    pub pod: PodRef,
    /// Its root owner: the controller at the end of the chain, for example the Deployment behind the ReplicaSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerRef>,
    /// Its slot, where the owner has slots: the ordinal of a StatefulSet, the completion index of a Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// When the API server accepted its eviction. Absent: the eviction is intended, but has not been accepted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicted_at: Option<Timestamp>,
    /// Set where the API server's answer was lost and `evictedAt` is only when the pod was found ending or gone: the
    /// eviction, and thus the replacement, may be as old as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicted_after: Option<Timestamp>,
    /// The pod that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Replacement>,
    /// What became of it.
    #[serde(default)]
    pub outcome: RescheduleOutcome,
    /// Why it failed: `no_replacement`, `unschedulable`, `gated`, `start_failure`, `same_node`, `not_ready`,
    /// `owner_failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
}

/// The root owner of a pod.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct OwnerRef {
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// The pod that took a displaced pod's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replacement {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The node that it runs on, once it is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Since when it is Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Timestamp>,
}

/// What became of a displaced pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RescheduleOutcome {
    /// Its replacement is still awaited.
    #[default]
    Awaited,
    /// Its replacement is Ready on another node.
    Rescheduled,
    /// No replacement became Ready on another node within the deadline.
    Failed,
    /// It has no controller: nobody will replace it. Neither success nor failure.
    Unmanaged,
    /// Its owner has finished, is gone or wants fewer pods. Neither success nor failure.
    Excluded,
}

/// When each stage was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// Guards and budget allowed it to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted_at: Option<Timestamp>,
    /// The node was isolated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated_at: Option<Timestamp>,
    /// The last GPU pod was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_at: Option<Timestamp>,
    /// All steps were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_at: Option<Timestamp>,
    /// The last displaced pod's replacement was Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_recovered_at: Option<Timestamp>,
    /// Our cordon was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_back_at: Option<Timestamp>,
    /// The fault ended: Recovered, Failed or Cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}
