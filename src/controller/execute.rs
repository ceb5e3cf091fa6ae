//! Performs one decision: the status first, under its resourceVersion, then the effect, with the lease checked just
//! before each call.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use tokio::sync::MutexGuard;

use super::caches::in_order;
use super::context::Context;
use super::metrics::AnswerLabel;
use crate::api::GpuFault;
use crate::api::fault_status::PodRef;
use crate::kubernetes::clients::ApiError;
use crate::kubernetes::eviction::{EvictionAnswer, evict};
use crate::kubernetes::lease::NotLeader;
use crate::kubernetes::nodes::{self, NodeError};
use crate::kubernetes::{budgets, faults};
use crate::remediation::world::Fault;
use crate::remediation::{Decision, Effect, drain, mark};

/// How long a pod whose eviction was refused without a hint is left alone, unless its budget changes before.
const RETRY_BLOCKED: SignedDuration = SignedDuration::from_secs(5);

/// A decision could not be performed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// We are not the leader any more: nothing is done.
    #[error("not acting")]
    NotLeader(#[from] NotLeader),
    /// The effect was not done before another process could have taken over; it is looked at again.
    #[error("the effect took longer than the lease lasts, and was given up")]
    TooSlow,
    /// The status could not be written; the effect was not performed.
    #[error("the status was not written, so nothing was done")]
    Status(#[source] ApiError),
    /// The fault could not be read again before the effect.
    #[error("the fault could not be looked at again, so nothing was done")]
    LookAgain(#[source] ApiError),
    /// The node could not be changed.
    #[error("the node was not changed")]
    Node(#[source] NodeError),
    /// The object could not be changed.
    #[error("the fault was not changed")]
    Object(#[source] ApiError),
}

/// What came of a decision.
#[derive(Debug)]
pub enum Executed {
    /// Performed; this is the object now.
    Done(Arc<GpuFault>),
    /// Somebody changed the object in between: decide again.
    Outdated,
    /// The object is gone.
    Gone,
}

/// Performs the decision that was made about this object. An admission is let go once its status is written: that is
/// what the next one counts.
pub async fn execute(
    fault: &Fault,
    object: Arc<GpuFault>,
    decision: &Decision,
    admission: Option<MutexGuard<'_, ()>>,
    ctx: &Context,
) -> Result<Executed, ExecuteError> {
    let name = object.name_any();
    ctx.leadership.check()?;
    let object = if let Some(status) = &decision.status {
        match faults::write_status(&ctx.clients.act, &object, status.clone()).await {
            Ok(written) => {
                ctx.caches.wrote(written.clone());
                tell(&written, decision, ctx);
                Arc::new(written)
            }
            Err(error) if error.is_conflict() => return outdated(&name, ctx).await,
            Err(error) if error.is_not_found() => return Ok(gone(&name, ctx)),
            Err(error) => return Err(ExecuteError::Status(error)),
        }
    } else {
        tell(&object, decision, ctx);
        if decision.effect.is_some() {
            // The intent was written earlier: make sure that it is still the last word.
            let read = faults::read(&ctx.clients.act, &name)
                .await
                .map_err(ExecuteError::LookAgain)?;
            let Some(fresh) = read.filter(|f| f.uid() == object.uid()) else {
                return Ok(gone(&name, ctx));
            };
            if fresh.resource_version() != object.resource_version() {
                ctx.caches.wrote(fresh);
                return Ok(Executed::Outdated);
            }
        }
        object
    };
    drop(admission);
    match &decision.effect {
        Some(effect) => {
            // An effect that is still under way when another process may take over is given up.
            let left = ctx.leadership.check()?;
            tokio::time::timeout(left, perform(fault, object, effect, ctx))
                .await
                .unwrap_or(Err(ExecuteError::TooSlow))
        }
        None => Ok(Executed::Done(object)),
    }
}

async fn outdated(name: &str, ctx: &Context) -> Result<Executed, ExecuteError> {
    match faults::read(&ctx.clients.act, name)
        .await
        .map_err(ExecuteError::LookAgain)?
    {
        Some(fresh) => {
            ctx.caches.wrote(fresh);
            Ok(Executed::Outdated)
        }
        None => Ok(gone(name, ctx)),
    }
}

fn gone(name: &str, ctx: &Context) -> Executed {
    ctx.caches.forget(name);
    Executed::Gone
}

/// Tells people, and measures, what has been written.
fn tell(object: &GpuFault, decision: &Decision, ctx: &Context) {
    for observation in &decision.observations {
        ctx.metrics.observe(observation);
    }
    for notice in &decision.notices {
        let (name, node) = (object.name_any(), &object.spec.node_name);
        tracing::info!(
            fault = name,
            node,
            reason = notice.reason,
            "{}",
            notice.message
        );
        ctx.events
            .publish(object, notice.warning, notice.reason, &notice.message);
    }
}

async fn perform(
    fault: &Fault,
    object: Arc<GpuFault>,
    effect: &Effect,
    ctx: &Context,
) -> Result<Executed, ExecuteError> {
    ctx.leadership.check()?;
    let client = &ctx.clients.act;
    let uid = fault
        .status
        .node_uid
        .as_deref()
        .or(object.status.as_ref().and_then(|s| s.node_uid.as_deref()));
    let node = &fault.spec.node_name;
    match effect {
        Effect::Cordon => {
            nodes::change(client, node, uid, |n| {
                mark::cordon(&n.facts(), &fault.name, &fault.uid)
            })
            .await
            .map_err(ExecuteError::Node)?;
        }
        Effect::Uncordon => {
            nodes::change(client, node, uid, |n| {
                mark::uncordon(&n.facts(), &fault.name, &fault.uid)
            })
            .await
            .map_err(ExecuteError::Node)?;
        }
        Effect::Evict(pods) => return evict_all(fault, object, pods, ctx).await,
        Effect::RemoveFinalizer => {
            let removed = faults::remove_finalizer(client, &object).await;
            let attempted = fault
                .status
                .attempts
                .iter()
                .flat_map(|a| a.pods.iter().chain(&a.stayed));
            let displaced = fault.status.displaced_pods.iter().map(|d| &d.pod);
            let pods: Vec<_> = attempted.chain(displaced).map(|p| p.uid.as_str()).collect();
            ctx.memory.forget(&fault.name, &fault.uid, &pods);
            ctx.pods.retain(&fault.name, &Default::default());
            return match removed {
                Ok(_) => Ok(gone(&fault.name, ctx)),
                Err(error) if error.is_not_found() => Ok(gone(&fault.name, ctx)),
                Err(error) if error.is_conflict() => outdated(&fault.name, ctx).await,
                Err(error) => Err(ExecuteError::Object(error)),
            };
        }
        Effect::ClearRetry => {
            ctx.memory.forgive();
            let changed = faults::clear_retry(client, &object)
                .await
                .map_err(ExecuteError::Object)?;
            ctx.caches.wrote(changed.clone());
            return Ok(Executed::Done(Arc::new(changed)));
        }
        Effect::Delete => match faults::delete(client, &object).await {
            Ok(()) => {}
            Err(error) if error.is_conflict() => return outdated(&fault.name, ctx).await,
            Err(error) => return Err(ExecuteError::Object(error)),
        },
    }
    Ok(Executed::Done(object))
}

/// Asks for each eviction once, one after the other, and writes down what was accepted.
async fn evict_all(
    fault: &Fault,
    object: Arc<GpuFault>,
    pods: &[PodRef],
    ctx: &Context,
) -> Result<Executed, ExecuteError> {
    let mut accepted = Vec::new();
    let mut result = Ok(());
    for pod in pods {
        if let Err(not_leader) = ctx.leadership.check() {
            result = Err(ExecuteError::from(not_leader));
            break;
        }
        let answer = evict(&ctx.clients.act, pod).await;
        let now = ctx.clock.now();
        let word = match &answer {
            EvictionAnswer::Accepted => {
                accepted.push((pod, now));
                ctx.metrics.pods_displaced.inc();
                spend(pod, ctx);
                "accepted"
            }
            EvictionAnswer::Gone => "gone",
            EvictionAnswer::Blocked {
                message,
                retry_after_seconds,
            } => {
                tracing::info!(fault = fault.name, %pod, message, "a PodDisruptionBudget blocks an eviction");
                let wait =
                    SignedDuration::from_secs(i64::from(*retry_after_seconds)).max(RETRY_BLOCKED);
                ctx.memory.retry_after(&pod.uid, now + wait);
                "blocked"
            }
            EvictionAnswer::Refused { message } => {
                ctx.memory.refuse(&pod.uid, message.clone());
                "refused"
            }
            EvictionAnswer::Unclear(error) => {
                let error = error as &dyn std::error::Error;
                tracing::warn!(fault = fault.name, %pod, error, "an eviction has no clear answer");
                ctx.memory
                    .retry_after(&pod.uid, now + ctx.memory.backoff(&pod.uid));
                "unclear"
            }
        };
        ctx.metrics
            .eviction_calls
            .get_or_create(&AnswerLabel { answer: word })
            .inc();
    }
    if accepted.is_empty() {
        return result.map(|()| Executed::Done(object));
    }
    let mut status = object.status.clone().unwrap_or_default();
    for (pod, at) in accepted {
        // Each with its own time: a replacement may be there before the last eviction is asked for.
        drain::note_evicted(&mut status, std::slice::from_ref(pod), at);
        let related = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        };
        let message = format!("GPU pod {pod} was evicted");
        ctx.events.publish_related(
            object.as_ref(),
            Some(related),
            false,
            "PodEvicted",
            &message,
        );
    }
    match faults::write_status(&ctx.clients.act, &object, status).await {
        Ok(written) => {
            ctx.caches.wrote(written.clone());
            result.map(|()| Executed::Done(Arc::new(written)))
        }
        // The intent stands in the status already, and a pod of the intent that ends counts as displaced.
        Err(error) if error.is_conflict() => outdated(&fault.name, ctx).await,
        Err(error) => Err(ExecuteError::Status(error)),
    }
}

/// The eviction has spent one disruption of the budget that covers the pod.
fn spend(pod: &PodRef, ctx: &Context) {
    // Labels are not in the reference; the pod is still in the watch that the drain keeps open.
    if let Some(view) = ctx.pods.find(pod) {
        for budget in budgets::covering(&view, &in_order(&ctx.caches.budgets)) {
            ctx.memory.spent.spend(budget);
        }
    }
}

/// The policy of a fault, as an object, for its stop latch.
pub fn policy(fault: &Fault, ctx: &Context) -> Option<Arc<crate::api::RemediationPolicy>> {
    ctx.caches
        .policies
        .get(&ObjectRef::new(&fault.spec.policy_ref.name))
}
