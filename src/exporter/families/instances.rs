//! MIG instances. The health of a divided GPU stays the GPU's.

use super::Page;
use super::family::families;
use crate::exporter::series::{Row, write};
use crate::nvml::Instance;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    INFO: Gauge "gpu_mig_instance_info" of Gpu { mig_uuid: "", GPU_I_ID: "", GPU_CI_ID: "", GPU_I_PROFILE: "such as `1g.10gb`" },
        "Always 1; the MIG instances of this GPU: their UUID, GPU instance, compute instance and profile, as labels.",
        from "nvmlDeviceGetMigDeviceHandleByIndex, nvmlDeviceGetGpuInstanceId, nvmlDeviceGetComputeInstanceId, nvmlDeviceGetName",
        example "count by (node, GPU_I_PROFILE) (gpu_mig_instance_info)";
    MEMORY_TOTAL: Gauge "gpu_mig_instance_memory_total_bytes" of Gpu { mig_uuid: "", GPU_I_ID: "", GPU_I_PROFILE: "" },
        "Memory of this MIG instance.",
        from "nvmlDeviceGetMemoryInfo_v2",
        example "gpu_mig_instance_memory_total_bytes";
    MEMORY_USED: Gauge "gpu_mig_instance_memory_used_bytes" of Gpu { mig_uuid: "", GPU_I_ID: "", GPU_I_PROFILE: "" },
        "Of it, what is allocated.",
        from "nvmlDeviceGetMemoryInfo_v2",
        example "gpu_mig_instance_memory_used_bytes / gpu_mig_instance_memory_total_bytes > 0.95";
}

struct Shown<'a> {
    row: &'a Row,
    instance: &'a Instance,
    gpu_instance: String,
    compute_instance: String,
    profile: &'a str,
}

impl Page<'_> {
    pub(in crate::exporter) fn instances(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let text = |id: Option<u32>| id.map_or_else(String::new, |id| id.to_string());
        let instances = self.divided().flat_map(|(row, instances)| {
            instances.iter().map(move |instance| Shown {
                row,
                instance,
                gpu_instance: text(instance.gpu_instance),
                compute_instance: text(instance.compute_instance),
                profile: instance.profile.as_deref().unwrap_or_default(),
            })
        });
        let instances: Vec<Shown<'_>> = instances.collect();
        let infos = instances.iter().map(|shown| {
            let labels = [
                shown.instance.uuid.as_str(),
                &shown.gpu_instance,
                &shown.compute_instance,
                shown.profile,
            ];
            (shown.row, labels, 1.0)
        });
        write(encoder, &INFO, infos)?;
        let memory = || {
            instances.iter().filter_map(|shown| {
                let labels = [
                    shown.instance.uuid.as_str(),
                    shown.gpu_instance.as_str(),
                    shown.profile,
                ];
                Some((shown.row, labels, shown.instance.memory?))
            })
        };
        let total = memory().map(|(row, labels, memory)| (row, labels, memory.total as f64));
        write(encoder, &MEMORY_TOTAL, total)?;
        let used = memory().map(|(row, labels, memory)| (row, labels, memory.used as f64));
        write(encoder, &MEMORY_USED, used)
    }
}
