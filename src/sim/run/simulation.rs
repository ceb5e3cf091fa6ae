//! One simulated cluster with everything in it, and its controllers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cluster_page::Objects;
use super::digest::Digest;
use super::evidence::Told;
use super::setup::{Setup, StartError, TooLate};
use crate::clock::Clock;
use crate::controller::{self, Outside, RunError, Settings};
use crate::kubernetes::clients::Clients;
use crate::kubernetes::lease::LeaseSettings;
use crate::prometheus::client::{Client, Options};
use crate::sim::api_server::{ApiServer, Resource, resources};
use crate::sim::faults::{Gate, Injector};
use crate::sim::prometheus::{ExporterPage, HonorLabels, KubeStatePage, Prometheus};
use crate::sim::promises::{PromisesConfig, Shared as Promises, Violation};
use crate::sim::world::World;

/// 2026-01-01T00:00:00Z, a Thursday: when simulations begin.
pub const BEGINNING: i64 = 1_767_225_600;

/// The actors of controllers have names that begin so.
pub const CONTROLLER: &str = "controller";

/// One controller process.
pub struct Process {
    /// Its name, as the API server and the Lease know it.
    pub identity: String,
    /// Its way out.
    pub gate: Gate,
    /// Its wall clock.
    pub clock: Clock,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Process {
    /// Has it neither crashed nor ended?
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.gate.is_cut() && !self.task.is_finished()
    }
}

/// One simulated cluster. It lives on the runtime on which it was started, whose clock may be paused.
pub struct Simulation {
    /// The wall time of the cluster.
    pub clock: Clock,
    /// Its API server.
    pub api: ApiServer,
    /// Scheduler, controllers, kubelets, GPUs.
    pub world: World,
    /// Its Prometheus.
    pub prometheus: Prometheus,
    /// What is injected.
    pub injector: Injector,
    /// The promises.
    pub promises: Promises,
    /// The hash over everything that was written.
    pub digest: Digest,
    /// Controllers, in the order of their starts, the dead ones as well.
    pub processes: Vec<Process>,
    lease: [Duration; 3],
    evaluation_interval: Duration,
    began: Instant,
}

