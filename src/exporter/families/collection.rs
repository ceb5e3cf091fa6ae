//! How the asking itself goes.

use super::family::families;
use super::{Page, one};
use crate::exporter::series::write;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    HUNG: Gauge "gpu_collect_hung" of Gpu {},
        "Whether a driver call for this GPU takes longer than the call deadline.",
        from "the exporter",
        example "gpu_collect_hung == 1";
    SUCCESS: Gauge "gpu_exporter_collector_success" of Gpu { collector: "`nvml`; `pod_resources`, which is of the node" },
        "Whether the last collection succeeded and is not too old.",
        from "the exporter",
        example "gpu_exporter_collector_success == 0";
    DURATION: Gauge "gpu_exporter_collector_duration_seconds" of Gpu { collector: "`nvml`; `pod_resources`, which is of the node" },
        "How long the last collection took.",
        from "the exporter",
        example "max by (node) (gpu_exporter_collector_duration_seconds)";
    LAST_SUCCESS: Gauge "gpu_exporter_collector_last_success_timestamp_seconds" of Gpu { collector: "`nvml`; `pod_resources`, which is of the node" },
        "When a collection last succeeded.",
        from "the exporter",
        example "time() - gpu_exporter_collector_last_success_timestamp_seconds > 60";
    NVML_ERRORS: Counter "gpu_nvml_errors_total" of Gpu { call: "the function", code: "its error" },
        "Driver calls that failed, other than for not being supported.",
        from "every call for the GPU",
        example "sum by (call, code) (increase(gpu_nvml_errors_total[1h])) > 0";
}

const COLLECTOR: &str = "nvml";
const POD_RESOURCES: &str = "pod_resources";

impl Page<'_> {
    pub(in crate::exporter) fn collection(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let hung = self.gpus.iter().map(|shown| {
            let hung = self.state.is_hung(shown.gpu, self.now);
            (&shown.row, [], one(hung))
        });
        let nameless = self
            .nameless
            .iter()
            .map(|(index, _, row)| (row, [], one(self.state.is_index_hung(*index, self.now))));
        write(encoder, &HUNG, hung.chain(nameless))?;
        let kubelet = self.state.kubelet.as_ref();
        let of_kubelet = |value: f64| (&self.row, [POD_RESOURCES], value);
        let successes =
            (self.gpus.iter()).map(|shown| (&shown.row, [COLLECTOR], one(shown.sample.is_some())));
        let success = kubelet.and_then(|kubelet| kubelet.success(self.now));
        let successes = successes.chain(success.map(|success| of_kubelet(one(success))));
        write(encoder, &SUCCESS, successes)?;
        let durations = self.gpus.iter().filter_map(|shown| {
            let (_, took) = shown.gpu.asked?;
            Some((&shown.row, [COLLECTOR], took.as_secs_f64()))
        });
        let took = kubelet.and_then(|kubelet| kubelet.took());
        let durations = durations.chain(took.map(|took| of_kubelet(took.as_secs_f64())));
        write(encoder, &DURATION, durations)?;
        let times = self.gpus.iter().filter_map(|shown| {
            let at = shown.gpu.last_success?;
            Some((&shown.row, [COLLECTOR], at.as_duration().as_secs_f64()))
        });
        let last = kubelet.and_then(|kubelet| kubelet.last_success);
        let times = times.chain(last.map(|at| of_kubelet(at.as_duration().as_secs_f64())));
        write(encoder, &LAST_SUCCESS, times)?;
        let failures = self.gpus.iter().flat_map(|shown| {
            (shown.gpu.failures.iter())
                .map(move |((call, code), count)| (&shown.row, [*call, *code], *count))
        });
        write(encoder, &NVML_ERRORS, failures)
    }
}
