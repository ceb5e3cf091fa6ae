//! What can happen to a random world, as plain data, and how it is done.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::setup::StartError;
use super::simulation::Simulation;
use crate::sim::api_server::resources::{GPU_FAULTS, NODES, PODS};
use crate::sim::world::GpuState;

/// The namespace of the workloads of random worlds.
pub const NAMESPACE: &str = "inference";

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// The driver reports an Xid about a GPU.
    Xid(String, u32, u32),
    /// A GPU falls off the bus in silence.
    Lose(String, u32),
    /// A GPU is gone from the driver's list.
    Vanish(String, u32),
    /// Calls for a GPU do not return.
    Hang(String, u32),
    /// A node is rebooted, and its GPUs work again.
    Repair(String),
    /// A GPU is replaced.
    Replace(String, u32),
    /// A node loses its power.
    PowerOff(String),
    /// A node boots.
    PowerOn(String),
    /// The exporter of a node dies.
    ExporterDown(String),
    /// It is started again.
    ExporterUp(String),
    /// A person cordons a node.
    Cordon(String),
    /// A person uncordons a node.
    Uncordon(String),
    /// A person deletes a node's object.
    DeleteNode(String),
    /// A deleted node joins again.
    Rejoin(String),
    /// A person deletes the first pod of the namespace.
    DeletePod,
    /// A person deletes the faults of a node.
    DeleteFaults(String),
    /// A person asks for another try of the faults of a node.
    Retry(String),
    /// A person resumes the policy.
    Resume(String),
    /// A person scales a Deployment.
    Scale(String, u32),
    /// Pods of a workload stay in Terminating, or no longer do.
    Hanging(String, bool),
    /// The image of a workload cannot be pulled, or can again.
    ImageFails(String, bool),
    /// Whoever leads dies, and is not replaced by itself.
    Crash,
    /// Another controller is started.
    Start,
    /// Whoever leads dies, and is replaced at once.
    Restart,
    /// Whoever leads cannot reach the API server for so long.
    Partition(Duration),
    /// The wall clock of whoever leads is set forward or back by so many seconds.
    ClockJump(i64),
    /// The API server forgets the history of its watches.
    Compact,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xid(node, gpu, code) => write!(f, "Xid {code} on GPU {gpu} of {node}"),
            Self::Lose(node, gpu) => write!(f, "GPU {gpu} of {node} falls off the bus in silence"),
            Self::Vanish(node, gpu) => write!(f, "GPU {gpu} of {node} is gone from the list"),
            Self::Hang(node, gpu) => write!(f, "calls for GPU {gpu} of {node} hang"),
            Self::Repair(node) => write!(f, "{node} is repaired"),
            Self::Replace(node, gpu) => write!(f, "GPU {gpu} of {node} is replaced"),
            Self::PowerOff(node) => write!(f, "{node} loses its power"),
            Self::PowerOn(node) => write!(f, "{node} boots"),
            Self::ExporterDown(node) => write!(f, "the exporter of {node} dies"),
            Self::ExporterUp(node) => write!(f, "the exporter of {node} starts"),
            Self::Cordon(node) => write!(f, "a person cordons {node}"),
            Self::Uncordon(node) => write!(f, "a person uncordons {node}"),
            Self::DeleteNode(node) => write!(f, "a person deletes {node}"),
            Self::Rejoin(node) => write!(f, "{node} joins again"),
            Self::DeletePod => write!(f, "a person deletes a pod"),
            Self::DeleteFaults(node) => write!(f, "a person deletes the faults of {node}"),
            Self::Retry(node) => write!(f, "a person retries the faults of {node}"),
            Self::Resume(policy) => write!(f, "a person resumes policy {policy}"),
            Self::Scale(name, replicas) => write!(f, "a person scales {name} to {replicas}"),
            Self::Hanging(name, true) => write!(f, "pods of {name} hang in Terminating"),
            Self::Hanging(name, false) => write!(f, "pods of {name} end again"),
            Self::ImageFails(name, true) => write!(f, "the image of {name} cannot be pulled"),
            Self::ImageFails(name, false) => write!(f, "the image of {name} can be pulled again"),
            Self::Crash => write!(f, "the leader dies"),
            Self::Start => write!(f, "another controller starts"),
            Self::Restart => write!(f, "the leader dies and another controller starts"),
            Self::Partition(time) => {
                write!(f, "the leader cannot reach the API for {}s", time.as_secs())
            }
            Self::ClockJump(seconds) => write!(f, "the leader's clock jumps by {seconds}s"),
            Self::Compact => write!(f, "the API server compacts its history"),
        }
    }
}

/// Whoever leads, or else the newest that lives.
pub(super) fn leading(simulation: &Simulation) -> Option<usize> {
    let leader = simulation.leader();
    let alive = |place: &usize| simulation.processes[*place].is_alive();
    let mut places: Vec<usize> = (0..simulation.processes.len()).filter(alive).collect();
    let leads = places
        .iter()
        .position(|place| Some(&simulation.processes[*place].identity) == leader.as_ref());
    match leads {
        Some(at) => Some(places.swap_remove(at)),
        None => places.pop(),
    }
}

