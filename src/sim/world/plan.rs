//! What a simulated cluster is made of.

use std::time::Duration;

/// The model of every simulated GPU.
pub const GPU_MODEL: &str = "NVIDIA H100 80GB HBM3";

/// What a node offers besides GPUs, in thousandths of a processor.
pub const NODE_MILLICPU: i64 = 96_000;

/// The cluster to be.
#[derive(Clone, Debug, Default)]
pub struct WorldPlan {
    pub(super) nodes: Vec<NodePlan>,
    pub(super) workloads: Vec<Workload>,
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// How many GPUs it has; a node without any has no GPU label either.
    pub gpus: u32,
    /// Its zone.
    pub zone: String,
}

/// What runs the pods of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A Deployment with a ReplicaSet.
    Deployment,
    /// A StatefulSet whose pods start one after the other.
    StatefulSet,
    /// An indexed Job with as many completions as replicas.
    Job,
    /// A Job without indices.
    PlainJob,
    /// One pod on each node.
    DaemonSet,
    /// Nobody: bare pods.
    Nobody,
}

/// A workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its namespace, made where it does not exist.
    pub namespace: String,
    /// Its name, also the label `app` of its pods.
    pub name: String,
    /// What runs it.
    pub owner: Owner,
    /// How many pods.
    pub replicas: u32,
    /// GPUs of each pod; 0 for a pod without.
    pub gpus: u32,
    /// `minAvailable` of its PodDisruptionBudget, a number or a percentage; none where absent.
    pub min_available: Option<String>,
    /// `terminationGracePeriodSeconds`.
    pub grace: Duration,
    /// How its pods behave.
    pub behaviour: Behaviour,
}

/// How the pods of a workload behave on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// From being bound to being Ready, give or take a quarter.
    pub start: Duration,
    /// From being asked to end to being gone, within the grace period.
    pub end: Duration,
    /// The pods of a Job end well after so long.
    pub run: Option<Duration>,
    /// Pods that were asked to end stay, beyond any grace period, until this is taken back.
    pub hangs: bool,
    /// The image of new pods cannot be pulled.
    pub image_fails: bool,
    /// New pods run and never become Ready.
    pub never_ready: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(4),
            end: Duration::from_secs(2),
            run: None,
            hangs: false,
            image_fails: false,
            never_ready: false,
        }
    }
}

impl Workload {
    /// A workload with the usual behaviour and no PodDisruptionBudget.
    #[must_use]
    pub fn new(namespace: &str, name: &str, owner: Owner, replicas: u32, gpus: u32) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            owner,
            replicas,
            gpus,
            min_available: None,
            grace: Duration::from_secs(30),
            behaviour: Behaviour::default(),
        }
    }

    /// With a PodDisruptionBudget of this `minAvailable`.
    #[must_use]
    pub fn min_available(mut self, least: &str) -> Self {
        self.min_available = Some(least.to_owned());
        self
    }

    /// With this behaviour.
    #[must_use]
    pub fn behaving(mut self, behaviour: Behaviour) -> Self {
        self.behaviour = behaviour;
        self
    }
}

impl WorldPlan {
    /// An empty cluster.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds nodes `gpu-1`, `gpu-2` and so on with so many GPUs each, in three zones.
    #[must_use]
    pub fn nodes(mut self, count: u32, gpus: u32) -> Self {
        let prefix = if gpus == 0 { "cpu" } else { "gpu" };
        for number in 1..=count {
            self.nodes.push(NodePlan {
                name: format!("{prefix}-{number}"),
                gpus,
                zone: ["zone-a", "zone-b", "zone-c"][number as usize % 3].to_owned(),
            });
        }
        self
    }

    /// Adds a workload.
    #[must_use]
    pub fn workload(mut self, workload: Workload) -> Self {
        self.workloads.push(workload);
        self
    }

    /// The names of the nodes.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    /// The workloads.
    #[must_use]
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }
}
