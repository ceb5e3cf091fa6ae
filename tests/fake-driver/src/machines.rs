//! Six machines as they are met in the field: what their drivers and GPUs support, and what they do not.

use std::collections::BTreeMap;

use crate::readings::{
    ClockEvents, Fabric, Instance, LinkErrors, Links, Memory, Mode, Pcie, Readings, RemappedRows,
    RetiredPages, Sram,
};
use crate::scenario::{DriverState, Ecc, EccCounts, Gpu, Scenario};

const GIB: u64 = 1 << 30;
const ON: Mode = Mode {
    current: true,
    pending: true,
};
const OFF: Mode = Mode {
    current: false,
    pending: false,
};

/// Xid events and what older drivers have beside them.
const EVENTS_BEFORE_570: u64 = 0x19f;
/// With those about memory, poison, an unavailable GPU and the recovery action.
const EVENTS_SINCE_570: u64 = 0xff9f;

/// A machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// Eight A100, with a driver that knows no recovery action.
    A100,
    /// Eight H100 behind NVSwitches.
    H100,
    /// Eight B200, with a driver that has renumbered its fields.
    B200,
    /// One T4: pages are retired, no rows are remapped, and there is no NVLink.
    T4,
    /// Two H100, the first of them divided.
    Mig,
    /// The library without its kernel driver.
    NoDriver,
}

impl Machine {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::A100,
        Self::H100,
        Self::B200,
        Self::T4,
        Self::Mig,
        Self::NoDriver,
    ];

    /// A short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::A100 => "a100",
            Self::H100 => "h100",
            Self::B200 => "b200",
            Self::T4 => "t4",
            Self::Mig => "mig",
            Self::NoDriver => "no_driver",
        }
    }

    /// What its driver answers while all is well.
    #[must_use]
    pub fn scenario(self) -> Scenario {
        let (version, gpus) = match self {
            Self::A100 => ("535.216.01", gpus(8, a100)),
            Self::H100 => ("570.124.06", gpus(8, h100)),
            Self::B200 => ("580.95.05", gpus(8, b200)),
            Self::T4 => ("535.216.01", gpus(1, t4)),
            Self::Mig => ("570.124.06", gpus(2, mig)),
            Self::NoDriver => ("570.124.06", Vec::new()),
        };
        Scenario {
            driver: match self {
                Self::NoDriver => DriverState::NotLoaded,
                _ => DriverState::Loaded,
            },
            driver_version: version.to_owned(),
            gpus,
            ..Scenario::default()
        }
    }
}

fn gpus(count: u32, change: impl Fn(u32, &mut Gpu)) -> Vec<Gpu> {
    let all = (0..count).map(|index| {
        let mut gpu = Gpu::healthy(index);
        change(index, &mut gpu);
        gpu
    });
    all.collect()
}

fn locations(names: &[&str]) -> BTreeMap<String, Ecc> {
    let counts = Ecc {
        corrected: EccCounts {
            volatile: 0,
            aggregate: 3,
        },
        ..Ecc::default()
    };
    names
        .iter()
        .map(|name| ((*name).to_owned(), counts))
        .collect()
}

/// What a GPU with 80 GiB and PCIe 4 that is busy with a training job says.
fn busy() -> Readings {
    Readings {
        memory_temperature: Some(52),
        ecc_locations: locations(&["device_memory", "sram"]),
        ecc_mode: Some(ON),
        remapped_rows: Some(RemappedRows::default()),
        row_banks: Some([640, 0, 0, 0, 0]),
        clock_events: Some(ClockEvents {
            active: 0x4,
            supported: 0x1ff,
        }),
        throttled: Some([86_400_000_000_000, 0, 1_500_000_000, 0, 0]),
        clocks: Some([1410, 1410, 1593, 1275]),
        pcie: Some(Pcie {
            replays: 2,
            generation: [4, 4],
            width: [16, 16],
        }),
        power: Some(391_250),
        power_limits: Some([400_000, 400_000, 400_000, 100_000, 400_000]),
        energy: Some(1_234_567_890),
        utilization: Some([97, 41, 0, 0]),
        memory: Some(Memory {
            total: 80 * GIB,
            reserved: GIB / 2,
            used: 61 * GIB,
        }),
        bar1: Some([128 * GIB, GIB / 1024]),
        processes: Some([1, 0]),
        persistence: Some(true),
        mig_mode: Some(OFF),
        ..Readings::default()
    }
}

fn a100(_: u32, gpu: &mut Gpu) {
    gpu.name = "NVIDIA A100-SXM4-80GB".to_owned();
    gpu.recovery_action = None;
    gpu.readings = Readings {
        temperature_limits: Some([92, 89, 95, 85]),
        links: Some(Links {
            count: 12,
            speed: 25_000,
            peer: 2,
            told_by: LinkErrors::Counters,
            kibibytes: [1 << 20, 1 << 20],
            ..Links::default()
        }),
        events_supported: Some(EVENTS_BEFORE_570),
        ..busy()
    };
    gpu.absent = [
        "nvmlDeviceGetSramEccErrorStatus",
        "nvmlDeviceGetMarginTemperature",
        "nvmlDeviceGetGpuFabricInfoV",
    ]
    .map(str::to_owned)
    .to_vec();
}

