//! Condition types and the closed list of reasons. A reason is an API: it appears in conditions, Events and metric
//! labels, and people alert on it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Guards, window, budget and policy allow the fault to act.
pub const ADMITTED: &str = "Admitted";
/// The node is out of service on behalf of this fault.
pub const ISOLATED: &str = "Isolated";
/// No GPU pod that we may evict is left on the node.
pub const DRAINED: &str = "Drained";
/// A `pauseIf` guard holds an admitted fault.
pub const PAUSED: &str = "Paused";
/// A `stopIf` guard has latched.
pub const STOPPED: &str = "Stopped";
/// The health query holds.
pub const HEALTHY: &str = "Healthy";
/// The summary of a bounded execution: True when recovered, False when failed or cancelled, else Unknown.
pub const SUCCEEDED: &str = "Succeeded";

/// Why a fault may not proceed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HoldReason {
    /// The fault has only just been seen.
    New,
    /// The policy that the fault names does not exist.
    PolicyNotFound,
    /// The policy's mode is Observe.
    ObserveOnly,
    /// The policy's node selector does not match the node.
    NodeNotSelected,
    /// The fault's rule does not fire at the moment, or nobody knows, and health is not disproved.
    RuleNotFiring,
    /// A `pauseIf` guard is true.
    PausedByGuard,
    /// A `stopIf` guard has latched.
    StoppedByGuard,
    /// A guard has no trustworthy answer.
    GuardUnknown,
    /// `budget.maxUnavailable` is used up.
    BudgetMaxUnavailable,
    /// `budget.maxConcurrent` is used up.
    BudgetMaxConcurrent,
    /// A PodDisruptionBudget lets no further pod go at the moment.
    BlockedByDisruptionBudget,
    /// Another fault of the node evicts its GPU pods.
    DrainedForAnotherFault,
}

impl HoldReason {
    /// Every reason; metrics start each at 0.
    pub const ALL: [Self; 12] = [
        Self::New,
        Self::PolicyNotFound,
        Self::ObserveOnly,
        Self::NodeNotSelected,
        Self::RuleNotFiring,
        Self::PausedByGuard,
        Self::StoppedByGuard,
        Self::GuardUnknown,
        Self::BudgetMaxUnavailable,
        Self::BudgetMaxConcurrent,
        Self::BlockedByDisruptionBudget,
        Self::DrainedForAnotherFault,
    ];

    /// The word itself.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "New",
            Self::PolicyNotFound => "PolicyNotFound",
            Self::ObserveOnly => "ObserveOnly",
            Self::NodeNotSelected => "NodeNotSelected",
            Self::RuleNotFiring => "RuleNotFiring",
            Self::PausedByGuard => "PausedByGuard",
            Self::StoppedByGuard => "StoppedByGuard",
            Self::GuardUnknown => "GuardUnknown",
            Self::BudgetMaxUnavailable => "BudgetMaxUnavailable",
            Self::BudgetMaxConcurrent => "BudgetMaxConcurrent",
            Self::BlockedByDisruptionBudget => "BlockedByDisruptionBudget",
            Self::DrainedForAnotherFault => "DrainedForAnotherFault",
        }
    }
}

/// Sets one condition. `last_transition_time` moves only when the status changes, as the API conventions ask.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: Option<bool>,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let mut condition = Condition {
        type_: type_.to_string(),
        status: status.to_string(),
        reason: reason.to_string(),
        message: message.to_string(),
        observed_generation: generation,
        last_transition_time: Time(now),
    };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(existing) => {
            if existing.status == condition.status {
                condition.last_transition_time = existing.last_transition_time.clone();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

/// The condition of that type, if it has been set.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// The condition of that type is True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    get(conditions, type_).is_some_and(|c| c.status == "True")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let (first, second, third) = (
            Timestamp::from_second(1).unwrap(),
            Timestamp::from_second(2).unwrap(),
            Timestamp::from_second(3).unwrap(),
        );
        let mut list = Vec::new();
        set(&mut list, ADMITTED, Some(false), "New", "a", None, first);
        set(
            &mut list,
            ADMITTED,
            Some(false),
            "GuardUnknown",
            "b",
            None,
            second,
        );
        let condition = get(&list, ADMITTED).unwrap();
        assert_eq!(
            (condition.reason.as_str(), condition.last_transition_time.0),
            ("GuardUnknown", first)
        );
        set(
            &mut list,
            ADMITTED,
            Some(true),
            "Admitted",
            "c",
            None,
            third,
        );
        assert_eq!(get(&list, ADMITTED).unwrap().last_transition_time.0, third);
        assert_eq!(list.len(), 1);
        assert!(is_true(&list, ADMITTED) && !is_true(&list, PAUSED));
    }
}
