//! One fault: observe, decide, execute, until nothing is left to be done at once.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;

use super::context::Context;
use super::execute::{self, ExecuteError, Executed, execute};
use super::guard_book;
use super::observe::{self, ObserveError, observe};
use super::watches;
use crate::api::names::{FINALIZER, RETRY_ANNOTATION};
use crate::api::{GpuFault, Phase};
use crate::kubernetes::clients::ApiError;
use crate::kubernetes::faults;
use crate::remediation::{Fault, Next, World, admission, decide};

/// How many decisions are made in a row before others get their turn.
const MOST_IN_A_ROW: usize = 16;

/// After an effect its watch event is awaited; should it be lost, this is when the fault is looked at all the same.
const LOST_EVENT: Duration = Duration::from_secs(1);

/// How often a process that may not act looks whether it may. It costs no request.
const NOT_ACTING: Duration = Duration::from_secs(2);

/// A reconciliation failed, and is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The world could not be observed.
    #[error("observing")]
    Observe(#[from] ObserveError),
    /// The decision could not be performed.
    #[error("acting")]
    Execute(#[from] ExecuteError),
    /// The finalizer could not be set.
    #[error("setting the finalizer")]
    Finalizer(#[source] ApiError),
    /// The stop latch could not be written.
    #[error("latching a stop guard")]
    Latch(#[source] ApiError),
}

/// Reconciles one fault. Only the leader does; the others keep their caches warm.
pub async fn reconcile(seen: Arc<GpuFault>, ctx: Arc<Context>) -> Result<Requeue, ReconcileError> {
    if ctx.leadership.check().is_err() || !ctx.caches.are_ready() {
        // Not `await_change`: a leader whose renewal was only late goes on in the same term, and nobody nudges then.
        return Ok(Requeue::requeue(NOT_ACTING));
    }
    let mut object = ctx.caches.newest(seen);
    if object.metadata.deletion_timestamp.is_some()
        && !object.finalizers().iter().any(|f| f == FINALIZER)
    {
        ctx.caches.forget(&object.name_any());
        return Ok(Requeue::await_change());
    }
    if object.metadata.deletion_timestamp.is_none()
        && !object.finalizers().iter().any(|f| f == FINALIZER)
    {
        match faults::add_finalizer(&ctx.clients.act, &object).await {
            Ok(changed) => {
                ctx.caches.wrote(changed.clone());
                object = Arc::new(changed);
            }
            Err(error) if error.is_not_found() || error.is_conflict() => {
                return Ok(Requeue::requeue(Duration::from_millis(100)));
            }
            Err(error) => return Err(ReconcileError::Finalizer(error)),
        }
    }
    for _ in 0..MOST_IN_A_ROW {
        match once(Arc::clone(&object), &ctx).await? {
            Turn::Again(newer) => object = newer,
            Turn::Later(requeue) => {
                ctx.memory.went_well(&object.name_any());
                return Ok(requeue);
            }
        }
    }
    Ok(Requeue::requeue(LOST_EVENT))
}

enum Turn {
    Again(Arc<GpuFault>),
    Later(Requeue),
}

async fn once(object: Arc<GpuFault>, ctx: &Context) -> Result<Turn, ReconcileError> {
    let now = ctx.clock.now();
    let fault = fault(&object);
    let mut world = observe(&fault, now, ctx).await?;
    latch_stop(&fault, &world, now, ctx).await?;
    // The budget is counted, and the admission that uses it written, with no other admission in between. What is held
    // by something else does not get so far.
    let mut admission = None;
    if fault.status.phase == Phase::Pending && admission::before_budget(&fault, &world).is_ok() {
        admission = Some(ctx.admission.lock().await);
        world.fleet.usage = world
            .policy
            .as_ref()
            .map(|p| observe::usage(&fault, p, ctx));
    }
    let decision = decide(&fault, &world, now);
    let executed = execute(&fault, object, &decision, admission, ctx).await?;
    let ended = decision.status.as_ref().is_some_and(|s| s.phase.is_over());
    if ended && matches!(executed, Executed::Done(_)) {
        watches::nudge_pending(ctx);
    }
    Ok(match (executed, decision.effect.is_some(), decision.next) {
        (Executed::Gone, _, _) => Turn::Later(Requeue::await_change()),
        (Executed::Outdated, _, _) => match ctx.caches.fault(&fault.name) {
            Some(newer) => Turn::Again(newer),
            None => Turn::Later(Requeue::await_change()),
        },
        (Executed::Done(_), true, _) => Turn::Later(Requeue::requeue(LOST_EVENT)),
        (Executed::Done(newer), false, Next::Now) => Turn::Again(newer),
        (Executed::Done(_), false, Next::After(delay)) => {
            Turn::Later(Requeue::requeue(delay.try_into().unwrap_or(LOST_EVENT)))
        }
        (Executed::Done(_), false, Next::OnChange) => Turn::Later(Requeue::await_change()),
    })
}

/// A stop guard that is true is latched before anything else is decided.
async fn latch_stop(
    fault: &Fault,
    world: &World,
    now: Timestamp,
    ctx: &Context,
) -> Result<(), ReconcileError> {
    let Some((name, detail)) = world.guards.as_ref().and_then(|g| g.stop.as_ref()) else {
        return Ok(());
    };
    let Some(policy) = execute::policy(fault, ctx) else {
        return Ok(());
    };
    ctx.leadership.check().map_err(ExecuteError::from)?;
    guard_book::latch(&ctx.clients.act, &policy, name, detail, now)
        .await
        .map_err(ReconcileError::Latch)
}

/// The fault of an object, as decisions take it.
pub fn fault(object: &GpuFault) -> Fault {
    Fault {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        generation: object.metadata.generation,
        created: object.creation_timestamp().map(|t| t.0).unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        retry_requested: object.annotations().contains_key(RETRY_ANNOTATION),
        spec: object.spec.clone(),
        status: object.status.clone().unwrap_or_default(),
    }
}

/// What to do after a failure: try again, later each time, up to half a minute.
pub fn error_policy(object: Arc<GpuFault>, error: &ReconcileError, ctx: Arc<Context>) -> Requeue {
    let name = object.name_any();
    if matches!(error, ReconcileError::Execute(ExecuteError::NotLeader(_))) {
        return Requeue::requeue(NOT_ACTING);
    }
    ctx.metrics.reconcile_failures.inc();
    let wait = ctx.memory.backoff(&name);
    let error = error as &dyn std::error::Error;
    tracing::warn!(fault = name, error, wait = %wait, "a fault could not be reconciled; it is tried again");
    Requeue::requeue(wait.try_into().unwrap_or(LOST_EVENT))
}
