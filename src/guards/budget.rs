//! The budget: how many nodes may be out at once.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::api::conditions::HoldReason;
use crate::api::policy::Budget;

/// Default share of the selected nodes that may be unavailable, in percent.
const DEFAULT_PERCENT: usize = 10;

/// How many nodes are out, as the budget counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nodes that the policy selects.
    pub nodes: usize,
    /// Of them, nodes other than the fault's own that are unavailable, for whatever reason.
    pub unavailable_others: usize,
    /// The fault's own node is unavailable already: acting on it takes nothing more away.
    pub node_is_out: bool,
    /// Nodes other than the fault's own that are in the middle of their steps under this policy.
    pub processing_others: usize,
}

/// How many of that many nodes may be unavailable. A percentage is rounded down, but never below 1: a pool of three
/// with one bad node must not wait for ever.
pub fn limit(budget: &Budget, nodes: usize) -> usize {
    let percent = |percent: usize| (nodes * percent / 100).max(1);
    match &budget.max_unavailable {
        None => percent(DEFAULT_PERCENT),
        Some(IntOrString::Int(n)) => usize::try_from(*n).unwrap_or(0),
        // What is not a percentage allows nothing: the schema refuses it, and a guess could cost a cluster.
        Some(IntOrString::String(s)) => s
            .strip_suffix('%')
            .and_then(|p| p.parse().ok())
            .filter(|p| (1..=100).contains(p))
            .map_or(0, percent),
    }
}

/// Asks whether one more node may be taken out.
pub fn ask(budget: &Budget, usage: &Usage) -> Result<(), (HoldReason, String)> {
    let limit = limit(budget, usage.nodes);
    if !usage.node_is_out && usage.unavailable_others + 1 > limit {
        let message = format!(
            "{} of {} nodes are unavailable, and at most {limit} may be",
            usage.unavailable_others, usage.nodes
        );
        return Err((HoldReason::BudgetMaxUnavailable, message));
    }
    let concurrent = usize::try_from(budget.max_concurrent.unwrap_or(1)).unwrap_or(0);
    if usage.processing_others + 1 > concurrent {
        let message = format!(
            "{} nodes are being remediated, and at most {concurrent} may be",
            usage.processing_others
        );
        return Err((HoldReason::BudgetMaxConcurrent, message));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(max_unavailable: IntOrString, max_concurrent: i32) -> Budget {
        Budget {
            max_unavailable: Some(max_unavailable),
            max_concurrent: Some(max_concurrent),
        }
    }

    #[test]
    fn a_percentage_is_rounded_down_but_never_below_one() {
        let twenty = budget(IntOrString::String("20%".into()), 9);
        assert_eq!(
            (
                limit(&twenty, 3),
                limit(&twenty, 9),
                limit(&twenty, 10),
                limit(&twenty, 14)
            ),
            (1, 1, 2, 2)
        );
        assert_eq!(
            limit(&budget(IntOrString::String("twenty".into()), 1), 100),
            0
        );
        assert_eq!(limit(&budget(IntOrString::Int(-1), 1), 100), 0);
    }

    #[test]
    fn the_reason_names_what_is_used_up() {
        let usage = Usage {
            nodes: 10,
            unavailable_others: 2,
            node_is_out: false,
            processing_others: 0,
        };
        assert_eq!(
            ask(&budget(IntOrString::Int(2), 5), &usage).unwrap_err().0,
            HoldReason::BudgetMaxUnavailable
        );
        let usage = Usage {
            nodes: 10,
            unavailable_others: 1,
            node_is_out: false,
            processing_others: 1,
        };
        assert_eq!(
            ask(&budget(IntOrString::Int(2), 1), &usage).unwrap_err().0,
            HoldReason::BudgetMaxConcurrent
        );
    }

    #[test]
    fn a_node_that_is_out_already_takes_nothing_more_away() {
        let usage = Usage {
            nodes: 10,
            unavailable_others: 5,
            node_is_out: true,
            processing_others: 0,
        };
        assert_eq!(ask(&budget(IntOrString::Int(1), 1), &usage), Ok(()));
    }

    proptest! {
        /// However faults arrive, never more nodes are out than the budget allows.
        #[test]
        fn never_beyond_the_budget(nodes in 1usize..200, percent in 1usize..=100, arrivals in 0usize..300) {
            let budget = budget(IntOrString::String(format!("{percent}%")), i32::MAX);
            let mut out = 0;
            for _ in 0..arrivals.min(nodes) {
                let usage = Usage { nodes, unavailable_others: out, node_is_out: false, processing_others: out };
                if ask(&budget, &usage).is_ok() { out += 1; }
            }
            prop_assert!(out <= (nodes * percent / 100).max(1));
        }
    }
}
