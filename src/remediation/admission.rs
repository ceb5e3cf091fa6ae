//! May the fault act? Policy, mode, node, guards and budget are asked in this order; the first that says no is the
//! reason of the hold.

use super::world::{Fault, GuardFindings, RuleFacts, World};
use crate::api::conditions::HoldReason;
use crate::api::policy::Mode;
use crate::guards::budget;

/// What holds a fault back, with the sentence for people.
pub type Hold = (HoldReason, String);

/// Asks everything that may hold a fault that has not acted yet.
pub fn ask(fault: &Fault, world: &World) -> Result<(), Hold> {
    before_budget(fault, world)?;
    let usage = world.fleet.usage.as_ref();
    match (&world.policy, usage) {
        (Some(policy), Some(usage)) => budget::ask(&policy.budget, usage),
        _ => Err((
            HoldReason::BudgetMaxUnavailable,
            "The budget has not been counted yet".into(),
        )),
    }
}

/// Asks all but the budget. Only when nothing here holds is the budget counted, with no other admission in between.
pub fn before_budget(fault: &Fault, world: &World) -> Result<(), Hold> {
    let Some(policy) = &world.policy else {
        let name = &fault.spec.policy_ref.name;
        let message =
            format!("There is no RemediationPolicy {name:?}; create it, or delete this fault");
        return Err((HoldReason::PolicyNotFound, message));
    };
    if policy.mode == Mode::Observe {
        return Err((
            HoldReason::ObserveOnly,
            "The policy's mode is Observe: the fault is only recorded".into(),
        ));
    }
    if !world.fleet.selects_node {
        let message = format!(
            "The policy's nodeSelector does not match node {:?}",
            fault.spec.node_name
        );
        return Err((HoldReason::NodeNotSelected, message));
    }
    still_there(fault, world)?;
    guards(world)
}

/// A fault that was held for long may be over by itself. It acts only while its rule fires, or while its health is
/// disproved; one that a person asked to try again, and one that a person made, need no rule.
fn still_there(fault: &Fault, world: &World) -> Result<(), Hold> {
    let retried = fault.status.isolation.is_some();
    if fault.spec.rule_ref.is_none() || retried || world.rule == RuleFacts::Firing {
        return Ok(());
    }
    match (world.rule, world.health.as_ref().and_then(|h| h.holds)) {
        (RuleFacts::Silent, Some(false)) => Ok(()),
        (RuleFacts::Silent, _) => {
            let message = "The rule has fallen silent, and health is not disproved";
            Err((HoldReason::RuleNotFiring, message.into()))
        }
        _ => Err((
            HoldReason::RuleNotFiring,
            "Nobody knows at the moment whether the rule fires".into(),
        )),
    }
}

/// Asks the guards alone: what may hold a fault at any of its destructive steps.
pub fn guards(world: &World) -> Result<(), Hold> {
    if let Some(name) = &world.stopped_by {
        let message = format!(
            "Guard {name:?} has stopped the policy; look into it, then resume: kubectl annotate remediationpolicy \
             <name> gpu-remediator.dev/resume=yes"
        );
        return Err((HoldReason::StoppedByGuard, message));
    }
    if world.policy.is_none() {
        return Err((
            HoldReason::PolicyNotFound,
            "The policy is gone; create it again, or delete this fault".into(),
        ));
    }
    let Some(GuardFindings {
        stop,
        pause,
        unknown,
    }) = &world.guards
    else {
        return Err((
            HoldReason::GuardUnknown,
            "The guards have not been asked yet".into(),
        ));
    };
    if let Some((name, detail)) = stop {
        return Err((
            HoldReason::StoppedByGuard,
            format!("Guard {name:?} stops the policy: {detail}"),
        ));
    }
    if let Some((name, detail)) = unknown {
        return Err((
            HoldReason::GuardUnknown,
            format!("Guard {name:?} has no answer: {detail}"),
        ));
    }
    if let Some((name, detail)) = pause {
        return Err((
            HoldReason::PausedByGuard,
            format!("Guard {name:?} holds: {detail}"),
        ));
    }
    Ok(())
}
