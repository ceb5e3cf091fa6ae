//! What a GPU is doing, and between which limits.

use super::family::families;
use super::{Page, each};
use crate::exporter::series::{Row, write};
use crate::nvml::Memory;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    UTILIZATION: Gauge "gpu_utilization_ratio" of Gpu { engine: "`gpu`, `memory`, `encoder`, `decoder`" },
        "Share of the time that this engine was busy, 0 to 1.",
        from "nvmlDeviceGetUtilizationRates, nvmlDeviceGetEncoderUtilization, nvmlDeviceGetDecoderUtilization",
        example "avg by (node) (gpu_utilization_ratio{engine=\"gpu\"})";
    CLOCK: Gauge "gpu_clock_hertz" of Gpu { clock: "`graphics`, `sm`, `memory`, `video`" },
        "Frequency of this clock.",
        from "nvmlDeviceGetClockInfo",
        example "gpu_clock_hertz{clock=\"sm\"} / 1e6";
    MEMORY_TOTAL: Gauge "gpu_memory_total_bytes" of Gpu {},
        "Memory of this GPU.",
        from "nvmlDeviceGetMemoryInfo_v2",
        example "sum by (modelName) (gpu_memory_total_bytes)";
    MEMORY_USED: Gauge "gpu_memory_used_bytes" of Gpu {},
        "Memory that is allocated.",
        from "nvmlDeviceGetMemoryInfo_v2",
        example "gpu_memory_used_bytes / gpu_memory_total_bytes > 0.95";
    MEMORY_FREE: Gauge "gpu_memory_free_bytes" of Gpu {},
        "Memory that is neither allocated nor reserved.",
        from "nvmlDeviceGetMemoryInfo_v2",
        example "topk(5, gpu_memory_free_bytes)";
    MEMORY_RESERVED: Gauge "gpu_memory_reserved_bytes" of Gpu {},
        "Memory that the driver and the firmware keep.",
        from "nvmlDeviceGetMemoryInfo_v2",
        example "gpu_memory_reserved_bytes";
    BAR1_TOTAL: Gauge "gpu_bar1_memory_total_bytes" of Gpu {},
        "Memory that the processor can reach over PCIe at once.",
        from "nvmlDeviceGetBAR1MemoryInfo",
        example "gpu_bar1_memory_total_bytes";
    BAR1_USED: Gauge "gpu_bar1_memory_used_bytes" of Gpu {},
        "Of it, what is in use.",
        from "nvmlDeviceGetBAR1MemoryInfo",
        example "gpu_bar1_memory_used_bytes / gpu_bar1_memory_total_bytes > 0.9";
    POWER: Gauge "gpu_power_watts" of Gpu {},
        "Power that the board draws.",
        from "nvmlDeviceGetPowerUsage",
        example "sum by (node) (gpu_power_watts)";
    POWER_LIMIT: Gauge "gpu_power_limit_watts" of Gpu { limit: "`enforced`, `configured`, `default`, `min`, `max`" },
        "Limit of the power: the one in force, the one that was asked for, the board's own, and what may be asked for.",
        from "nvmlDeviceGetEnforcedPowerLimit, nvmlDeviceGetPowerManagementLimit, nvmlDeviceGetPowerManagementDefaultLimit, nvmlDeviceGetPowerManagementLimitConstraints",
        example "gpu_power_limit_watts{limit=\"enforced\"} < on (node, UUID) group_left () gpu_power_limit_watts{limit=\"default\"}";
    ENERGY: Counter "gpu_energy_joules_total" of Gpu {},
        "Energy that the board has taken since the driver was loaded.",
        from "nvmlDeviceGetTotalEnergyConsumption",
        example "sum by (node) (increase(gpu_energy_joules_total[1d])) / 3.6e6";
    PROCESSES: Gauge "gpu_processes" of Gpu { type: "`compute`, `graphics`" },
        "Processes that use this GPU.",
        from "nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3",
        example "sum by (node, gpu) (gpu_processes) == 0 and on (node, gpu) gpu_memory_used_bytes > 1e9";
    PCIE_REPLAYS: Counter "gpu_pcie_replays_total" of Gpu {},
        "PCIe packets that were sent again, since the driver was loaded.",
        from "nvmlDeviceGetPcieReplayCounter",
        example "increase(gpu_pcie_replays_total[1m]) > 8";
    PCIE_GENERATION: Gauge "gpu_pcie_link_generation" of Gpu {},
        "PCIe generation in use; it is low while the GPU is idle.",
        from "nvmlDeviceGetCurrPcieLinkGeneration",
        example "gpu_pcie_link_generation < gpu_pcie_link_generation_max and on (node, UUID) gpu_utilization_ratio{engine=\"gpu\"} > 0.5";
    PCIE_GENERATION_MAX: Gauge "gpu_pcie_link_generation_max" of Gpu {},
        "The highest PCIe generation that GPU and system have in common.",
        from "nvmlDeviceGetMaxPcieLinkGeneration",
        example "gpu_pcie_link_generation_max";
    PCIE_WIDTH: Gauge "gpu_pcie_link_width" of Gpu {},
        "PCIe lanes in use.",
        from "nvmlDeviceGetCurrPcieLinkWidth",
        example "gpu_pcie_link_width < gpu_pcie_link_width_max";
    PCIE_WIDTH_MAX: Gauge "gpu_pcie_link_width_max" of Gpu {},
        "The most PCIe lanes that GPU and system have in common.",
        from "nvmlDeviceGetMaxPcieLinkWidth",
        example "gpu_pcie_link_width_max";
}