fn h100(_: u32, gpu: &mut Gpu) {
    gpu.readings = Readings {
        sram: Some(Sram::default()),
        temperature_limits: Some([92, 89, 95, 87]),
        temperature_margin: Some(46),
        margin_limits: Some([-8, -2, 0, 0]),
        clocks: Some([1980, 1980, 2619, 1545]),
        pcie: Some(Pcie {
            replays: 0,
            generation: [5, 5],
            width: [16, 16],
        }),
        power: Some(652_400),
        power_limits: Some([700_000, 700_000, 700_000, 200_000, 700_000]),
        links: Some(Links {
            count: 18,
            speed: 26_562,
            peer: 2,
            told_by: LinkErrors::Fields,
            kibibytes: [7 << 20, 7 << 20],
            ..Links::default()
        }),
        fabric: Some(Fabric {
            state: 3,
            status: 0,
            health_mask: 0x2,
        }),
        events_supported: Some(EVENTS_SINCE_570),
        ..busy()
    };
}

fn b200(index: u32, gpu: &mut Gpu) {
    h100(index, gpu);
    gpu.name = "NVIDIA B200".to_owned();
    let readings = &mut gpu.readings;
    readings.temperature_limits = None;
    readings.power_limits = Some([1_000_000, 1_000_000, 1_000_000, 200_000, 1_000_000]);
    readings.memory = Some(Memory {
        total: 180 * GIB,
        reserved: GIB / 2,
        used: 150 * GIB,
    });
    if let Some(links) = &mut readings.links {
        links.speed = 53_125;
        links.told_by = LinkErrors::Blackwell;
    }
    if let Some(fabric) = &mut readings.fabric {
        // No for each question, and the configuration is right.
        fabric.health_mask = 0x1aa;
    }
}

fn t4(_: u32, gpu: &mut Gpu) {
    gpu.name = "Tesla T4".to_owned();
    gpu.recovery_action = None;
    gpu.readings = Readings {
        memory_temperature: None,
        ecc_locations: locations(&["device_memory", "register_file", "l1_cache", "l2_cache"]),
        remapped_rows: None,
        row_banks: None,
        retired_pages: Some(RetiredPages {
            single_bit: 1,
            double_bit: 0,
            pending: false,
        }),
        temperature_limits: Some([96, 93, 0, 85]),
        clocks: Some([1590, 1590, 5000, 1470]),
        pcie: Some(Pcie {
            replays: 0,
            generation: [3, 3],
            width: [16, 16],
        }),
        power: Some(68_900),
        power_limits: Some([70_000, 70_000, 70_000, 60_000, 70_000]),
        memory: Some(Memory {
            total: 15 * GIB,
            reserved: GIB / 4,
            used: 2 * GIB,
        }),
        bar1: Some([GIB / 4, GIB / 1024]),
        mig_mode: None,
        events_supported: Some(EVENTS_BEFORE_570),
        ..busy()
    };
    gpu.absent = [
        "nvmlDeviceGetSramEccErrorStatus",
        "nvmlDeviceGetMarginTemperature",
        "nvmlDeviceGetGpuFabricInfoV",
    ]
    .map(str::to_owned)
    .to_vec();
}

fn mig(index: u32, gpu: &mut Gpu) {
    h100(index, gpu);
    gpu.readings.mig_mode = Some(OFF);
    if index != 0 {
        return;
    }
    gpu.readings.mig_mode = Some(ON);
    // A divided GPU has no utilisation as a whole, and tells nothing of its rows.
    gpu.readings.utilization = None;
    gpu.readings.instances = [("1g.10gb", 9, 9), ("3g.40gb", 2, 39)]
        .into_iter()
        .map(|(profile, gpu_instance, gib)| Instance {
            uuid: format!("MIG-{gpu_instance:08x}-0000-5000-8000-0000000000f0"),
            profile: profile.to_owned(),
            gpu_instance,
            compute_instance: 0,
            memory: Memory {
                total: gib * GIB,
                reserved: 0,
                used: GIB,
            },
        })
        .collect();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// `bench/exporter/world.py` gives it an identity and repeats it.
    #[test]
    fn the_gpu_of_the_benchmark_is_this_h100() {
        let text = include_str!("../../../bench/exporter/h100.json");
        for gpu in Machine::H100.scenario().gpus {
            let identity = format!(
                r#"{{"uuid": "{}", "pci_bus_id": "{}", "serial": "{}","#,
                gpu.uuid,
                gpu.pci_bus_id,
                gpu.serial.as_deref().unwrap()
            );
            let whole = text.replacen('{', &identity, 1);
            assert_eq!(serde_saphyr::from_str::<Gpu>(&whole).unwrap(), gpu);
        }
    }
}
