//! Simulated GPUs, for machines that have none.

use super::{
    CallFailure, Details, Driver, DriverError, DriverSource, EccCount, Identity, Link, Links,
    Memory, RemappedRows, Sample, Usage,
};
use crate::xid::{PciAddress, RecoveryAction};
use std::sync::Arc;

/// As many as one machine has: bus numbers from 0x10 on are given out, and one byte holds them.
pub(super) const MOST: u32 = 64;
const FIRST_BUS: u8 = 0x10;
/// The clock event of a GPU that does nothing.
const IDLE: u64 = 0x1;
const MEMORY: u64 = 80 << 30;
/// NVLinks of each GPU.
pub(super) const LINKS: u32 = 4;
/// What stands for the driver's version.
pub(super) const VERSION: &str = "simulated";
/// The kinds of errors that each NVLink counts.
pub(super) const LINK_ERRORS: [&str; 3] = ["replay", "recovery", "crc"];
/// By how many degrees the memory is warmer than the GPU.
pub(super) const MEMORY_WARMER: u32 = 8;
/// Bytes in a second.
const LINK_SPEED: f64 = 26_562e6;

/// A number of healthy GPUs.
#[derive(Debug, Clone)]
pub struct SimulatedGpus {
    count: u32,
    /// Tells the GPUs of one node from those of another.
    node: u64,
}

impl SimulatedGpus {
    /// The GPUs of a node, the same at each start: their UUIDs are made from the node's name and their index.
    #[must_use]
    pub fn new(count: u32, node: &str) -> Self {
        // FNV-1a; the standard hasher may change between releases, and a UUID must not.
        let node = node.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self {
            count: count.min(MOST),
            node,
        }
    }

    /// Where the GPU of an index is plugged in.
    pub(super) fn place(index: u32) -> PciAddress {
        PciAddress {
            domain: 0,
            bus: u8::try_from(index).map_or(u8::MAX, |index| FIRST_BUS.saturating_add(index)),
            device: 0,
        }
    }

    /// Who the GPU of an index is.
    pub(super) fn identify(&self, index: u32) -> Identity {
        let node = self.node;
        Identity {
            index,
            uuid: format!(
                "GPU-{:08x}-{:04x}-4{:03x}-8000-{index:012x}",
                node >> 32,
                (node >> 16) & 0xffff,
                node & 0xfff
            ),
            pci: Self::place(index),
            minor: index,
            model: "Simulated GPU".to_owned(),
            serial: None,
            vbios: None,
        }
    }
}

/// Degrees Celsius of the GPU of an index.
pub(super) fn temperature(index: u32) -> u32 {
    40 + index % 5
}

/// An NVLink that is up.
pub(super) fn link(number: u32) -> Link {
    Link {
        number,
        up: Some(true),
        speed: Some(LINK_SPEED),
        errors: LINK_ERRORS.map(|kind| (kind, 0)).to_vec(),
    }
}

impl DriverSource for SimulatedGpus {
    fn open(&self) -> Result<Arc<dyn Driver>, DriverError> {
        Ok(Arc::new(self.clone()))
    }
}

impl Driver for SimulatedGpus {
    fn version(&self) -> Result<String, DriverError> {
        Ok(VERSION.to_owned())
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        Ok(self.count)
    }

    fn identity(&self, index: u32) -> Result<Identity, DriverError> {
        Ok(self.identify(index))
    }

    fn sample(&self, index: u32) -> Result<Sample, DriverError> {
        let ecc = [(true, false), (true, true), (false, false), (false, true)];
        Ok(Sample {
            recovery_action: Some(RecoveryAction::NONE),
            ecc: ecc
                .map(|(corrected, aggregate)| EccCount {
                    corrected,
                    aggregate,
                    count: 0,
                })
                .to_vec(),
            rows: Some(RemappedRows::default()),
            temperature: Some(temperature(index)),
            memory_temperature: Some(temperature(index) + MEMORY_WARMER),
            clock_events: Some(IDLE),
            pcie_replays: Some(0),
            ..Sample::default()
        })
    }

    fn usage(&self, index: u32) -> Result<(Usage, Vec<CallFailure>), DriverError> {
        let usage = Usage {
            clocks: vec![("sm", 345e6), ("memory", 2619e6)],
            utilization: vec![("gpu", 0.0), ("memory", 0.0)],
            memory: Some(Memory {
                total: MEMORY,
                used: 0,
                free: MEMORY,
                reserved: Some(0),
            }),
            power: Some(70.0 + f64::from(index % 5)),
            processes: vec![("compute", 0), ("graphics", 0)],
            ..Usage::default()
        };
        Ok((usage, Vec::new()))
    }

    fn links(&self, _: u32) -> Result<(Links, Vec<CallFailure>), DriverError> {
        let links = Links {
            links: (0..LINKS).map(link).collect(),
            ..Links::default()
        };
        Ok((links, Vec::new()))
    }

    fn details(&self, _: u32) -> Result<(Details, Vec<CallFailure>), DriverError> {
        let details = Details {
            temperature_limits: vec![("shutdown", 92), ("slowdown", 89)],
            power_limits: vec![("enforced", 700.0), ("default", 700.0)],
            persistence: Some(true),
            ecc_mode: Some((true, true)),
            mig_mode: Some((false, false)),
            ..Details::default()
        };
        Ok((details, Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_gpus_are_the_same_and_each_stays_itself() {
        let mut uuids = BTreeSet::new();
        for node in ["node-1", "node-2"] {
            let driver = SimulatedGpus::new(8, node);
            let places: BTreeSet<_> = (0..8)
                .map(|index| driver.identity(index).unwrap().pci)
                .collect();
            assert_eq!(places.len(), 8);
            uuids.extend((0..8).map(|index| driver.identity(index).unwrap().uuid));
        }
        assert_eq!(uuids.len(), 16);
        let again = SimulatedGpus::new(8, "node-1").identity(3).unwrap();
        assert!(uuids.contains(&again.uuid));
    }
}
