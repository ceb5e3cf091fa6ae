//! GPUs, their driver and the kernel log of each node: what can break, and what the exporter finds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::plan::{GPU_MODEL, WorldPlan};
use crate::clock::Clock;
use crate::nvml::{Driver, DriverError, EccCount, Identity, Sample};
use crate::sim::prometheus::NodeHardware;
use crate::xid::{PciAddress, RecoveryAction, XidMessage};

/// The bus of the first GPU of a node.
const FIRST_BUS: u8 = 0x10;

/// How a GPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuState {
    /// It works.
    Healthy,
    /// It works, and the driver asks for a reset of it.
    NeedsReset,
    /// It fell off the bus: the driver says that it is lost.
    Lost,
    /// It is gone from the list: the driver has one GPU less.
    Vanished,
    /// Calls for it do not return.
    Hung,
}

#[derive(Clone, Debug)]
struct Gpu {
    uuid: String,
    state: GpuState,
}

#[derive(Clone, Debug)]
struct Machine {
    gpus: Vec<Gpu>,
    power: bool,
    exporter: bool,
    /// How often the exporter was started.
    starts: u64,
    boots: u64,
    version: u64,
    log: Vec<(Timestamp, String)>,
}

struct Inner {
    clock: Clock,
    machines: Mutex<Machines>,
    power_changed: Notify,
}

#[derive(Default)]
struct Machines {
    by_node: BTreeMap<String, Machine>,
    made: u64,
}

/// The hardware of every node. Clones are the same hardware.
#[derive(Clone)]
pub struct Hardware(Arc<Inner>);