impl Simulation {
    /// Makes the cluster with its nodes and workloads. There is no controller yet.
    ///
    /// # Errors
    ///
    /// The rules or policies are refused.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(setup: Setup) -> Result<Self, StartError> {
        let clock = Clock::starting_at(setup.origin);
        let api = ApiServer::new(clock.clone());
        let digest = Digest::default();
        let noisy = setup.spells.iter().any(|_| true) || !setup.one_shots.is_empty();
        let promises = Promises::new(PromisesConfig {
            controller_prefix: CONTROLLER.to_owned(),
            evidence: true,
            events_arrive: !noisy,
            ..PromisesConfig::default()
        });
        if setup.watched {
            api.observe(Box::new(digest.clone()));
            api.observe(Box::new(promises.clone()));
        }
        let prometheus = Prometheus::new(clock.clone(), setup.scrape_interval);
        let objects = Objects::of(&api);
        let page = Arc::new(KubeStatePage::new(objects));
        prometheus.add_target_with(
            "kube-state-metrics",
            "kube-state-metrics:8080",
            HonorLabels::Yes,
            page,
        );
        let administrator = api.store("administrator");
        let create = |resource: &'static Resource, object: Value| {
            let name = object["metadata"]["name"].to_string();
            let made = administrator.create(resource, object);
            made.map(|_| ())
                .map_err(|refusal| StartError::Refused(name, refusal))
        };
        create(
            resources::NAMESPACES,
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-remediator"}}),
        )?;
        for policy in &setup.policies {
            create(
                resources::REMEDIATION_POLICIES,
                serde_json::to_value(policy)?,
            )?;
        }
        for rule in &setup.rules {
            create(resources::GPU_FAULT_RULES, serde_json::to_value(rule)?)?;
        }
        let world = World::start(&api, clock.clone(), setup.world, setup.seed);
        for node in world.plan().node_names() {
            if world.hardware().states(node).is_empty() {
                continue;
            }
            let page = ExporterPage::new(node, world.hardware().of(node));
            prometheus.add_target(
                "gpu-remediator-exporter",
                &format!("{node}:9412"),
                Arc::new(page),
            );
        }
        Ok(Self {
            clock,
            api,
            world,
            prometheus,
            injector: Injector::new(setup.spells, setup.one_shots),
            promises,
            digest,
            processes: Vec::new(),
            lease: setup.lease,
            evaluation_interval: setup.evaluation_interval,
            began: Instant::now(),
        })
    }

    /// Starts a controller and answers its place in [`Simulation::processes`]. No two have the same identity.
    ///
    /// # Errors
    ///
    /// The product's Prometheus client cannot be made.
    pub fn start_controller(&mut self, identity: &str) -> Result<usize, StartError> {
        self.start_controller_with(identity, Gate::default())
    }

    /// Starts a controller behind a gate that somebody has prepared.
    ///
    /// # Errors
    ///
    /// The product's Prometheus client cannot be made.
    pub fn start_controller_with(
        &mut self,
        identity: &str,
        gate: Gate,
    ) -> Result<usize, StartError> {
        let clock = self.clock.fork();
        let stop = CancellationToken::new();
        let begin = self.controller(identity, &gate, &clock, &stop)?;
        self.processes.push(Process {
            identity: identity.to_owned(),
            gate,
            clock,
            stop,
            task: begin(),
        });
        Ok(self.processes.len() - 1)
    }

    /// As soon as a gate is cut, counts its controller as crashed and starts another one, which is in no list.
    ///
    /// # Errors
    ///
    /// As [`Simulation::start_controller`].
    pub fn follow_crash(&mut self, first: &str, gate: &Gate, next: &str) -> Result<(), StartError> {
        let begin = self.controller(
            next,
            &Gate::default(),
            &self.clock.fork(),
            &CancellationToken::new(),
        )?;
        let (first, gate, promises) = (first.to_owned(), gate.clone(), self.promises.clone());
        tokio::spawn(async move {
            gate.until_cut().await;
            promises.with(|p| p.controller_crashed(&first));
            begin();
        });
        Ok(())
    }

    /// A controller that is ready to begin.
    fn controller(
        &self,
        identity: &str,
        gate: &Gate,
        clock: &Clock,
        stop: &CancellationToken,
    ) -> Result<impl FnOnce() -> JoinHandle<Result<(), RunError>> + Send + 'static, StartError>
    {
        let service = self
            .injector
            .service(identity, self.api.service(identity), gate);
        let bad_line = self
            .injector
            .exchange(identity, self.prometheus.exchange(identity), gate);
        let told = Told {
            inner: bad_line,
            actor: identity.to_owned(),
            clock: self.clock.clone(),
            promises: self.promises.clone(),
        };
        let options = Options::new("http://prometheus:9090");
        let prometheus = Client::new(options.clone())?.with_exchange(Arc::new(told));
        let [duration, renew_deadline, retry_period] = self.lease;
        let settings = Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            web_config: None,
            prometheus: options,
            lease: LeaseSettings {
                namespace: "gpu-remediator".to_owned(),
                name: "gpu-remediator".to_owned(),
                identity: identity.to_owned(),
                duration,
                renew_deadline,
                retry_period,
            },
            protected_namespaces: vec!["kube-system".to_owned()],
            evaluation_interval: self.evaluation_interval,
        };
        let outside = Outside {
            clients: Clients::over(service),
            prometheus,
            clock: clock.clone(),
            server: None,
        };
        let (identity, promises) = (identity.to_owned(), self.promises.clone());
        let (stop, gate) = (stop.clone(), gate.clone());
        Ok(move || {
            promises.with(|p| p.controller_started(&identity, &identity));
            let task = tokio::spawn(controller::run_in(outside, settings, stop.clone()));
            // Whichever side cuts the gate, a dead process does nothing more.
            tokio::spawn(async move {
                gate.until_cut().await;
                stop.cancel();
            });
            task
        })
    }

    /// Kills a controller: nothing of it reaches anybody from now on.
    pub fn crash(&mut self, place: usize) {
        let Some(process) = self.processes.get(place) else {
            return;
        };
        process.gate.cut();
        process.stop.cancel();
        let identity = process.identity.clone();
        self.promises.with(|p| p.controller_crashed(&identity));
    }

    /// Kills a controller and starts another with the next identity.
    ///
    /// # Errors
    ///
    /// As [`Simulation::start_controller`].
    pub fn restart(&mut self, place: usize) -> Result<usize, StartError> {
        self.crash(place);
        let identity = format!("{CONTROLLER}-{}", self.processes.len() + 1);
        self.start_controller(&identity)
    }

    /// Ends a controller as SIGTERM does.
    pub async fn stop(&mut self, place: usize) {
        if let Some(process) = self.processes.get_mut(place) {
            process.stop.cancel();
            // It ends by itself; how, is told by what it has written.
            let _ = (&mut process.task).await;
        }
    }

    /// How long it has run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Lets so much time pass.
    pub async fn run_for(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets time pass until a moment, counted from the beginning.
    pub async fn run_to(&self, moment: Duration) {
        tokio::time::sleep_until(self.began + moment).await;
    }

    /// Lets time pass until something is so. It is looked at whenever the cluster changes.
    ///
    /// # Errors
    ///
    /// It is not so in time.
    pub async fn run_until(
        &self,
        what: &str,
        limit: Duration,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> Result<(), TooLate> {
        let end = Instant::now() + limit;
        let mut changes = self.api.changes();
        loop {
            if is_so(self) {
                return Ok(());
            }
            let changed = async {
                let _ = changes.changed().await;
            };
            if before(end, changed).await.is_none() {
                return if is_so(self) {
                    Ok(())
                } else {
                    Err(TooLate {
                        what: what.to_owned(),
                        limit,
                    })
                };
            }
        }
    }

    /// Who leads, by the Lease.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        let store = self.api.store("observer");
        let lease = store.get(resources::LEASES, Some("gpu-remediator"), "gpu-remediator")?;
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        (!holder.is_empty()).then(|| holder.to_owned())
    }

    /// All broken promises so far.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.promises.with(|p| p.violations().to_vec())
    }

    /// How many checks have been made.
    #[must_use]
    pub fn checked(&self) -> u64 {
        self.promises.with(|p| p.checked())
    }
}

async fn before<T>(end: Instant, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout_at(end, future).await.ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "simulation_tests.rs"]
mod tests;
