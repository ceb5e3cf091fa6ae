//! Looks at everything that a decision about one fault may depend on, and no more than it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use kube::runtime::reflector::ObjectRef;

use super::caches::in_order;
use super::context::Context;
use super::displaced::{awaited, replacements, root};
use super::pod_watches::Scope;
use crate::api::conditions;
use crate::api::fault_status::{Action, Outcome};
use crate::api::policy::{Mode, Step};
use crate::api::{GpuFault, GpuFaultStatus, Phase, RemediationPolicySpec};
use crate::guards::budget::Usage;
use crate::guards::truth::Truth;
use crate::kubernetes::clients::ApiError;
use crate::kubernetes::nodes::NodeError;
use crate::kubernetes::views::{NodeView, PodView};
use crate::kubernetes::{budgets, claims, nodes, pods};
use crate::prometheus::condition::ask;
use crate::remediation::drain;
use crate::remediation::world::{Fault, Finding, PodFacts, RuleFacts, World};
use crate::rules::template::{Dialect, PolicyVariables, Template};

/// The world could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The node could not be read.
    #[error("looking for the fault's node")]
    Node(#[source] NodeError),
    /// An owner could not be read.
    #[error("looking for the owner of a pod")]
    Owner(#[source] ApiError),
    /// A resource claim could not be read.
    #[error("looking whether a claim holds a GPU")]
    Claim(#[source] ApiError),
    /// The pods on the node could not be listed.
    #[error("listing the pods on the node")]
    Pods(#[source] ApiError),
}

/// Observes the world for one fault.
pub async fn observe(fault: &Fault, now: Timestamp, ctx: &Context) -> Result<World, ObserveError> {
    let status = &fault.status;
    let policy = ctx
        .caches
        .policies
        .get(&ObjectRef::new(&fault.spec.policy_ref.name));
    let spec = policy.as_ref().map(|p| p.spec.clone());
    let node_view = node(fault, ctx).await?;
    let mut world = World {
        stopped_by: policy
            .as_ref()
            .and_then(|p| p.status.clone())
            .and_then(|s| s.stopped_by),
        node: node_view.as_ref().map(|n| n.facts()),
        rule: rule(fault, ctx),
        rule_was_silent: ctx.memory.rule_was_silent(&fault.name),
        ..World::default()
    };
    let mut scopes = BTreeSet::new();
    if let Some(spec) = &spec {
        if asks_guards(fault, spec) {
            world.guards = Some(ctx.guards.ask(&fault.spec.policy_ref.name, spec, now).await);
        }
        if status.phase == Phase::Pending {
            world.fleet.selects_node = node_view.as_deref().is_some_and(|n| selector(spec)(n));
        }
        if asks_health(status.phase, world.rule) {
            let healthy = &spec.recovery.healthy.expr;
            world.health = Some(proof(fault, "healthy", healthy, now, ctx).await);
        }
    }
    if status.phase == Phase::Recovered {
        ctx.caches.each_fault(|other| {
            let is_over = other.status.as_ref().is_some_and(|s| s.phase.is_over());
            let same_node = other.spec.node_name == fault.spec.node_name;
            world.node_has_open_fault |= same_node && !is_over && other.name_any() != fault.name;
        });
    }
    if status.phase == Phase::Processing {
        if let Some(Step::Verify(verify)) = current_step(fault) {
            world.verify = Some(proof(fault, "verify", &verify.expr, now, ctx).await);
        }
        if status.plan.iter().any(|s| matches!(s, Step::EvictPods(_))) {
            let scope = Scope::Node(fault.spec.node_name.clone());
            scopes.insert(scope.clone());
            let evicting = matches!(current_step(fault), Some(Step::EvictPods(_)));
            if evicting {
                world.drained_for = drained_for(fault, &ctx.caches.all_faults());
            }
            // The watch is opened while the cordon is under way, so that its list is there when it is needed.
            if let Some(on_node) = ctx.pods.pods(&scope, &fault.name).filter(|_| evicting) {
                gpu_pods(on_node, &mut world, ctx).await?;
                if !world.pods.iter().flatten().any(drain::holds_gpu) {
                    // The watch may lag behind; that nothing is left must be the API server's word.
                    let on_node = pods::on_node(&ctx.clients.act, &fault.spec.node_name).await;
                    gpu_pods(on_node.map_err(ObserveError::Pods)?, &mut world, ctx).await?;
                }
            }
        }
    }
    if drain::awaits_replacements(status) {
        let namespaces: BTreeSet<_> = awaited(fault).map(|d| d.pod.namespace.clone()).collect();
        scopes.extend(namespaces.iter().cloned().map(Scope::Namespace));
        replacements(fault, &namespaces, &mut world, now, ctx).await?;
    }
    ctx.pods.retain(&fault.name, &scopes);
    world.policy = spec;
    Ok(world)
}

/// The fault of the same node whose turn it is to evict: the one that has begun, then the one that was admitted first. All
/// faults see the same order, so that one of them goes on. A fault that its guards hold makes nobody wait.
fn drained_for(fault: &Fault, all: &[Arc<GpuFault>]) -> Option<String> {
    let order = |name: &str, status: &GpuFaultStatus| {
        let begun = status.attempts.iter().any(|a| {
            a.round == status.round
                && a.action == Action::EvictPods
                && a.outcome == Outcome::Running
        });
        (!begun, status.timeline.admitted_at, name.to_owned())
    };
    let ours = order(&fault.name, &fault.status);
    let evicts = |other: &&Arc<GpuFault>| {
        let is_other = other.spec.node_name == fault.spec.node_name
            && other.name_any() != fault.name
            && other.metadata.deletion_timestamp.is_none();
        is_other
            && other.status.as_ref().is_some_and(|status| {
                let held = |type_| conditions::is_true(&status.conditions, type_);
                status.phase == Phase::Processing
                    && matches!(step_of(status), Some(Step::EvictPods(_)))
                    && !held(conditions::PAUSED)
                    && !held(conditions::STOPPED)
                    && order(&other.name_any(), status) < ours
            })
    };
    all.iter().find(evicts).map(|other| other.name_any())
}

/// What the fault's rule says. A rule that was deleted says nothing any more.
fn rule(fault: &Fault, ctx: &Context) -> RuleFacts {
    let exists = fault.spec.rule_ref.as_ref().is_none_or(|reference| {
        let object = ctx.caches.rules.get(&ObjectRef::new(&reference.name));
        // One that is being deleted is not evaluated any more.
        let object = object.filter(|object| object.metadata.deletion_timestamp.is_none());
        object.is_some_and(|object| {
            let group = object
                .spec
                .groups
                .iter()
                .find(|g| g.name == reference.group);
            group.is_some_and(|g| g.rules.iter().any(|r| r.alert == reference.alert))
        })
    });
    if exists {
        ctx.memory.rule(&fault.name)
    } else {
        RuleFacts::Gone
    }
}

async fn node(fault: &Fault, ctx: &Context) -> Result<Option<Arc<NodeView>>, ObserveError> {
    let name = &fault.spec.node_name;
    if let Some(node) = ctx.caches.nodes.get(&ObjectRef::new(name)) {
        return Ok(Some(node));
    }
    // The cache may lag behind: that a node does not exist must be the API server's word.
    let node = nodes::read(&ctx.clients.act, name)
        .await
        .map_err(ObserveError::Node)?;
    Ok(node.map(Arc::new))
}

/// The first step that is not done in this round.
fn current_step(fault: &Fault) -> Option<&Step> {
    step_of(&fault.status)
}

fn step_of(status: &GpuFaultStatus) -> Option<&Step> {
    let is_done = |index: usize| {
        status.attempts.iter().any(|a| {
            a.round == status.round
                && a.step == u32::try_from(index).ok()
                && a.outcome == Outcome::Succeeded
        })
    };
    status
        .plan
        .iter()
        .enumerate()
        .find(|(index, _)| !is_done(*index))
        .map(|(_, step)| step)
}

fn asks_guards(fault: &Fault, policy: &RemediationPolicySpec) -> bool {
    match fault.status.phase {
        Phase::Pending => policy.mode == Mode::Enforce,
        Phase::Processing => !matches!(current_step(fault), Some(Step::Verify(_)) | None),
        _ => false,
    }
}

fn asks_health(phase: Phase, rule: RuleFacts) -> bool {
    match phase {
        Phase::Handled | Phase::Recovering => true,
        Phase::Pending => rule == RuleFacts::Silent,
        Phase::Recovered => rule == RuleFacts::Firing,
        Phase::Processing | Phase::Failed | Phase::Cancelled => false,
    }
}

async fn proof(
    fault: &Fault,
    question: &'static str,
    expr: &str,
    now: Timestamp,
    ctx: &Context,
) -> Finding {
    let gpu = fault.spec.gpu.clone().unwrap_or_default();
    let variables = PolicyVariables {
        node: fault.spec.node_name.clone(),
        gpu: gpu.index,
        uuid: gpu.uuid,
        xid: fault.spec.xid,
    };
    let expanded = Template::parse(expr, Dialect::Policy)
        .map_err(|e| e.to_string())
        .and_then(|t| t.expand_query(&variables).map_err(|e| e.to_string()));
    let (query, holds, detail) = match expanded {
        Err(error) => (String::new(), None, error),
        Ok(query) => {
            let verdict = ask(&ctx.prometheus, &ctx.conditions.proof(&query), now).await;
            let holds = match verdict.truth {
                Truth::True => Some(true),
                Truth::False => Some(false),
                Truth::Unknown => None,
            };
            (query, holds, verdict.detail)
        }
    };
    let unbroken_since = (ctx.memory).looked(&fault.uid, question, &query, holds, now);
    Finding {
        holds,
        detail,
        asked_at: now,
        unbroken_since,
    }
}

/// Which nodes the policy selects. A selector that cannot be read selects nothing: acting on every node would be the
/// worse mistake.
fn selector(policy: &RemediationPolicySpec) -> impl Fn(&NodeView) -> bool {
    let selector = policy
        .node_selector
        .clone()
        .map(Selector::try_from)
        .transpose();
    move |node| match &selector {
        Ok(None) => true,
        Ok(Some(selector)) => selector.matches(node.labels()),
        Err(_) => false,
    }
}

/// Counts who is out of service, as the fault's budget does.
pub fn usage(fault: &Fault, policy: &RemediationPolicySpec, ctx: &Context) -> Usage {
    let selects = selector(policy);
    let (mut held, mut processing) = (BTreeSet::new(), BTreeSet::new());
    ctx.caches.each_fault(|other| {
        let Some(status) = other.status.as_ref().filter(|s| s.phase.holds_node()) else {
            return;
        };
        // A Failed fault that never isolated its node does not keep it out of service.
        if status.phase != Phase::Failed || status.isolation.is_some() {
            held.insert(other.spec.node_name.clone());
        }
        if status.phase == Phase::Processing && other.spec.policy_ref == fault.spec.policy_ref {
            processing.insert(other.spec.node_name.clone());
        }
    });
    let own = fault.spec.node_name.as_str();
    processing.remove(own);
    let mut usage = Usage {
        processing_others: processing.len(),
        ..Usage::default()
    };
    for node in ctx.caches.nodes.state() {
        let Some(name) = node.metadata.name.as_deref().filter(|_| selects(&node)) else {
            continue;
        };
        let is_out = node.spec.unschedulable || !node.is_ready() || held.contains(name);
        usage.nodes += 1;
        match name == own {
            true => usage.node_is_out = is_out,
            false => usage.unavailable_others += usize::from(is_out),
        }
    }
    usage
}

async fn gpu_pods(
    on_node: Vec<Arc<PodView>>,
    world: &mut World,
    ctx: &Context,
) -> Result<(), ObserveError> {
    let all_budgets = in_order(&ctx.caches.budgets);
    let mut facts = Vec::new();
    let mut covering = BTreeMap::new();
    for pod in on_node {
        if !holds_gpu(&pod, ctx).await? {
            continue;
        }
        let reference = pods::reference(&pod);
        let own_budgets = budgets::covering(&pod, &all_budgets);
        let owner = match pods::controller(&pod) {
            Some(owner) => Some(root(owner, &reference.namespace, ctx).await?),
            None => None,
        };
        facts.push(PodFacts {
            created: pod.creation_timestamp().map(|t| t.0).unwrap_or_default(),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            finished: pod.is_finished(),
            ready: pod.condition("Ready").is_some_and(|c| c.status == "True"),
            stays: pods::stays(&pod, &ctx.protected_namespaces),
            owner,
            slot: pods::slot(&pod),
            budgets: own_budgets.iter().map(|b| budgets::name(b)).collect(),
            retry_after: ctx.memory.retry_at(&reference.uid),
            refused: ctx.memory.refusal(&reference.uid),
            pod: reference,
        });
        covering.extend(own_budgets.into_iter().map(|b| (budgets::name(b), b)));
    }
    world.disruptions_allowed = ctx.memory.spent.allowed(covering.into_values());
    world.pods = Some(facts);
    Ok(())
}

async fn holds_gpu(pod: &PodView, ctx: &Context) -> Result<bool, ObserveError> {
    if pods::asks_for_gpu(pod) {
        return Ok(true);
    }
    let reference = pods::reference(pod);
    for claim in pods::claim_names(pod) {
        let holds = match ctx.memory.claim(&reference.uid, &claim) {
            Some(holds) => holds,
            None => {
                let holds = claims::holds_gpu(&ctx.clients.act, &reference.namespace, &claim)
                    .await
                    .map_err(ObserveError::Claim)?;
                ctx.memory.remember_claim(&reference.uid, &claim, holds);
                holds
            }
        };
        if holds {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "observe_tests.rs"]
mod tests;
