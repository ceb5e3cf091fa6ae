//! Joins the pieces and ends them in the right order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::runtime::controller::{self, Config, applier};
use kube::runtime::reflector::ObjectRef;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caches::in_order;
use super::context::{Context, Memory};
use super::evaluator::Evaluator;
use super::fault_metrics::FaultMetrics;
use super::guard_book::{self, GuardBook};
use super::metrics::Metrics;
use super::nudges::Nudges;
use super::open::Opener;
use super::pod_watches::PodWatches;
use super::reconcile::{error_policy, reconcile};
use super::rule_group::Surroundings;
use super::rule_metrics::RuleMetrics;
use super::{serve, watches};
use crate::api::names::RESUME_ANNOTATION;
use crate::clock::Clock;
use crate::http::{BindError, Limits, Server, WebConfig, WebConfigError};
use crate::kubernetes::clients::{Clients, ConnectError};
use crate::kubernetes::events::Events;
use crate::kubernetes::lease::{self, LeaseSettings, SettingsError};
use crate::prometheus::client::{Client as Prometheus, ClientError, Options};
use crate::prometheus::condition::Conditions;
use crate::telemetry;

/// How many faults are reconciled at once. Each holds at most a handful of connections.
const CONCURRENCY: u16 = 64;

/// How long reconciliations that are under way have to end.
const DRAIN: Duration = Duration::from_secs(20);

/// What the controller is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the endpoints listen.
    pub listen: SocketAddr,
    /// A file that asks for TLS or basic authentication there.
    pub web_config: Option<PathBuf>,
    /// Prometheus.
    pub prometheus: Options,
    /// Leadership.
    pub lease: LeaseSettings,
    /// Namespaces whose pods are never evicted.
    pub protected_namespaces: Vec<String>,
    /// The interval of rule groups that name none.
    pub evaluation_interval: Duration,
}

/// The controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No usable configuration for the Kubernetes API.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The address of Prometheus cannot be used.
    #[error(transparent)]
    Prometheus(#[from] ClientError),
    /// The lease durations contradict each other.
    #[error(transparent)]
    Lease(#[from] SettingsError),
    /// The endpoints cannot listen.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The web configuration cannot be used.
    #[error(transparent)]
    WebConfig(#[from] WebConfigError),
}

/// Runs until the token is cancelled. A Kubernetes API or a Prometheus that does not answer is no reason to end: both
/// are waited for.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<(), RunError> {
    settings.lease.validate()?;
    let web_config = settings.web_config.clone();
    let web_config = web_config.map(WebConfig::open).transpose()?;
    let clients = Clients::connect().await?;
    let prometheus = Prometheus::new(settings.prometheus.clone())?;
    let server = Server::bind(settings.listen, Limits::default())
        .await?
        .with_web_config(web_config);
    if let Ok(address) = server.local_address() {
        tracing::info!(%address, "listening");
    }
    let surroundings = Outside {
        clients,
        prometheus,
        clock: Clock::system(),
        server: Some(server),
    };
    run_in(surroundings, settings, stop).await
}

/// Everything outside the process that the controller speaks to.
pub struct Outside {
    /// The Kubernetes API.
    pub clients: Clients,
    /// Prometheus.
    pub prometheus: Prometheus,
    /// The wall time.
    pub clock: Clock,
    /// Where the endpoints are served; nowhere without.
    pub server: Option<Server>,
}

/// Runs with what is given, until the token is cancelled. The addresses in the settings are not looked at.
///
/// # Errors
///
/// [`RunError::Lease`].
pub async fn run_in(
    outside: Outside,
    settings: Settings,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let Outside {
        clients,
        prometheus,
        clock,
        server,
    } = outside;
    let prometheus = prometheus.comparing_clocks(clock.clone());
    let mut registry = Registry::default();
    telemetry::register_build_info(&mut registry);
    let metrics = Metrics::register(&mut registry);
    let rule_metrics = RuleMetrics::register(&mut registry);
    let reload_success = server.as_ref().and_then(Server::web_config_reload_success);
    if let Some(success) = reload_success {
        registry.register(
            "gpu_remediator_web_config_reload_success",
            "Whether the web configuration was good when it was last looked at; 0 means that an older one is still used",
            success,
        );
    }

    let (acting, serving, campaigning) =
        (TaskTracker::new(), TaskTracker::new(), TaskTracker::new());
    let (stop_campaign, stop_serving) = (CancellationToken::new(), CancellationToken::new());
    let mut leadership = lease::campaign(
        clients.act.clone(),
        settings.lease.clone(),
        clock.clone(),
        stop_campaign.clone(),
        &campaigning,
    )?;

    let (nudges, nudge_stream) = Nudges::channel();
    let (caches, streams) = watches::start(&clients.watch);
    let caches = Arc::new(caches);
    registry.register_collector(Box::new(FaultMetrics::new(
        Arc::clone(&caches),
        clock.clone(),
    )));
    let router = serve::router(registry, Arc::clone(&caches), stop.clone());
    if let Some(server) = server {
        serving.spawn(server.serve(router, stop_serving.clone()));
    }

    let ctx = Arc::new(Context {
        clock,
        leadership: leadership.clone(),
        caches: Arc::clone(&caches),
        pods: PodWatches::new(clients.watch.clone(), nudges.clone()),
        prometheus: prometheus.clone(),
        conditions: Conditions::default(),
        guards: GuardBook::new(prometheus.clone(), metrics.clone()),
        events: Events::start(
            clients.act.clone(),
            settings.lease.identity.clone(),
            stop_serving.clone(),
        ),
        metrics,
        nudges,
        protected_namespaces: settings.protected_namespaces,
        evaluation_interval: settings.evaluation_interval,
        admission: tokio::sync::Mutex::default(),
        policy_changed: tokio::sync::Notify::new(),
        rules_changed: Arc::default(),
        memory: Memory::default(),
        clients,
    });

    let faults = streams.run(&ctx, &acting, &stop);
    let seen = faults.map_ok(|fault| ObjectRef::from_obj(&fault));
    let queue = futures::stream::select(seen, nudge_stream.map(Ok))
        .take_until(stop.clone().cancelled_owned());
    let reconciler = applier(
        |fault, ctx| reconcile(fault, ctx).boxed(),
        error_policy,
        Arc::clone(&ctx),
        caches.faults.clone(),
        queue,
        Config::default().concurrency(CONCURRENCY),
    );
    acting.spawn(reconciler.for_each(|result| async {
        match result {
            Ok(_) => {}
            Err(error @ controller::Error::QueueError(_)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "watching faults; trying again"
                );
            }
            // A reconciliation that failed was told of where it was put off.
            Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "reconciling"),
        }
    }));

    let (context, stopping, terms) = (Arc::clone(&ctx), stop.clone(), acting.clone());
    acting.spawn(async move {
        loop {
            let term = tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                term = leadership.acquired(&terms) => term,
            };
            let Some(term) = term else { break };
            // A stop ends the term; evaluations that are under way end by themselves.
            let ending = async {
                stopping.cancelled().await;
                term.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = ending => {}
                () = lead(&context, &prometheus, &rule_metrics, &term) => {}
            }
            context.metrics.leader.set(0);
            // Whoever no longer leads asks no guard, and must not go on showing what it said last.
            context.guards.retain(|_| false).await;
        }
    });

    stop.cancelled().await;
    tracing::info!("stopping");
    acting.close();
    if tokio::time::timeout(DRAIN, acting.wait()).await.is_err() {
        tracing::warn!(
            "work under way did not end in time; the next leader goes on from the objects"
        );
    }
    stop_campaign.cancel();
    campaigning.close();
    campaigning.wait().await;
    stop_serving.cancel();
    serving.close();
    serving.wait().await;
    Ok(())
}