impl Page<'_> {
    pub(in crate::exporter) fn load(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let busy = self
            .usage()
            .flat_map(|(row, usage)| each(row, &usage.utilization, |share| share));
        write(encoder, &UTILIZATION, busy)?;
        let clocks = self
            .usage()
            .flat_map(|(row, usage)| each(row, &usage.clocks, |hertz| hertz));
        write(encoder, &CLOCK, clocks)?;
        self.memory_use(encoder)?;
        let power = self
            .usage()
            .filter_map(|(row, usage)| Some((row, [], usage.power?)));
        write(encoder, &POWER, power)?;
        let limits = self
            .details()
            .flat_map(|(row, details)| each(row, &details.power_limits, |watts| watts));
        write(encoder, &POWER_LIMIT, limits)?;
        let energy = self
            .usage()
            .filter_map(|(row, usage)| Some((row, [], usage.energy?)));
        write(encoder, &ENERGY, energy)?;
        let processes = self
            .usage()
            .flat_map(|(row, usage)| each(row, &usage.processes, f64::from));
        write(encoder, &PROCESSES, processes)?;
        self.pcie(encoder)
    }

    fn memory_use(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let memory = || (self.usage()).filter_map(|(row, usage)| Some((row, usage.memory?)));
        let bytes = |family, of: fn(Memory) -> Option<u64>, encoder: &mut _| {
            let bytes = memory().filter_map(|(row, memory)| Some((row, [], of(memory)? as f64)));
            write(encoder, family, bytes)
        };
        bytes(&MEMORY_TOTAL, |memory| Some(memory.total), encoder)?;
        bytes(&MEMORY_USED, |memory| Some(memory.used), encoder)?;
        bytes(&MEMORY_FREE, |memory| Some(memory.free), encoder)?;
        bytes(&MEMORY_RESERVED, |memory| memory.reserved, encoder)?;
        let bar1 = || (self.usage()).filter_map(|(row, usage)| Some((row, usage.bar1?)));
        let total = bar1().map(|(row, (_, total))| (row, [], total as f64));
        write(encoder, &BAR1_TOTAL, total)?;
        let used = bar1().map(|(row, (used, _))| (row, [], used as f64));
        write(encoder, &BAR1_USED, used)
    }

    fn pcie(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let replays = self
            .samples()
            .filter_map(|(row, sample)| Some((row, [], u64::from(sample.pcie_replays?))));
        write(encoder, &PCIE_REPLAYS, replays)?;
        fn some(row: &Row, value: Option<u32>) -> Option<(&Row, [&str; 0], f64)> {
            Some((row, [], f64::from(value?)))
        }
        let now = self
            .usage()
            .filter_map(|(row, usage)| some(row, usage.pcie_generation));
        write(encoder, &PCIE_GENERATION, now)?;
        let most = self
            .details()
            .filter_map(|(row, details)| some(row, details.pcie_generation_max));
        write(encoder, &PCIE_GENERATION_MAX, most)?;
        let now = self
            .usage()
            .filter_map(|(row, usage)| some(row, usage.pcie_width));
        write(encoder, &PCIE_WIDTH, now)?;
        let most = self
            .details()
            .filter_map(|(row, details)| some(row, details.pcie_width_max));
        write(encoder, &PCIE_WIDTH_MAX, most)
    }
}
