//! May the fault act? Policy, mode, node, guards and budget are asked in this order; the first that says no is the
//! reason of the hold.

use super::world::{Fault, GuardFindings, World};
use crate::api::conditions::HoldReason;
use crate::api::policy::Mode;
use crate::guards::budget;

/// What holds a fault back, with the sentence for people.
pub type Hold = (HoldReason, String);

/// Asks everything that may hold a fault that has not acted yet.
pub fn ask(fault: &Fault, world: &World) -> Result<(), Hold> {
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
    guards(world)?;
    budget::ask(&policy.budget, &world.fleet.usage)
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
