//! The world as one decision sees it. The controller observes; this is what it hands over.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::mark::CordonMark;
use crate::api::fault_status::{OwnerRef, PodRef};
use crate::api::{GpuFaultSpec, GpuFaultStatus, RemediationPolicySpec};
use crate::guards::budget::Usage;
use crate::slo::matching::{Candidate, OwnerState};

/// The fault to decide about.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Object name.
    pub name: String,
    /// Object UID.
    pub uid: String,
    /// Object generation, for `observedGeneration`.
    pub generation: Option<i64>,
    /// When the object was created.
    pub created: Timestamp,
    /// The object is being deleted and waits for our finalizer.
    pub deleting: bool,
    /// A person asked for the steps to be run again.
    pub retry_requested: bool,
    /// What was seen.
    pub spec: GpuFaultSpec,
    /// What has been done so far.
    pub status: GpuFaultStatus,
}

/// Everything outside the fault that a decision may depend on. A field that is `None` was not observed; no decision
/// takes that for an answer.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The policy that the fault names; `None`: it does not exist.
    pub policy: Option<RemediationPolicySpec>,
    /// The guard that has stopped the policy until a person resumes it.
    pub stopped_by: Option<String>,
    /// The node; `None`: the API server has no node of that name.
    pub node: Option<NodeFacts>,
    /// Why the fault may not be admitted or may not take another destructive step; `None`: not asked.
    pub guards: Option<GuardFindings>,
    /// Who else is out of service.
    pub fleet: FleetFacts,
    /// GPU pods on the node; `None`: not listed yet.
    pub pods: Option<Vec<PodFacts>>,
    /// PodDisruptionBudgets that cover those pods: `namespace/name` and how many disruptions each allows now.
    pub disruptions_allowed: BTreeMap<String, i32>,
    /// Another fault of the node whose turn it is to evict its pods.
    pub drained_for: Option<String>,
    /// The answer to the current verify step's query.
    pub verify: Option<Finding>,
    /// The answer to the recovery's health query.
    pub health: Option<Finding>,
    /// What the fault's rule says now.
    pub rule: RuleFacts,
    /// The rule has been silent at some time since this activation began.
    pub rule_was_silent: bool,
    /// Another fault of the same node is open: what is wrong with the node's health is its business.
    pub node_has_open_fault: bool,
    /// Pods that may be replacements of displaced pods; `None`: not listed yet.
    pub candidates: Option<Vec<Candidate>>,
    /// UIDs of pods that already count as replacements for other faults' displaced pods.
    pub taken: BTreeSet<String>,
    /// What is known of root owners, by UID.
    pub owners: BTreeMap<String, OwnerState>,
}

/// A three-valued answer with its circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `Some(true)`: it holds; `Some(false)`: it certainly does not; `None`: unknown.
    pub holds: Option<bool>,
    /// What was found, for people.
    pub detail: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// Since when each look of this process at the same question has said that it holds, without a gap, this one
    /// included; `None`: this one does not. A proof that must hold for some time starts anew where nobody looked.
    pub unbroken_since: Option<Timestamp>,
}

/// What a policy's guards say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardFindings {
    /// The first `stopIf` guard that is true.
    pub stop: Option<(String, String)>,
    /// The first `pauseIf` guard that is true: name and detail.
    pub pause: Option<(String, String)>,
    /// The first guard without a trustworthy answer: name and detail.
    pub unknown: Option<(String, String)>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// No new pods are scheduled here.
    pub unschedulable: bool,
    /// The kubelet reports Ready.
    pub ready: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Our mark, where there is one.
    pub mark: Option<CordonMark>,
    /// The annotation exists but cannot be read: someone edited it.
    pub mark_unreadable: bool,
}

/// Who is out of service under the same policy's node selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetFacts {
    /// The policy's node selector matches the fault's node.
    pub selects_node: bool,
    /// What the budget counts; `None`: not counted, because something else holds already.
    pub usage: Option<Usage>,
}

/// One GPU pod on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// The pod.
    pub pod: PodRef,
    /// When it was created.
    pub created: Timestamp,
    /// It is being deleted; it holds its GPU until it is gone.
    pub terminating: bool,
    /// It has succeeded or failed: it holds no GPU any more.
    pub finished: bool,
    /// It is Running and Ready: a PodDisruptionBudget counts it.
    pub ready: bool,
    /// Why it stays, if it does.
    pub stays: Option<StayReason>,
    /// Its root owner.
    pub owner: Option<OwnerRef>,
    /// Its slot under that owner.
    pub slot: Option<String>,
    /// PodDisruptionBudgets that select it, as `namespace/name`.
    pub budgets: Vec<String>,
    /// Not to be asked for again before: the API server has just refused its eviction.
    pub retry_after: Option<Timestamp>,
    /// The API server's sentence, where it has refused the eviction for good.
    pub refused: Option<String>,
}

/// Why a GPU pod is never evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StayReason {
    /// A DaemonSet's pod: it would come back at once.
    DaemonSet,
    /// A static pod: the API server only mirrors it.
    Static,
    /// Its namespace is protected.
    ProtectedNamespace,
}

/// What the fault's rule says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleFacts {
    /// No evaluation that can be trusted.
    #[default]
    Unknown,
    /// Its expression returns this fault's series now.
    Firing,
    /// Evaluated, and it does not.
    Silent,
    /// The rule has been deleted.
    Gone,
}
