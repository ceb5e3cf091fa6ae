//! What one GPU answered.

use super::CallFailure;
use crate::xid::RecoveryAction;
use std::sync::Arc;

/// Numbers of one kind, each with the value of the label that tells it from the others.
pub type Labelled<T> = Vec<(&'static str, T)>;

/// How an ECC error count is kept and what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EccCount {
    /// Whether the memory could put the errors right.
    pub corrected: bool,
    /// Whether the count is kept over the life of the board; otherwise it starts with the driver.
    pub aggregate: bool,
    /// The errors.
    pub count: u64,
}

/// What one GPU answered. What it does not support is absent.
///
/// The fields up to `pcie_replays` tell its health and are asked for each time. The groups behind them are asked for less
/// often, and are `None` when they were not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// What the driver says the GPU needs; drivers since 565.
    pub recovery_action: Option<RecoveryAction>,
    /// ECC error counts.
    pub ecc: Vec<EccCount>,
    /// Memory rows that were replaced by spare ones; Ampere and later.
    pub rows: Option<RemappedRows>,
    /// Degrees Celsius of the GPU's own sensor.
    pub temperature: Option<u32>,
    /// Degrees Celsius of the memory.
    pub memory_temperature: Option<u32>,
    /// What lowers the clocks now, as the bits of `nvmlClocksEventReason*`.
    pub clock_events: Option<u64>,
    /// PCIe packets that were sent again, since the driver was loaded.
    pub pcie_replays: Option<u32>,
    /// How busy the GPU is.
    pub usage: Option<Arc<Usage>>,
    /// Its NVLinks.
    pub links: Option<Arc<Links>>,
    /// What it is divided into.
    pub instances: Option<Arc<Vec<Instance>>>,
    /// What changes rarely.
    pub details: Option<Arc<Details>>,
    /// Calls that failed for another reason than not being supported.
    pub failures: Vec<CallFailure>,
}

impl Sample {
    /// Takes the groups that were not asked for this time from the sample before.
    pub fn fill_from(&mut self, before: &mut Self) {
        if self.usage.is_none() {
            self.usage = before.usage.take();
        }
        if self.links.is_none() {
            self.links = before.links.take();
        }
        if self.instances.is_none() {
            self.instances = before.instances.take();
        }
        if self.details.is_none() {
            self.details = before.details.take();
        }
    }
}

/// Row remapping (`nvmlDeviceGetRemappedRows`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemappedRows {
    /// Rows remapped for corrected errors.
    pub corrected: u32,
    /// Rows remapped for uncorrected errors.
    pub uncorrected: u32,
    /// Whether a row waits for the next reset to be remapped.
    pub pending: bool,
    /// Whether a remapping has failed.
    pub failed: bool,
}

/// How busy the GPU is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Usage {
    /// Hertz by clock domain.
    pub clocks: Labelled<f64>,
    /// Share of the time that an engine was busy, 0 to 1.
    pub utilization: Labelled<f64>,
    /// Bytes of the GPU's memory.
    pub memory: Option<Memory>,
    /// Bytes of the memory that the processor can reach over PCIe: used and total.
    pub bar1: Option<(u64, u64)>,
    /// Watts.
    pub power: Option<f64>,
    /// Joules since the driver was loaded.
    pub energy: Option<f64>,
    /// Seconds since the driver was loaded during which a reason lowered the clocks.
    pub throttled: Labelled<f64>,
    /// Processes by what they do.
    pub processes: Labelled<u32>,
    /// Degrees Celsius up to the nearest limit; Ada and later.
    pub temperature_margin: Option<i32>,
    /// Errors in on-chip memory; Ampere and later.
    pub sram: Option<Sram>,
    /// PCIe generation in use; it falls when the GPU is idle.
    pub pcie_generation: Option<u32>,
    /// PCIe lanes in use.
    pub pcie_width: Option<u32>,
}

/// The NVLinks of a GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Links {
    /// Each, by number.
    pub links: Vec<Link>,
    /// Bytes over all of them since the driver was loaded, by direction.
    pub bytes: Labelled<u64>,
    /// What is at the other end of each.
    pub peers: Vec<(u32, &'static str)>,
    /// Membership in an NVLink fabric; Hopper and later behind NVSwitches.
    pub fabric: Option<Fabric>,
}

/// Bytes of the GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Everything.
    pub total: u64,
    /// Allocated.
    pub used: u64,
    /// Neither allocated nor reserved.
    pub free: u64,
    /// Kept by the driver and the firmware; `None` for an instance.
    pub reserved: Option<u64>,
}

/// Errors in on-chip memory (`nvmlDeviceGetSramEccErrorStatus`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sram {
    /// Whether there were so many that NVIDIA takes the board back.
    pub threshold_exceeded: bool,
    /// By type and counter.
    pub errors: Vec<(&'static str, &'static str, u64)>,
    /// Uncorrected ones over the life of the board, by the unit that they were in.
    pub units: Labelled<u64>,
}

/// One NVLink.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Link {
    /// Its number on this GPU.
    pub number: u32,
    /// Whether it is up.
    pub up: Option<bool>,
    /// Bytes in a second.
    pub speed: Option<f64>,
    /// Errors by type since the driver was loaded. The types differ between generations.
    pub errors: Labelled<u64>,
}

/// Membership in an NVLink fabric (`nvmlDeviceGetGpuFabricInfoV`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fabric {
    /// 1 registration has not begun, 2 it is under way, 3 it has ended.
    pub state: u32,
    /// The NVML code with which it ended; 0 is success.
    pub status: u32,
    /// What may be wrong with it, as far as the driver tells, and whether it is.
    pub faults: Labelled<bool>,
}

/// One MIG instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instance {
    /// `MIG-` and five groups of hexadecimal digits.
    pub uuid: String,
    /// The GPU instance.
    pub gpu_instance: Option<u32>,
    /// The compute instance in it.
    pub compute_instance: Option<u32>,
    /// Such as `1g.10gb`.
    pub profile: Option<String>,
    /// Bytes of its memory.
    pub memory: Option<Memory>,
}

/// What changes rarely.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// Degrees Celsius at which something happens.
    pub temperature_limits: Labelled<u32>,
    /// The same as degrees of margin; Ada and later.
    pub margin_limits: Labelled<i32>,
    /// Watts.
    pub power_limits: Labelled<f64>,
    /// The highest PCIe generation that GPU and system have in common.
    pub pcie_generation_max: Option<u32>,
    /// The most PCIe lanes that GPU and system have in common.
    pub pcie_width_max: Option<u32>,
    /// Whether the driver stays loaded without a client.
    pub persistence: Option<bool>,
    /// Whether ECC is on: now, and after the next reset.
    pub ecc_mode: Option<(bool, bool)>,
    /// Whether the GPU may be divided into instances: now, and after the next reset.
    pub mig_mode: Option<(bool, bool)>,
    /// Memory pages that are no longer used, by cause; before Ampere.
    pub retired_pages: Labelled<u32>,
    /// Whether a page waits for the next reset to be retired.
    pub retired_pages_pending: Option<bool>,
    /// Memory banks by how many spare rows are left.
    pub row_banks: Labelled<u32>,
    /// ECC errors by where they were.
    pub ecc_locations: Vec<(&'static str, EccCount)>,
    /// The bits that [`Sample::clock_events`] may have.
    pub clock_events_supported: Option<u64>,
}

/// What may lower the clocks: the bits of `nvmlClocksEventReason*` and their names.
pub const CLOCK_EVENTS: [(&str, u64); 9] = [
    ("gpu_idle", 0x1),
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("display_clock_setting", 0x100),
];
