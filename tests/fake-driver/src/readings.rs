//! What a GPU answers beyond who it is and whether it is there. What is left out is not supported.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::scenario::{Ecc, Gpu};

/// The readings of one GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Readings {
    /// Degrees Celsius of the memory (field 82).
    pub memory_temperature: Option<u32>,
    /// ECC error counts by location: `device_memory`, `sram`, `l1_cache`, `l2_cache`, `register_file`.
    pub ecc_locations: BTreeMap<String, Ecc>,
    /// Whether ECC is on.
    pub ecc_mode: Option<Mode>,
    /// Errors in on-chip memory.
    pub sram: Option<Sram>,
    /// Row remapping; Ampere and later, and not while the GPU is divided.
    pub remapped_rows: Option<RemappedRows>,
    /// Memory banks by spare rows left: max, high, partial, low, none.
    pub row_banks: Option<[u32; 5]>,
    /// Page retirement; before Ampere.
    pub retired_pages: Option<RetiredPages>,
    /// Degrees Celsius: shutdown, slowdown, memory, GPU.
    pub temperature_limits: Option<[u32; 4]>,
    /// Degrees of margin up to the nearest limit.
    pub temperature_margin: Option<i32>,
    /// Fields 193 to 196: shutdown, slowdown, memory, GPU.
    pub margin_limits: Option<[i32; 4]>,
    /// Bits of `nvmlClocksEventReason*` that are set, and that may be set.
    pub clock_events: Option<ClockEvents>,
    /// Nanoseconds: software power cap, sync boost, software thermal, hardware thermal, power brake.
    pub throttled: Option<[u64; 5]>,
    /// Megahertz: graphics, SM, memory, video.
    pub clocks: Option<[u32; 4]>,
    /// The PCIe link.
    pub pcie: Option<Pcie>,
    /// Milliwatts.
    pub power: Option<u32>,
    /// Milliwatts: enforced, configured, default, least, most.
    pub power_limits: Option<[u32; 5]>,
    /// Millijoules.
    pub energy: Option<u64>,
    /// Per cent: GPU, memory, encoder, decoder.
    pub utilization: Option<[u32; 4]>,
    /// Bytes.
    pub memory: Option<Memory>,
    /// Bytes: total, used.
    pub bar1: Option<[u64; 2]>,
    /// Processes: compute, graphics.
    pub processes: Option<[u32; 2]>,
    /// Whether persistence mode is on.
    pub persistence: Option<bool>,
    /// NVLinks.
    pub links: Option<Links>,
    /// Membership in an NVLink fabric.
    pub fabric: Option<Fabric>,
    /// Whether MIG mode is on; Ampere and later.
    pub mig_mode: Option<Mode>,
    /// MIG instances.
    pub instances: Vec<Instance>,
    /// The event types that can be registered for.
    pub events_supported: Option<u64>,
}

/// What is on now, and what will be after the next reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mode {
    /// Now.
    pub current: bool,
    /// After the next reset.
    pub pending: bool,
}

/// Errors in on-chip memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sram {
    /// Corrected, since the driver was loaded.
    pub corrected: u64,
    /// Uncorrected parity errors, since the driver was loaded.
    pub parity: u64,
    /// Uncorrected SEC-DED errors, since the driver was loaded.
    pub secded: u64,
    /// Whether there were too many.
    pub threshold_exceeded: bool,
}

/// Row remapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemappedRows {
    /// For corrected errors.
    pub corrected: u32,
    /// For uncorrected errors.
    pub uncorrected: u32,
    /// Whether one waits for the next reset.
    pub pending: bool,
    /// Whether one has failed.
    pub failed: bool,
}

/// Page retirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetiredPages {
    /// For several single-bit errors.
    pub single_bit: u32,
    /// For a double-bit error.
    pub double_bit: u32,
    /// Whether one waits for the next reset.
    pub pending: bool,
}

/// What lowers the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockEvents {
    /// Now.
    pub active: u64,
    /// What may.
    pub supported: u64,
}

/// The PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pcie {
    /// Packets sent again.
    pub replays: u32,
    /// Generation in use, and at most.
    pub generation: [u32; 2],
    /// Lanes in use, and at most.
    pub width: [u32; 2],
}

/// Bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Everything.
    pub total: u64,
    /// Kept by the driver.
    pub reserved: u64,
    /// Allocated.
    pub used: u64,
}

/// Which calls tell the errors of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkErrors {
    /// `nvmlDeviceGetNvLinkErrorCounter` alone, as with older drivers.
    Counters,
    /// Fields 161 to 163, up to Hopper.
    #[default]
    Fields,
    /// Fields 213 to 221, from Blackwell on.
    Blackwell,
}

/// NVLinks, all alike except where it is told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Links {
    /// How many.
    pub count: u32,
    /// Megabytes in a second.
    pub speed: u32,
    /// What is at the other end: 0 a GPU, 2 a switch.
    pub peer: u32,
    /// Which calls tell the errors.
    pub told_by: LinkErrors,
    /// Those that are down.
    pub down: Vec<u32>,
    /// Errors by link: of each type that is told, so many.
    pub errors: BTreeMap<u32, u64>,
    /// KiB sent and received over all of them.
    pub kibibytes: [u64; 2],
}

/// Membership in an NVLink fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fabric {
    /// 1 not started, 2 in progress, 3 completed.
    pub state: u8,
    /// The code with which it ended.
    pub status: u32,
    /// `NVML_GPU_FABRIC_HEALTH_MASK_*`.
    pub health_mask: u32,
}

/// One MIG instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Instance {
    /// `MIG-` and five groups of hexadecimal digits.
    pub uuid: String,
    /// Such as `1g.10gb`.
    pub profile: String,
    /// The GPU instance.
    pub gpu_instance: u32,
    /// The compute instance.
    pub compute_instance: u32,
    /// Its memory.
    pub memory: Memory,
}

/// An event. One that is added to the list after somebody has registered for its type is delivered to him once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// `nvmlEventType*`: 8 is an Xid.
    #[serde(default = "xid_event")]
    pub kind: u64,
    /// The Xid; 0 for other events.
    #[serde(default)]
    pub xid: u64,
    /// The GPU instance that it is of, under MIG.
    #[serde(default)]
    pub gpu_instance: Option<u32>,
    /// The compute instance.
    #[serde(default)]
    pub compute_instance: Option<u32>,
}

fn xid_event() -> u64 {
    8
}

impl Event {
    /// An Xid of the whole GPU.
    #[must_use]
    pub fn xid(code: u64) -> Self {
        Self {
            kind: xid_event(),
            xid: code,
            gpu_instance: None,
            compute_instance: None,
        }
    }
}

impl Gpu {
    /// Whether the GPU is divided: then much of it cannot be asked for as a whole.
    #[must_use]
    pub fn is_divided(&self) -> bool {
        !self.readings.instances.is_empty()
    }
}
