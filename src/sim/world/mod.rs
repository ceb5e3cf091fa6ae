//! What a cluster does by itself: scheduler, workload controllers, kubelets, GPUs.
//!
//! One task looks after everything. It wakes when the API server has a new revision or when something is due, and a
//! cluster in which nothing happens costs nothing. Not here: probes, restarts of single containers, preemption,
//! affinity, volumes, rolling updates of a changed template.

mod disruption;
mod hardware;
mod kubelet;
mod objects;
mod person;
mod plan;
mod scheduler;
mod view;
mod workloads;

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::sim::api_server::resources::{self, NAMESPACES, NODES};
use crate::sim::api_server::{ApiServer, Store};
use crate::sim::prometheus::Cluster;

pub use hardware::{GpuState, Hardware};
pub use kubelet::PodTraits;
pub use person::{PERSON, Person};
pub use plan::{Behaviour, GPU_MODEL, NodePlan, Owner, Workload, WorldPlan};

use kubelet::Kubelets;
use view::{KINDS, View};
use workloads::Controllers;

/// A cluster that lives. Clones are the same cluster.
#[derive(Clone)]
pub struct World {
    api: ApiServer,
    clock: Clock,
    hardware: Hardware,
    pods: PodTraits,
    plan: Arc<WorldPlan>,
    stop: CancellationToken,
}

impl World {
    /// Makes the objects of the plan, and lets the cluster live until [`World::stop`]. The seed decides how long each pod
    /// takes to start.
    #[must_use]
    pub fn start(api: &ApiServer, clock: Clock, plan: WorldPlan, seed: u64) -> Self {
        let world = Self {
            api: api.clone(),
            hardware: Hardware::new(&plan, clock.clone()),
            pods: PodTraits::new(&plan),
            plan: Arc::new(plan),
            clock,
            stop: CancellationToken::new(),
        };
        world.make();
        let (api, stop) = (world.api.clone(), world.stop.clone());
        let store = move |actor: &str| api.store(actor);
        let kubelets = Kubelets::new(
            store.clone(),
            world.hardware.clone(),
            world.pods.clone(),
            ChaCha8Rng::seed_from_u64(seed),
        );
        let life = Life {
            view: View::default(),
            controllers: Controllers::new(&store),
            scheduler: store("kube-scheduler"),
            disruption: store("disruption-controller"),
            kubelets,
            clock: world.clock.clone(),
            api: world.api.clone(),
        };
        let (hardware, pods) = (world.hardware.clone(), world.pods.clone());
        let changes = world.api.changes();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = life.go_on(changes, hardware, pods) => {}
            }
        });
        world
    }

    fn make(&self) {
        let people = self.api.store(PERSON);
        let now = kubelet::stamp(self.clock.now());
        for plan in &self.plan.nodes {
            self.make_node(plan, &now);
        }
        for workload in self.plan.workloads() {
            // It may be there already, by another workload.
            let namespace = json!({"metadata": {"name": workload.namespace}});
            let _ = people.create(NAMESPACES, namespace);
            for (plural, object) in objects::workload(workload) {
                if let Some(resource) = resources::ALL.iter().find(|r| r.plural == plural) {
                    let made = people.create(resource, object);
                    debug_assert!(made.is_ok(), "{made:?}");
                }
            }
        }
    }

    fn make_node(&self, plan: &NodePlan, now: &str) {
        let kubelet = self.api.store(&format!("kubelet/{}", plan.name));
        let made = kubelet.create(NODES, objects::node(plan));
        debug_assert!(made.is_ok(), "{made:?}");
        let status = objects::node_status(plan.gpus, now);
        let _ = kubelet.change_status(NODES, None, &plan.name, |node| node["status"] = status);
    }

    /// A node that was deleted joins again: another object, and the machine was mended meanwhile.
    pub fn rejoin(&self, node: &str) {
        self.hardware.repair(node);
        self.register(node);
    }

    /// The kubelet of a machine that was taken away from the cluster registers it anew, as it is.
    pub fn register(&self, node: &str) {
        if let Some(plan) = self.plan.nodes.iter().find(|plan| plan.name == node) {
            self.make_node(plan, &kubelet::stamp(self.clock.now()));
        }
    }

    /// What can break.
    #[must_use]
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// How pods behave.
    #[must_use]
    pub fn pods(&self) -> &PodTraits {
        &self.pods
    }

    /// Somebody with `kubectl`.
    #[must_use]
    pub fn person(&self) -> Person {
        Person::new(self.api.store(PERSON))
    }

    /// What it was made from.
    #[must_use]
    pub fn plan(&self) -> &WorldPlan {
        &self.plan
    }

    /// The cluster as kube-state-metrics sees it.
    #[must_use]
    pub fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::new(Seen(self.api.clone(), self.api.store("kube-state-metrics")))
    }

    /// Nothing happens by itself any more.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

struct Seen(ApiServer, Store);

impl Cluster for Seen {
    fn revision(&self) -> u64 {
        self.0.revision()
    }

    fn list(&self, plural: &str) -> Vec<Arc<Value>> {
        let known = resources::ALL.iter().find(|r| r.plural == plural);
        known.map_or_else(Vec::new, |resource| self.1.list(resource))
    }
}

/// The task that looks after everything.
struct Life {
    view: View,
    controllers: Controllers,
    scheduler: Store,
    disruption: Store,
    kubelets: Kubelets,
    clock: Clock,
    api: ApiServer,
}

impl Life {
    async fn go_on(
        mut self,
        mut changes: tokio::sync::watch::Receiver<u64>,
        hardware: Hardware,
        pods: PodTraits,
    ) {
        loop {
            self.settle();
            let due = self.kubelets.next();
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at.max(Instant::now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                seen = changes.changed() => if seen.is_err() { return },
                () = hardware.power_changed() => self.kubelets.power(&self.view, self.clock.now()),
                () = pods.changed() => {
                    let keys: Vec<_> = self.view.pods.keys().cloned().collect();
                    for key in keys {
                        self.kubelets.look_at(&self.view, &key);
                    }
                }
                () = due => {
                    self.view.follow(&self.scheduler, self.api.revision());
                    self.kubelets.act(&self.view, self.clock.now());
                }
            }
        }
    }

    /// Lets every controller do what there is to do, until nothing changes any more.
    fn settle(&mut self) {
        while self.view.follow(&self.scheduler, self.api.revision()) {
            let dirty = std::mem::take(&mut self.view.dirty);
            let now = self.clock.now();
            if dirty.nodes {
                self.kubelets.power(&self.view, now);
            }
            for key in &dirty.pods {
                self.kubelets.look_at(&self.view, key);
            }
            let mut objects = dirty.objects;
            if dirty.nodes {
                objects.extend(self.view.objects[3].keys().map(|key| (3, key.clone())));
            }
            let stamp = kubelet::stamp(now);
            for (place, key) in &objects {
                if *place < KINDS.len() - 1 {
                    self.controllers.reconcile(&self.view, *place, key, &stamp);
                } else if let Some(budget) = self.view.objects[*place].get(key) {
                    disruption::reconcile(&self.view, &self.disruption, key, budget, now);
                }
            }
            if dirty.room {
                scheduler::schedule(&mut self.view, &self.scheduler, now);
            }
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
