//! What the GPU is doing, and between which limits.

use super::Reader;
use crate::nvml::DriverError;
use crate::nvml::sample::{Details, Memory, Usage};
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::struct_wrappers::device::MemoryInfo;

const CLOCKS: [(&str, Clock); 4] = [
    ("graphics", Clock::Graphics),
    ("sm", Clock::SM),
    ("memory", Clock::Memory),
    ("video", Clock::Video),
];

fn hertz(megahertz: u32) -> f64 {
    f64::from(megahertz) * 1e6
}

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1e3
}

fn ratio(percent: u32) -> f64 {
    f64::from(percent) / 100.0
}

pub(super) fn memory(info: &MemoryInfo, reserved: bool) -> Memory {
    Memory {
        total: info.total,
        used: info.used,
        free: info.free,
        reserved: reserved.then_some(info.reserved),
    }
}

impl Reader<'_> {
    pub(super) fn load(&mut self, usage: &mut Usage) -> Result<(), DriverError> {
        for (label, domain) in CLOCKS {
            let clock = self.device.clock_info(domain);
            self.push(
                &mut usage.clocks,
                label,
                "nvmlDeviceGetClockInfo",
                clock,
                hertz,
            )?;
        }
        let rates = self.readings.take(
            "nvmlDeviceGetUtilizationRates",
            self.device.utilization_rates(),
        )?;
        if let Some(rates) = rates {
            usage.utilization = vec![("gpu", ratio(rates.gpu)), ("memory", ratio(rates.memory))];
        }
        for (label, call, result) in [
            (
                "encoder",
                "nvmlDeviceGetEncoderUtilization",
                self.device.encoder_utilization(),
            ),
            (
                "decoder",
                "nvmlDeviceGetDecoderUtilization",
                self.device.decoder_utilization(),
            ),
        ] {
            let list = &mut usage.utilization;
            self.push(list, label, call, result, |busy| ratio(busy.utilization))?;
        }
        let info = self
            .readings
            .take("nvmlDeviceGetMemoryInfo_v2", self.device.memory_info())?;
        usage.memory = info.map(|info| memory(&info, true));
        let bar1 = self.readings.take(
            "nvmlDeviceGetBAR1MemoryInfo",
            self.device.bar1_memory_info(),
        )?;
        usage.bar1 = bar1.map(|bar1| (bar1.used, bar1.total));
        let power = self
            .readings
            .take("nvmlDeviceGetPowerUsage", self.device.power_usage())?;
        usage.power = power.map(watts);
        let energy = self.readings.take(
            "nvmlDeviceGetTotalEnergyConsumption",
            self.device.total_energy_consumption(),
        )?;
        usage.energy = energy.map(|millijoules| millijoules as f64 / 1e3);
        for (label, call, result) in [
            (
                "compute",
                "nvmlDeviceGetComputeRunningProcesses_v3",
                self.device.running_compute_processes_count(),
            ),
            (
                "graphics",
                "nvmlDeviceGetGraphicsRunningProcesses_v3",
                self.device.running_graphics_processes_count(),
            ),
        ] {
            self.push(&mut usage.processes, label, call, result, |count| count)?;
        }
        usage.pcie_generation = self.readings.take(
            "nvmlDeviceGetCurrPcieLinkGeneration",
            self.device.current_pcie_link_gen(),
        )?;
        usage.pcie_width = self.readings.take(
            "nvmlDeviceGetCurrPcieLinkWidth",
            self.device.current_pcie_link_width(),
        )?;
        Ok(())
    }

    pub(super) fn limits(&mut self, details: &mut Details) -> Result<(), DriverError> {
        self.temperature_limits(details)?;
        for (label, call, result) in [
            (
                "enforced",
                "nvmlDeviceGetEnforcedPowerLimit",
                self.device.enforced_power_limit(),
            ),
            (
                "configured",
                "nvmlDeviceGetPowerManagementLimit",
                self.device.power_management_limit(),
            ),
            (
                "default",
                "nvmlDeviceGetPowerManagementDefaultLimit",
                self.device.power_management_limit_default(),
            ),
        ] {
            self.push(&mut details.power_limits, label, call, result, watts)?;
        }
        let between = self.readings.take(
            "nvmlDeviceGetPowerManagementLimitConstraints",
            self.device.power_management_limit_constraints(),
        )?;
        if let Some(between) = between {
            let limits = [("min", between.min_limit), ("max", between.max_limit)];
            let limits = limits.map(|(label, limit)| (label, watts(limit)));
            details.power_limits.extend(limits);
        }
        details.pcie_generation_max = self.readings.take(
            "nvmlDeviceGetMaxPcieLinkGeneration",
            self.device.max_pcie_link_gen(),
        )?;
        details.pcie_width_max = self.readings.take(
            "nvmlDeviceGetMaxPcieLinkWidth",
            self.device.max_pcie_link_width(),
        )?;
        Ok(())
    }

    pub(super) fn modes(&mut self, details: &mut Details) -> Result<(), DriverError> {
        details.persistence = self.readings.take(
            "nvmlDeviceGetPersistenceMode",
            self.device.is_in_persistent_mode(),
        )?;
        let ecc = self
            .readings
            .take("nvmlDeviceGetEccMode", self.device.is_ecc_enabled())?;
        details.ecc_mode = ecc.map(|ecc| (ecc.currently_enabled, ecc.pending_enabled));
        let mig = self
            .readings
            .take("nvmlDeviceGetMigMode", self.device.mig_mode())?;
        details.mig_mode = mig.map(|mig| (mig.current != 0, mig.pending != 0));
        Ok(())
    }
}