impl Hardware {
    pub(super) fn new(plan: &WorldPlan, clock: Clock) -> Self {
        let mut machines = Machines::default();
        for node in &plan.nodes {
            let gpus = (0..node.gpus).map(|_| machines.new_gpu()).collect();
            machines.by_node.insert(
                node.name.clone(),
                Machine {
                    gpus,
                    power: true,
                    exporter: true,
                    starts: 1,
                    boots: 1,
                    version: 1,
                    log: Vec::new(),
                },
            );
        }
        Self(Arc::new(Inner {
            clock,
            machines: Mutex::new(machines),
            power_changed: Notify::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Machines> {
        let machines = self.0.machines.lock();
        machines.unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, node: &str, change: impl FnOnce(&mut Machine) -> T) -> Option<T> {
        let mut machines = self.lock();
        let machine = machines.by_node.get_mut(node)?;
        machine.version += 1;
        Some(change(machine))
    }

    fn set(&self, node: &str, gpu: u32, state: GpuState) {
        self.change(node, |machine| {
            if let Some(gpu) = machine.gpus.get_mut(gpu as usize) {
                gpu.state = state;
            }
        });
    }

    /// The driver writes an Xid about a GPU into the kernel log. Where the driver asks for a recovery after it, the GPU
    /// says so from now on: 48, 95, 119, 120 and 140 ask for a reset of the GPU, and 79 means that it is lost.
    pub fn xid(&self, node: &str, gpu: u32, code: u32) {
        let now = self.0.clock.now();
        self.change(node, |machine| {
            let line = XidMessage::usual(place(gpu), code).to_string();
            machine.log.push((now, line));
            if let Some(gpu) = machine.gpus.get_mut(gpu as usize)
                && gpu.state == GpuState::Healthy
            {
                match code {
                    79 => gpu.state = GpuState::Lost,
                    46 | 48 | 95 | 119 | 120 | 140 => gpu.state = GpuState::NeedsReset,
                    _ => {}
                }
            }
        });
    }

    /// A GPU falls off the bus without a word in the log.
    pub fn lose(&self, node: &str, gpu: u32) {
        self.set(node, gpu, GpuState::Lost);
    }

    /// A GPU is gone from the driver's list.
    pub fn vanish(&self, node: &str, gpu: u32) {
        self.set(node, gpu, GpuState::Vanished);
    }

    /// Calls for a GPU no longer return.
    pub fn hang(&self, node: &str, gpu: u32) {
        self.set(node, gpu, GpuState::Hung);
    }

    /// The node is rebooted and every GPU of it works again. The kernel log begins anew.
    pub fn repair(&self, node: &str) {
        self.change(node, |machine| {
            for gpu in &mut machine.gpus {
                gpu.state = GpuState::Healthy;
            }
            machine.boots += 1;
            machine.starts += 1;
            machine.log.clear();
        });
    }

    /// A GPU is replaced by a new one; answers the new UUID.
    pub fn replace(&self, node: &str, gpu: u32) -> Option<String> {
        let new = self.lock().new_gpu();
        let uuid = new.uuid.clone();
        self.change(node, |machine| {
            if let Some(old) = machine.gpus.get_mut(gpu as usize) {
                *old = new;
            }
            machine.boots += 1;
            machine.starts += 1;
            machine.log.clear();
        })?;
        Some(uuid)
    }

    /// The node loses its power.
    pub fn power_off(&self, node: &str) {
        self.change(node, |machine| machine.power = false);
        self.0.power_changed.notify_one();
    }

    /// The node boots.
    pub fn power_on(&self, node: &str) {
        self.change(node, |machine| {
            machine.power = true;
            machine.boots += 1;
            machine.starts += 1;
            machine.log.clear();
        });
        self.0.power_changed.notify_one();
    }

    /// The exporter of a node dies; it comes back with [`Hardware::exporter_up`].
    pub fn exporter_down(&self, node: &str) {
        self.change(node, |machine| machine.exporter = false);
    }

    /// The exporter of a node is started again, and reads the whole log of this boot.
    pub fn exporter_up(&self, node: &str) {
        self.change(node, |machine| {
            machine.exporter = true;
            machine.starts += 1;
        });
    }

    /// Whether a node has power; a node that is not known has none.
    #[must_use]
    pub fn has_power(&self, node: &str) -> bool {
        self.lock().by_node.get(node).is_some_and(|m| m.power)
    }

    /// How often a node was booted.
    #[must_use]
    pub fn boots(&self, node: &str) -> u64 {
        self.lock().by_node.get(node).map_or(0, |m| m.boots)
    }

    /// How each GPU of a node is.
    #[must_use]
    pub fn states(&self, node: &str) -> Vec<GpuState> {
        let machines = self.lock();
        let machine = machines.by_node.get(node);
        machine.map_or_else(Vec::new, |m| m.gpus.iter().map(|g| g.state).collect())
    }

    /// The UUID of a GPU.
    #[must_use]
    pub fn uuid(&self, node: &str, gpu: u32) -> Option<String> {
        let machines = self.lock();
        let gpu = machines.by_node.get(node)?.gpus.get(gpu as usize)?;
        Some(gpu.uuid.clone())
    }

    /// The newest line of a node's kernel log.
    #[must_use]
    pub fn last_log_line(&self, node: &str) -> Option<String> {
        let machines = self.lock();
        let (_, line) = machines.by_node.get(node)?.log.last()?;
        Some(line.clone())
    }

    /// The hardware of one node, as its exporter finds it.
    #[must_use]
    pub fn of(&self, node: &str) -> Arc<dyn NodeHardware> {
        Arc::new(OneNode {
            hardware: self.clone(),
            node: node.to_owned(),
        })
    }

    /// Waits until a node has lost or regained power.
    pub(super) async fn power_changed(&self) {
        self.0.power_changed.notified().await;
    }
}

impl Machines {
    fn new_gpu(&mut self) -> Gpu {
        self.made += 1;
        Gpu {
            uuid: format!("GPU-51a7ed00-0000-4000-8000-{:012x}", self.made),
            state: GpuState::Healthy,
        }
    }
}

/// Where the GPU of an index is plugged in.
fn place(gpu: u32) -> PciAddress {
    PciAddress {
        domain: 0,
        bus: FIRST_BUS.saturating_add(u8::try_from(gpu).unwrap_or(u8::MAX)),
        device: 0,
    }
}

struct OneNode {
    hardware: Hardware,
    node: String,
}

impl OneNode {
    fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> Option<T> {
        self.hardware.lock().by_node.get(&self.node).map(look)
    }
}

impl NodeHardware for OneNode {
    fn version(&self) -> u64 {
        self.look(|machine| machine.version).unwrap_or(0)
    }

    fn unreachable(&self) -> Option<String> {
        match self.look(|machine| (machine.power, machine.exporter)) {
            Some((true, true)) => None,
            Some((true, false)) => Some("connection refused".to_owned()),
            _ => Some("no route to host".to_owned()),
        }
    }

    fn starts(&self) -> u64 {
        self.look(|machine| machine.starts).unwrap_or(0)
    }

    fn driver(&self) -> Result<Arc<dyn Driver>, DriverError> {
        let gpus = self.look(|machine| machine.gpus.clone());
        Ok(Arc::new(Session(gpus.unwrap_or_default())))
    }

    fn hangs(&self, index: u32) -> bool {
        let hung = |machine: &Machine| {
            let listed = machine.gpus.iter();
            let mut listed = listed.filter(|gpu| gpu.state != GpuState::Vanished);
            listed.nth(index as usize).map(|gpu| gpu.state) == Some(GpuState::Hung)
        };
        self.look(hung).unwrap_or(false)
    }

    fn log_after(&self, lines: usize) -> Vec<(Timestamp, String)> {
        self.look(|machine| machine.log.iter().skip(lines).cloned().collect())
            .unwrap_or_default()
    }
}

/// The driver, as it is at one moment.
struct Session(Vec<Gpu>);

impl Session {
    /// The GPU at an index of the driver's list, and where it is plugged in.
    fn at(&self, index: u32) -> Result<(u32, &Gpu), DriverError> {
        let listed = (0..).zip(&self.0);
        let mut listed = listed.filter(|(_, gpu)| gpu.state != GpuState::Vanished);
        listed.nth(index as usize).ok_or(DriverError::Call {
            call: "nvmlDeviceGetHandleByIndex_v2",
            code: "invalid_argument",
        })
    }
}

impl Driver for Session {
    fn version(&self) -> Result<String, DriverError> {
        Ok("580.95.05".to_owned())
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        let listed = self.0.iter();
        let count = listed.filter(|gpu| gpu.state != GpuState::Vanished).count();
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn identity(&self, index: u32) -> Result<Identity, DriverError> {
        let (slot, gpu) = self.at(index)?;
        if gpu.state == GpuState::Lost {
            return Err(DriverError::GpuLost);
        }
        Ok(Identity {
            index,
            uuid: gpu.uuid.clone(),
            pci: place(slot),
            minor: slot,
            model: GPU_MODEL.to_owned(),
            serial: None,
            vbios: None,
        })
    }

    fn sample(&self, index: u32) -> Result<Sample, DriverError> {
        let (_, gpu) = self.at(index)?;
        if gpu.state == GpuState::Lost {
            return Err(DriverError::GpuLost);
        }
        let action = match gpu.state {
            GpuState::NeedsReset => RecoveryAction(1),
            _ => RecoveryAction::NONE,
        };
        let ecc = |corrected, aggregate| EccCount {
            corrected,
            aggregate,
            count: 0,
        };
        Ok(Sample {
            recovery_action: Some(action),
            ecc: vec![ecc(true, false), ecc(false, false)],
            temperature: Some(41),
            ..Sample::default()
        })
    }
}
