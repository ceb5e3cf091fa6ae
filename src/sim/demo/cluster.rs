//! The simulated cluster with two controllers, as the stories need it.

use std::sync::Arc;
use std::time::Duration;

use kube::Client as KubeClient;
use serde_json::Value;

use super::cast::{self, Unreadable};
use super::history::History;
use super::process::{Api, Connections, Queries};
use super::scenario::Scenario;
use super::service::Service;
use crate::clock::Clock;
use crate::controller::run::{Outside, Settings, run_in};
use crate::kubernetes::clients::Clients;
use crate::kubernetes::lease::LeaseSettings;
use crate::prometheus::client::{Client as QueryClient, Options};
use crate::sim::api_server::resources::ALL;
use crate::sim::api_server::{ApiServer, Resource, Store};
use crate::sim::prometheus::{self, ExporterPage, HonorLabels, KubeStatePage, Prometheus};
use crate::sim::world::World;

/// When the stories begin, in simulated time.
const BEGINNING: &str = "2026-01-05T09:00:00Z";
/// Where the lease and the controllers live.
const NAMESPACE: &str = "gpu-remediator";
/// The seed of everything that is left to chance in the world.
const SEED: u64 = 79;

/// The cluster.
pub struct Cluster {
    pub(super) clock: Clock,
    pub(super) api: ApiServer,
    pub(super) store: Store,
    pub(super) world: World,
    pub(super) prometheus: Prometheus,
    pub(super) service: Service,
    controllers: Vec<Connections>,
}

impl Cluster {
    /// Builds the cluster, starts two controllers and waits until all is quiet: pods are Ready, a controller leads, and
    /// Prometheus has some minutes of history.
    ///
    /// # Errors
    ///
    /// The shipped rules or the policy cannot be read.
    pub(super) async fn start(scenario: Scenario, history: &History) -> Result<Self, Unreadable> {
        let clock = Clock::starting_at(BEGINNING.parse().unwrap_or_default());
        let api = ApiServer::new(clock.clone());
        api.observe(Box::new(history.clone()));
        let store = api.store("demo");
        for (resource, object) in cast::objects(scenario)? {
            made(store.create(resource, object));
        }
        let world = World::start(&api, clock.clone(), cast::plan(scenario), SEED);
        let prometheus = Prometheus::new(clock.clone(), Duration::from_secs(1));
        for node in cast::node_names() {
            let page = ExporterPage::new(&node, world.hardware().node(&node));
            let instance = format!("{node}:9412");
            prometheus.add_target_with("gpu-exporter", &instance, HonorLabels::Yes, Arc::new(page));
        }
        let state = KubeStatePage::new(Arc::new(Objects(api.clone())));
        prometheus.add_target_with(
            "kube-state-metrics",
            "kube-state-metrics:8080",
            HonorLabels::Yes,
            Arc::new(state),
        );
        let service = Service::new(clock.now());
        prometheus.add_target("llm", "llm:8000", Arc::new(service.clone()));
        let mut cluster = Self {
            clock,
            api,
            store,
            world,
            prometheus,
            service,
            controllers: Vec::new(),
        };
        // The workloads begin before anybody watches over them, as they would.
        tokio::time::sleep(Duration::from_secs(120)).await;
        for name in ["gpu-remediator-a", "gpu-remediator-b"] {
            cluster.start_controller(name);
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        tokio::time::sleep(Duration::from_secs(180)).await;
        Ok(cluster)
    }

    /// Starts a controller: the product's own, on connections that can be cut.
    fn start_controller(&mut self, name: &str) {
        let connections = Connections::default();
        let client = || {
            let (inner, connections) = (self.api.service(name), connections.clone());
            KubeClient::new(Api { inner, connections }, "default")
        };
        let queries = Queries {
            inner: self.prometheus.exchange(name),
            connections: connections.clone(),
        };
        let options = Options::new("http://prometheus.monitoring.svc:9090");
        // The address is a constant that the client takes.
        #[allow(clippy::expect_used)]
        let prometheus = QueryClient::new(options.clone())
            .expect("the address is one")
            .with_exchange(Arc::new(queries));
        let outside = Outside {
            clients: Clients {
                watch: client(),
                act: client(),
            },
            prometheus,
            clock: self.clock.clone(),
            server: None,
        };
        let settings = Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            prometheus: options,
            lease: LeaseSettings {
                namespace: NAMESPACE.to_owned(),
                name: "gpu-remediator".to_owned(),
                identity: name.to_owned(),
                duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry_period: Duration::from_secs(2),
            },
            protected_namespaces: vec!["kube-system".to_owned()],
            evaluation_interval: Duration::from_secs(5),
        };
        tokio::spawn(run_in(outside, settings, connections.stop.clone()));
        self.controllers.push(connections);
    }

    /// Each controller dies at the next eviction of its own that is accepted.
    pub(super) fn controller_dies_at_next_eviction(&self) {
        // Only the leader evicts, and who leads next is not to die.
        if let Some(leader) = self.controllers.first() {
            leader.die_at_next_eviction();
        }
    }

    /// Prometheus answers no controller any more, or each again.
    pub(super) fn prometheus_down(&self, down: bool) {
        for controller in &self.controllers {
            controller.prometheus_down(down);
        }
    }

    /// A GPU falls off the bus; answers the line in the kernel log.
    pub(super) fn lose_gpu(&self, node: &str, gpu: u32) -> String {
        self.world.hardware().lose(node, gpu);
        self.last_log_line(node)
    }

    /// The driver reports an Xid; answers the line in the kernel log.
    pub(super) fn xid(&self, node: &str, gpu: u32, code: u32) -> String {
        self.world.hardware().xid(node, gpu, code);
        self.last_log_line(node)
    }

    /// The node is repaired and started again.
    pub(super) fn repair(&self, node: &str) {
        self.world.hardware().repair(node);
    }

    fn last_log_line(&self, node: &str) -> String {
        let lines = self.world.hardware().node(node).log_after(0);
        lines
            .into_iter()
            .last()
            .map(|(_, line)| line)
            .unwrap_or_default()
    }

    /// An object is changed by a person.
    pub(super) fn change(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        made(
            self.api
                .store("person")
                .change(resource, namespace, name, edit),
        );
    }
}

/// What the scenario writes is always allowed.
fn made<T>(result: Result<T, crate::sim::api_server::Refusal>) {
    debug_assert!(result.is_ok(), "{:?}", result.err());
    let _ = result;
}

/// The objects of the API server, for the page of kube-state-metrics.
struct Objects(ApiServer);

impl prometheus::Cluster for Objects {
    fn revision(&self) -> u64 {
        self.0.revision()
    }

    fn list(&self, plural: &str) -> Vec<Arc<Value>> {
        let resource = ALL
            .iter()
            .find(|r| r.plural == plural && r.group != "events.k8s.io");
        let store = self.0.store("kube-state-metrics");
        resource.map(|r| store.list(r)).unwrap_or_default()
    }
}