/// Starts a controller with a new name.
pub(super) fn start(simulation: &mut Simulation) -> Result<(), StartError> {
    let identity = format!("controller-{}", simulation.processes.len() + 1);
    simulation.start_controller(&identity)?;
    Ok(())
}

/// Tells the checks how the GPUs of every node are now: whatever was done may have mended or broken some.
fn tell_hardware(simulation: &Simulation) {
    let hardware = simulation.world.hardware();
    let now = simulation.clock.now();
    for node in simulation.world.plan().node_names() {
        let states = (0..).zip(hardware.states(node));
        let gpus = states.filter_map(|(gpu, state)| {
            let uuid = hardware.uuid(node, gpu)?;
            Some((uuid, state == GpuState::Healthy))
        });
        let gpus: Vec<_> = gpus.collect();
        simulation.promises.with(|p| p.hardware(now, node, &gpus));
    }
}

/// The names of the faults of a node.
fn faults_of(simulation: &Simulation, node: &str) -> Vec<String> {
    let all = simulation.api.store("observer").list(GPU_FAULTS);
    let of_node = |fault: &Value| {
        (fault["spec"]["nodeName"] == node)
            .then(|| fault["metadata"]["name"].as_str().map(str::to_owned))?
    };
    all.iter().filter_map(|fault| of_node(fault)).collect()
}

impl Act {
    /// Does it. What people do may be refused, as when the node is gone: then nothing happens, as with `kubectl`.
    pub(super) fn perform(&self, simulation: &mut Simulation) -> Result<(), StartError> {
        let hardware = simulation.world.hardware().clone();
        let person = simulation.world.person();
        match self {
            Self::Xid(node, gpu, code) => hardware.xid(node, *gpu, *code),
            Self::Lose(node, gpu) => hardware.lose(node, *gpu),
            Self::Vanish(node, gpu) => hardware.vanish(node, *gpu),
            Self::Hang(node, gpu) => hardware.hang(node, *gpu),
            Self::Repair(node) => hardware.repair(node),
            Self::Replace(node, gpu) => drop(hardware.replace(node, *gpu)),
            Self::PowerOff(node) => hardware.power_off(node),
            Self::PowerOn(node) => hardware.power_on(node),
            Self::ExporterDown(node) => hardware.exporter_down(node),
            Self::ExporterUp(node) => hardware.exporter_up(node),
            Self::Cordon(node) => drop(person.cordon(node)),
            Self::Uncordon(node) => drop(person.uncordon(node)),
            Self::DeleteNode(node) => drop(person.delete_node(node)),
            Self::Rejoin(node) => {
                let store = simulation.api.store("observer");
                if store.get(NODES, None, node).is_none() {
                    simulation.world.rejoin(node);
                }
            }
            Self::DeletePod => {
                let pods = simulation.api.store("observer").list(PODS);
                let ours = pods
                    .iter()
                    .find(|p| p["metadata"]["namespace"] == NAMESPACE);
                if let Some(name) = ours.and_then(|p| p["metadata"]["name"].as_str()) {
                    let _ = person.delete_pod(NAMESPACE, name);
                }
            }
            Self::DeleteFaults(node) => {
                for fault in faults_of(simulation, node) {
                    let _ = person.delete_fault(&fault);
                }
            }
            Self::Retry(node) => {
                for fault in faults_of(simulation, node) {
                    let _ = person.retry(&fault);
                }
            }
            Self::Resume(policy) => drop(person.resume(policy)),
            Self::Scale(name, replicas) => {
                drop(person.scale_deployment(NAMESPACE, name, *replicas));
            }
            Self::Hanging(name, yes) => {
                simulation
                    .world
                    .pods()
                    .change(NAMESPACE, name, |b| b.hangs = *yes);
            }
            Self::ImageFails(name, yes) => {
                simulation
                    .world
                    .pods()
                    .change(NAMESPACE, name, |b| b.image_fails = *yes);
            }
            Self::Crash => {
                if let Some(place) = leading(simulation) {
                    simulation.crash(place);
                }
            }
            Self::Start => start(simulation)?,
            Self::Restart => match leading(simulation) {
                Some(place) => drop(simulation.restart(place)?),
                None => start(simulation)?,
            },
            Self::Partition(time) => {
                if let Some(place) = leading(simulation) {
                    let gate = simulation.processes[place].gate.clone();
                    let time = *time;
                    gate.partition(true);
                    tokio::spawn(async move {
                        tokio::time::sleep(time).await;
                        gate.partition(false);
                    });
                }
            }
            Self::ClockJump(seconds) => {
                if let Some(place) = leading(simulation) {
                    let by = SignedDuration::from_secs(*seconds);
                    simulation.processes[place].clock.jump(by);
                }
            }
            Self::Compact => simulation.api.compact(),
        }
        tell_hardware(simulation);
        Ok(())
    }
}

#[cfg(test)]
#[path = "acts_tests.rs"]
mod tests;
