//! What happens in a story, as data, and as the sentence that is told.

use serde::Serialize;

use crate::api::fault_status::{Action, Phase, RescheduleOutcome};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "event",
    rename_all = "PascalCase",
    rename_all_fields = "camelCase"
)]
pub enum Happening {
    /// The driver wrote a line to the kernel log of a node.
    KernelLogged {
        /// The node.
        node: String,
        /// The line, as it stands in the log.
        line: String,
    },
    /// The scenario does something to the cluster.
    Staged {
        /// What, as a sentence.
        what: String,
    },
    /// A person does something.
    PersonActed {
        /// What, as a sentence.
        what: String,
    },
    /// A `GpuFault` was created.
    FaultOpened {
        /// Its name.
        fault: String,
        /// The node that has it.
        node: String,
        /// Its sentence.
        message: String,
        /// Who created it.
        by: String,
    },
    /// A `GpuFault` is in another phase, or there for another reason.
    FaultMoved {
        /// Its name.
        fault: String,
        /// The phase now.
        phase: Phase,
        /// The reason now.
        reason: String,
        /// The sentence.
        message: String,
    },
    /// An attempt was written down, before its effect.
    AttemptBegun {
        /// The fault.
        fault: String,
        /// The attempt's number.
        number: u32,
        /// What is attempted.
        action: Action,
        /// For an eviction, the pods that it is about.
        pods: Vec<String>,
    },
    /// What became of a displaced pod is known.
    ReplacementJudged {
        /// The fault.
        fault: String,
        /// The pod that was displaced.
        pod: String,
        /// Its replacement.
        replacement: Option<String>,
        /// Where that one runs.
        node: Option<String>,
        /// What became of it.
        outcome: RescheduleOutcome,
        /// Why it failed.
        failure_reason: Option<String>,
    },
    /// A `GpuFault` was deleted.
    FaultDeleted {
        /// Its name.
        fault: String,
    },
    /// A node was made unschedulable.
    NodeCordoned {
        /// The node.
        node: String,
        /// Who did it.
        by: String,
    },
    /// A node was made schedulable.
    NodeUncordoned {
        /// The node.
        node: String,
        /// Who did it.
        by: String,
    },
    /// A node's Ready condition has changed.
    NodeReadiness {
        /// The node.
        node: String,
        /// Whether it is Ready.
        ready: bool,
    },
    /// An eviction was asked for and answered.
    EvictionAnswered {
        /// The pod, with its namespace.
        pod: String,
        /// The UID that was the precondition.
        uid: Option<String>,
        /// The status code of the answer.
        code: u16,
        /// Who asked.
        by: String,
    },
    /// A GPU pod was bound to a node.
    PodScheduled {
        /// The pod, with its namespace.
        pod: String,
        /// The node.
        node: String,
    },
    /// There is no place for a GPU pod.
    PodUnschedulable {
        /// The pod, with its namespace.
        pod: String,
        /// What the scheduler says.
        message: String,
    },
    /// A GPU pod is Ready.
    PodReady {
        /// The pod, with its namespace.
        pod: String,
        /// The node.
        node: String,
    },
    /// A GPU pod that had run is gone.
    PodGone {
        /// The pod, with its namespace.
        pod: String,
        /// The node it was on.
        node: String,
    },
    /// A `stopIf` guard has latched.
    PolicyStopped {
        /// The policy.
        policy: String,
        /// The guard.
        guard: String,
    },
    /// The latch of a policy was released.
    PolicyResumed {
        /// The policy.
        policy: String,
    },
    /// Another controller leads, or none.
    LeaderChanged {
        /// Who holds the lease; `None` when it was given back.
        holder: Option<String>,
    },
}

/// How a line is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Something is broken.
    Bad,
    /// Something waits for people, guards or budgets.
    Held,
    /// Something is done.
    Act,
    /// Something has got better.
    Good,
    /// It is only so.
    Plain,
    /// Worth a line, not a look.
    Quiet,
}