/// One term of leadership: every fault is looked at, rules are evaluated, resumed policies released.
async fn lead(
    ctx: &Arc<Context>,
    prometheus: &Prometheus,
    metrics: &RuleMetrics,
    term: &CancellationToken,
) {
    tokio::select! {
        biased;
        () = term.cancelled() => return,
        () = ctx.caches.ready() => {}
    }
    ctx.metrics.leader.set(1);
    ctx.memory.begin_term();
    watches::nudge_all(ctx);
    let policies = ctx.caches.policies.clone();
    let surroundings = Surroundings {
        clock: ctx.clock.clone(),
        prometheus: prometheus.clone(),
        opener: Arc::new(Opener::new(Arc::clone(ctx))),
        policy_exists: Arc::new(move |name| policies.get(&ObjectRef::new(name)).is_some()),
        metrics: metrics.clone(),
    };
    let evaluator = Evaluator {
        rules: ctx.caches.rules.clone(),
        changed: Arc::clone(&ctx.rules_changed),
        client: ctx.clients.act.clone(),
        surroundings: Arc::new(surroundings),
        default_interval: ctx.evaluation_interval,
    };
    tokio::join!(evaluator.run(term.clone()), release_resumed(ctx, term));
}

/// Releases the latch of each policy that a person has resumed.
async fn release_resumed(ctx: &Context, term: &CancellationToken) {
    while !term.is_cancelled() {
        let policies = &ctx.caches.policies;
        ctx.guards
            .retain(|name| policies.get(&ObjectRef::new(name)).is_some())
            .await;
        let mut again = false;
        for policy in in_order(&ctx.caches.policies) {
            if !policy.annotations().contains_key(RESUME_ANNOTATION)
                || ctx.leadership.check().is_err()
            {
                continue;
            }
            let name = policy.name_any();
            match guard_book::resume(&ctx.clients.act, &policy, ctx.clock.now()).await {
                Ok(()) => {
                    tracing::info!(policy = name, "resumed by a person");
                    ctx.events.publish(
                        policy.as_ref(),
                        false,
                        "Resumed",
                        "A person resumed the policy",
                    );
                }
                Err(error) => {
                    again = true;
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(
                        policy = name,
                        error,
                        "the latch could not be released; trying again"
                    );
                }
            }
        }
        let wait = Duration::from_secs(if again { 1 } else { 3600 });
        tokio::select! {
            biased;
            () = term.cancelled() => {}
            () = ctx.policy_changed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}
