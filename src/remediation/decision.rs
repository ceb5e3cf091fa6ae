//! What is to be done next: a status to write, then one effect.

use jiff::SignedDuration;

use crate::api::GpuFaultStatus;
use crate::api::conditions::HoldReason;
use crate::api::fault_status::{Action, PodRef};

/// The answer of [`super::decide`]. The executor writes `status` first, under a resourceVersion check; only if that
/// succeeded does it perform `effect`.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The new status, when it differs from the present one.
    pub status: Option<GpuFaultStatus>,
    /// The one effect to perform afterwards.
    pub effect: Option<Effect>,
    /// What to tell people: an Event and a counter each, once the status is written.
    pub notices: Vec<Notice>,
    /// What to measure, once the status is written.
    pub observations: Vec<Observation>,
    /// When to decide again, if nothing changes before.
    pub next: Next,
}

/// A side effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Cordon the node with this fault's mark.
    Cordon,
    /// Remove this fault's mark; undo the cordon if it is ours and no other fault needs it.
    Uncordon,
    /// Ask for the eviction of these pods, one after the other.
    Evict(Vec<PodRef>),
    /// Let the API server complete the deletion of the object.
    RemoveFinalizer,
    /// Remove a person's retry annotation: it has been obeyed.
    ClearRetry,
    /// Delete the object: its retention is over.
    Delete,
}

impl Effect {
    /// Destructive effects need the lease and a fresh look; giving a node back needs the lease only.
    pub fn action(&self) -> Option<Action> {
        match self {
            Self::Cordon => Some(Action::Cordon),
            Self::Uncordon => Some(Action::Uncordon),
            Self::Evict(_) => Some(Action::EvictPods),
            Self::RemoveFinalizer | Self::ClearRetry | Self::Delete => None,
        }
    }
}

/// Something that people should learn of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// It needs attention.
    pub warning: bool,
    /// A constant word.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
}

/// Something that is measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// A hold began, for this reason.
    Held(HoldReason),
    /// From the first crossing to the isolation of the node.
    Isolated(SignedDuration),
    /// From the first crossing to the last replacement's Ready.
    WorkloadRecovered(SignedDuration),
    /// From the first crossing to the node's return.
    NodeBack(SignedDuration),
    /// A displaced pod reached a verdict; the failure reason, if it failed.
    Rescheduled(Option<String>),
    /// An action ended; `true`: it failed.
    ActionEnded(Action, bool),
}

/// When to decide again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once: the effect, or the new status, changes what is to be done.
    Now,
    /// After this time, or earlier when something changes.
    After(SignedDuration),
    /// When something changes.
    OnChange,
}