impl Happening {
    /// The subject, one word: the second column of the story.
    #[must_use]
    pub fn subject(&self) -> &'static str {
        match self {
            Self::KernelLogged { .. } => "kernel log",
            Self::Staged { .. } => "scenario",
            Self::PersonActed { .. } => "person",
            Self::FaultOpened { .. } | Self::FaultMoved { .. } | Self::FaultDeleted { .. } => {
                "fault"
            }
            Self::AttemptBegun { .. } => "attempt",
            Self::NodeCordoned { .. }
            | Self::NodeUncordoned { .. }
            | Self::NodeReadiness { .. } => "node",
            Self::EvictionAnswered { .. } => "eviction",
            Self::PodScheduled { .. }
            | Self::PodUnschedulable { .. }
            | Self::PodReady { .. }
            | Self::PodGone { .. } => "pod",
            Self::ReplacementJudged { .. } => "workload",
            Self::PolicyStopped { .. } | Self::PolicyResumed { .. } => "policy",
            Self::LeaderChanged { .. } => "leader",
        }
    }

    /// How the line is coloured.
    #[must_use]
    pub fn tone(&self) -> Tone {
        match self {
            Self::KernelLogged { .. } | Self::FaultOpened { .. } => Tone::Bad,
            Self::FaultMoved { phase, reason, .. } => fault_tone(*phase, reason),
            Self::PodUnschedulable { .. } | Self::PolicyStopped { .. } => Tone::Held,
            Self::NodeReadiness { ready, .. } => {
                if *ready {
                    Tone::Good
                } else {
                    Tone::Bad
                }
            }
            Self::EvictionAnswered { code, .. } => match code {
                200..300 => Tone::Act,
                _ => Tone::Held,
            },
            Self::NodeCordoned { .. } => Tone::Act,
            Self::NodeUncordoned { .. } | Self::PodReady { .. } => Tone::Good,
            Self::ReplacementJudged { outcome, .. } => match outcome {
                RescheduleOutcome::Rescheduled => Tone::Good,
                RescheduleOutcome::Failed => Tone::Bad,
                _ => Tone::Plain,
            },
            Self::Staged { .. } | Self::PersonActed { .. } | Self::LeaderChanged { .. } => {
                Tone::Plain
            }
            Self::PolicyResumed { .. } => Tone::Good,
            Self::AttemptBegun { .. }
            | Self::PodScheduled { .. }
            | Self::PodGone { .. }
            | Self::FaultDeleted { .. } => Tone::Quiet,
        }
    }

    /// The sentence.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::KernelLogged { node, line } => format!("{node}: {line}"),
            Self::Staged { what } | Self::PersonActed { what } => what.clone(),
            Self::FaultOpened { fault, message, .. } => format!("{fault} opened: {message}"),
            Self::FaultMoved {
                phase,
                reason,
                message,
                ..
            } if reason == phase.as_str() => format!("{reason}: {message}"),
            Self::FaultMoved {
                phase,
                reason,
                message,
                ..
            } => format!("{}, {reason}: {message}", phase.as_str()),
            Self::AttemptBegun {
                number,
                action,
                pods,
                ..
            } => {
                let of = match pods.is_empty() {
                    true => String::new(),
                    false => format!(" of {}", pods.join(", ")),
                };
                format!("{number} is written down: {}{of}", action.as_str())
            }
            Self::ReplacementJudged {
                pod,
                replacement,
                node,
                outcome,
                failure_reason,
                ..
            } => judged(
                pod,
                replacement.as_deref(),
                node.as_deref(),
                *outcome,
                failure_reason.as_deref(),
            ),
            Self::FaultDeleted { fault } => format!("{fault} is deleted"),
            Self::NodeCordoned { node, by } => format!("{node} is cordoned by {by}"),
            Self::NodeUncordoned { node, by } => format!("{node} is schedulable again, by {by}"),
            Self::NodeReadiness { node, ready: true } => format!("{node} is Ready"),
            Self::NodeReadiness { node, ready: false } => format!("{node} is not Ready"),
            Self::EvictionAnswered { pod, code, by, .. } => {
                format!("{pod}: {} ({by})", eviction_answer(*code))
            }
            Self::PodScheduled { pod, node } => format!("{pod} is scheduled to {node}"),
            Self::PodUnschedulable { pod, message } => format!("{pod} finds no place: {message}"),
            Self::PodReady { pod, node } => format!("{pod} is Ready on {node}"),
            Self::PodGone { pod, node } => format!("{pod} is gone from {node}"),
            Self::PolicyStopped { policy, guard } => {
                format!("{policy} is stopped by guard {guard:?} until a person resumes it")
            }
            Self::PolicyResumed { policy } => format!("{policy} is resumed"),
            Self::LeaderChanged {
                holder: Some(holder),
            } => format!("{holder} holds the lease"),
            Self::LeaderChanged { holder: None } => "nobody holds the lease".to_owned(),
        }
    }
}

fn fault_tone(phase: Phase, reason: &str) -> Tone {
    let held = [
        "PausedByGuard",
        "StoppedByGuard",
        "GuardUnknown",
        "BudgetMaxUnavailable",
        "BudgetMaxConcurrent",
        "BlockedByDisruptionBudget",
        "DrainedForAnotherFault",
        "HealthUnknown",
        "RuleNotFiring",
        "PolicyNotFound",
    ];
    match phase {
        Phase::Failed => Tone::Bad,
        Phase::Recovered => Tone::Good,
        _ if held.contains(&reason) => Tone::Held,
        Phase::Cancelled | Phase::Pending => Tone::Plain,
        _ if matches!(reason, "Verified" | "HealthProven" | "Drained") => Tone::Good,
        _ => Tone::Plain,
    }
}

fn eviction_answer(code: u16) -> String {
    match code {
        200..300 => "eviction accepted".to_owned(),
        404 | 409 => "that pod is gone already".to_owned(),
        429 => "eviction refused for now: a PodDisruptionBudget is spent (429)".to_owned(),
        code => format!("eviction refused ({code})"),
    }
}

fn judged(
    pod: &str,
    replacement: Option<&str>,
    node: Option<&str>,
    outcome: RescheduleOutcome,
    failure_reason: Option<&str>,
) -> String {
    match outcome {
        RescheduleOutcome::Rescheduled => format!(
            "{pod} is replaced by {}, Ready on {}",
            replacement.unwrap_or("another pod"),
            node.unwrap_or("another node")
        ),
        RescheduleOutcome::Failed => {
            format!(
                "{pod} was not replaced in time: {}",
                failure_reason.unwrap_or("unknown")
            )
        }
        RescheduleOutcome::Unmanaged => format!("{pod} has no controller; nobody replaces it"),
        RescheduleOutcome::Excluded => format!("{pod} is not wanted any more by its owner"),
        RescheduleOutcome::Awaited => format!("{pod}: its replacement is awaited"),
    }
}
