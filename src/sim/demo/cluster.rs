//! The simulated cluster with two controllers, as the stories need it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::cast;
use super::history::History;
use super::scenario::Scenario;
use super::service::Service;
use crate::clock::Clock;
use crate::sim::api_server::{ApiServer, Call, Observer, Resource, Store, Verb, Write};
use crate::sim::faults::{Fault, Gate, QueryFault};
use crate::sim::prometheus::Prometheus;
use crate::sim::promises::Violation;
use crate::sim::run::shipped::Unreadable;
use crate::sim::run::{Setup, Simulation, StartError};
use crate::sim::world::{PERSON, World};

/// The seed of everything that is left to chance in the world.
const SEED: u64 = 79;

/// The controllers.
const CONTROLLERS: [&str; 2] = ["controller-a", "controller-b"];

/// The cluster of a story cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The shipped files cannot be read.
    #[error(transparent)]
    Shipped(#[from] Unreadable),
    /// The simulation does not begin.
    #[error("the simulated cluster cannot be started")]
    Start(#[from] StartError),
}

/// The cluster.
pub struct Cluster {
    simulation: Simulation,
    store: Store,
    service: Service,
    /// The first controller dies once its next eviction is accepted.
    death: Arc<AtomicBool>,
}

impl Cluster {
    /// Builds the cluster, starts two controllers and waits until all is quiet: pods are Ready, a controller leads, and
    /// Prometheus has some minutes of history.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    pub(super) async fn start(scenario: Scenario, history: &History) -> Result<Self, BuildError> {
        let mut setup = Setup::new(
            cast::plan(scenario),
            cast::rules()?,
            cast::policy(scenario)?,
        );
        setup.seed = SEED;
        let mut simulation = Simulation::start(setup)?;
        let service = Service::new(simulation.clock.now());
        let page = Arc::new(service.clone());
        simulation.prometheus.add_target("llm", "llm:8000", page);
        simulation.api.observe(Box::new(history.clone()));
        // The workloads begin before anybody watches over them.
        tokio::time::sleep(Duration::from_secs(120)).await;
        let death = Arc::new(AtomicBool::new(false));
        let gate = Gate::default();
        simulation.api.observe(Box::new(Executioner {
            victim: CONTROLLERS[0],
            armed: Arc::clone(&death),
            gate: gate.clone(),
        }));
        simulation.start_controller_with(CONTROLLERS[0], gate)?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        simulation.start_controller(CONTROLLERS[1])?;
        tokio::time::sleep(Duration::from_secs(170)).await;
        Ok(Self {
            store: simulation.api.store("reader"),
            simulation,
            service,
            death,
        })
    }

    /// The simulated clock.
    pub(super) fn clock(&self) -> &Clock {
        &self.simulation.clock
    }

    /// The API server.
    pub(super) fn api(&self) -> &ApiServer {
        &self.simulation.api
    }

    /// Its objects.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Hardware and pods.
    pub(super) fn world(&self) -> &World {
        &self.simulation.world
    }

    /// Prometheus.
    pub(super) fn prometheus(&self) -> &Prometheus {
        &self.simulation.prometheus
    }

    /// The service that guards look at.
    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// Who leads.
    pub(super) fn leader(&self) -> Option<String> {
        self.simulation.leader()
    }

    /// The promises of the product that were broken, and how many checks were made.
    pub(super) fn broken_promises(&self) -> (Vec<Violation>, u64) {
        (self.simulation.violations(), self.simulation.checked())
    }

    /// The driver reports an Xid; answers the line in the kernel log.
    pub(super) fn xid(&self, node: &str, gpu: u32, code: u32) -> String {
        let hardware = self.world().hardware();
        hardware.xid(node, gpu, code);
        hardware.last_log_line(node).unwrap_or_default()
    }

    /// The first controller dies once its next eviction is accepted.
    pub(super) fn dies_at_next_eviction(&self) {
        self.death.store(true, Ordering::Relaxed);
    }

    /// Prometheus answers no controller any more, or each again.
    pub(super) fn prometheus_down(&self, down: bool) {
        let refused = Fault::Query(QueryFault::Refused);
        if down {
            self.simulation.injector.begin(refused);
        } else {
            self.simulation.injector.end(refused);
        }
    }

    /// An object is changed by a person.
    pub(super) fn change(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        let person = self.api().store(PERSON);
        let changed = person.change(resource, namespace, name, edit);
        // What the stories change is there and may be changed so; a story in which it is not does not end as it says.
        if let Err(refusal) = changed {
            tracing::error!(name, %refusal, "a change of the story was refused");
        }
    }
}

/// Kills a controller at the moment at which the server accepts an eviction of it: nobody hears the answer.
struct Executioner {
    victim: &'static str,
    armed: Arc<AtomicBool>,
    gate: Gate,
}

impl Observer for Executioner {
    fn called(&mut self, call: &Call) {
        let evicted = call.verb == Verb::Create
            && call.subresource.as_deref() == Some("eviction")
            && (200..300).contains(&call.code);
        if evicted && *call.actor == *self.victim && self.armed.swap(false, Ordering::Relaxed) {
            self.gate.cut();
        }
    }

    fn wrote(&mut self, _: &Write) {}
}
