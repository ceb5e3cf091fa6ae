//! The watches that are always open: faults, nodes, policies, rules, PodDisruptionBudgets. Each fills a cache and
//! nudges the faults that depend on what has changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt};
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caches::{Caches, FirstList, in_order};
use super::context::Context;
use crate::api::{GpuFault, GpuFaultRule, Phase, RemediationPolicy};
use crate::kubernetes::views::{BudgetView, NodeView};
use crate::kubernetes::watch_backoff::WatchBackoff;
use crate::remediation::world::NodeFacts;

type Touched<K> = futures::stream::BoxStream<'static, Result<K, watcher::Error>>;

/// The streams that fill the caches; they do so only while they are polled.
pub struct Streams {
    /// Faults: the controller's own queue polls it.
    pub faults: Touched<GpuFault>,
    nodes: Touched<NodeView>,
    policies: Touched<RemediationPolicy>,
    rules: Touched<GpuFaultRule>,
    budgets: Touched<BudgetView>,
}

/// Fills a cache from a watch.
fn fill<K>(
    watch: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static,
    first_lists: &mut Vec<FirstList>,
    trim: impl Fn(&mut K) + Send + 'static,
) -> (Store<K>, Touched<K>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let (read, first_list) = tokio::sync::watch::channel(false);
    first_lists.push(first_list);
    let stream = watch
        .modify(trim)
        .backoff(WatchBackoff::default())
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, watcher::Event::InitDone) {
                read.send_replace(true);
            }
        })
        .touched_objects();
    (store, stream.boxed())
}

/// A watch on objects of the core.
fn core<K>(
    client: &Client,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    watcher(Api::<K>::all(client.clone()), watcher::Config::default())
}

/// A watch on our own resources, which people write: one that cannot be read is left out and told of, and hides no
/// other.
fn custom<K>(
    client: &Client,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
    let api: Api<DeserializeGuard<K>> = Api::all(client.clone());
    watcher(api, watcher::Config::default()).filter_map(async |event| match event {
        Ok(Apply(object)) => readable(object).map(|o| Ok(Apply(o))),
        Ok(InitApply(object)) => readable(object).map(|o| Ok(InitApply(o))),
        Ok(Delete(object)) => readable(object).map(|o| Ok(Delete(o))),
        Ok(Init) => Some(Ok(Init)),
        Ok(InitDone) => Some(Ok(InitDone)),
        Err(error) => Some(Err(error)),
    })
}

fn readable<K: Resource<DynamicType = ()>>(object: DeserializeGuard<K>) -> Option<K> {
    object
        .0
        .inspect_err(|invalid| {
            tracing::error!(
                kind = %K::kind(&()), name = invalid.metadata.name, error = invalid.error,
                "an object cannot be read and is left out; mend or delete it"
            );
        })
        .ok()
}

/// Opens the watches.
pub fn start(client: &Client) -> (Caches, Streams) {
    let mut first = Vec::new();
    let (faults, fault_stream) = fill(custom::<GpuFault>(client), &mut first, |f| {
        f.metadata.managed_fields = None
    });
    let (nodes, node_stream) = fill(core(client), &mut first, NodeView::trim);
    let (policies, policy_stream) = fill(custom::<RemediationPolicy>(client), &mut first, |p| {
        p.metadata.managed_fields = None
    });
    let (rules, rule_stream) = fill(custom::<GpuFaultRule>(client), &mut first, |r| {
        r.metadata.managed_fields = None
    });
    let (budgets, budget_stream) = fill(core::<BudgetView>(client), &mut first, |b| {
        b.metadata.managed_fields = None
    });
    let caches = Caches::new(faults, nodes, policies, rules, budgets, first);
    let streams = Streams {
        faults: fault_stream,
        nodes: node_stream,
        policies: policy_stream,
        rules: rule_stream,
        budgets: budget_stream,
    };
    (caches, streams)
}

impl Streams {
    /// Polls everything but the faults, and nudges. Answers the stream of faults.
    pub fn run(
        self,
        ctx: &Arc<Context>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Touched<GpuFault> {
        let context = Arc::clone(ctx);
        let mut known: HashMap<String, NodeFacts> = HashMap::new();
        follow("nodes", self.nodes, tasks, stop, move |node: NodeView| {
            let facts = node.facts();
            // Heartbeats change a node every few seconds; only what we look at is news.
            if known.get(&facts.name) == Some(&facts) && node.metadata.deletion_timestamp.is_none()
            {
                return;
            }
            nudge_where(&context, |fault, _| fault.spec.node_name == facts.name);
            known.insert(facts.name.clone(), facts);
        });
        let context = Arc::clone(ctx);
        follow(
            "policies",
            self.policies,
            tasks,
            stop,
            move |policy: RemediationPolicy| {
                let name = policy.name_any();
                nudge_where(&context, |fault, _| fault.spec.policy_ref.name == name);
                context.policy_changed.notify_one();
            },
        );
        let context = Arc::clone(ctx);
        follow(
            "budgets",
            self.budgets,
            tasks,
            stop,
            move |_: BudgetView| {
                let uids: HashSet<_> = context
                    .caches
                    .budgets
                    .state()
                    .iter()
                    .filter_map(|b| b.uid())
                    .collect();
                context.memory.spent.retain(&uids);
                context.memory.retry_all();
                nudge_where(&context, |_, phase| phase == Phase::Processing);
            },
        );
        let context = Arc::clone(ctx);
        // The evaluator follows its cache; faults learn here that their rule is gone.
        follow(
            "rules",
            self.rules,
            tasks,
            stop,
            move |rule: GpuFaultRule| {
                let name = rule.name_any();
                context.rules_changed.notify_one();
                nudge_where(&context, |fault, _| {
                    fault
                        .spec
                        .rule_ref
                        .as_ref()
                        .is_some_and(|reference| reference.name == name)
                });
            },
        );
        self.faults
    }
}

fn follow<K>(
    what: &'static str,
    mut stream: impl Stream<Item = Result<K, watcher::Error>> + Send + Unpin + 'static,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    mut changed: impl FnMut(K) + Send + 'static,
) where
    K: Send + 'static,
{
    let stop = stop.clone();
    tasks.spawn(async move {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = stream.next() => next,
            };
            match next {
                Some(Ok(object)) => changed(object),
                Some(Err(error)) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "watching {what}; trying again"
                    );
                }
                None => break,
            }
        }
    });
}

fn nudge_where(ctx: &Context, affected: impl Fn(&GpuFault, Phase) -> bool) {
    for fault in in_order(&ctx.caches.faults) {
        let phase = fault.status.as_ref().map(|s| s.phase).unwrap_or_default();
        if affected(&fault, phase) {
            ctx.nudges.nudge(&fault.name_any());
        }
    }
}

/// Nudges the faults that wait to act: another has left its place.
pub fn nudge_pending(ctx: &Context) {
    nudge_where(ctx, |_, phase| phase == Phase::Pending);
}

/// Nudges every fault: a term of leadership has begun.
pub fn nudge_all(ctx: &Context) {
    nudge_where(ctx, |_, _| true);
}
