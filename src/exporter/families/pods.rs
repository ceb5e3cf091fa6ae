//! Who holds a GPU, as the kubelet says.

use super::Page;
use super::family::families;
use crate::exporter::pod_info::{KnownGpu, holdings};
use crate::exporter::series::write;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    INFO: Gauge "gpu_pod_info" of Node { gpu: "its index", UUID: "", GPU_I_ID: "of a MIG instance", namespace: "", pod: "", container: "", device_id: "what the kubelet calls it, where that does not tell which GPU it is" },
        "Always 1; a container that holds this GPU, as the kubelet says.",
        from "PodResources List",
        example "gpu_pod_info * on (node, UUID) group_left (modelName) (gpu_recovery_action > 0)";
    ERRORS: Counter "gpu_exporter_pod_resources_errors_total" of Node { code: "`no_socket`, `connection`, `deadline_exceeded`, `bad_answer`, or a status of gRPC such as `unimplemented`" },
        "Failed attempts to learn from the kubelet which pods hold GPUs; a code is there once it has occurred.",
        from "PodResources List",
        example "sum by (node, code) (increase(gpu_exporter_pod_resources_errors_total[1h])) > 0";
}

impl Page<'_> {
    pub(in crate::exporter) fn pods(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(kubelet) = &self.state.kubelet else {
            return Ok(());
        };
        let gpus: Vec<_> = self.state.gpus.values().map(KnownGpu::from).collect();
        let holdings = holdings(kubelet.pods(self.now), &gpus);
        let rows: Vec<_> = holdings.iter().map(|holding| holding.labels()).collect();
        let rows = rows.iter().map(|labels| {
            let labels = labels.each_ref().map(AsRef::as_ref);
            (&self.row, labels, 1.0)
        });
        write(encoder, &INFO, rows)?;
        let failures = kubelet.failures.iter();
        let failures = failures.map(|(code, count)| (&self.row, [*code], *count));
        write(encoder, &ERRORS, failures)
    }
}
