//! The driver as a whole.

use super::family::families;
use super::{Page, one};
use crate::exporter::series::write;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    UP: Gauge "gpu_driver_up" of Node {},
        "Whether the driver answers: 1 it does, 0 it does not.",
        from "nvmlInit_v2, nvmlDeviceGetCount_v2",
        example "gpu_driver_up == 0";
    ERROR: Gauge "gpu_driver_error" of Node { code: "`library_not_found`, `hung`, `not_asked`, or an NVML error" },
        "Always 1; present while the driver does not answer, with the reason as a label.",
        from "nvmlInit_v2, nvmlDeviceGetCount_v2",
        example "count by (code) (gpu_driver_error)";
    INFO: Gauge "gpu_driver_info" of Node { driver_version: "", cuda_version: "" },
        "Always 1; the version of the driver and the newest CUDA version that it supports, as labels.",
        from "nvmlSystemGetDriverVersion, nvmlSystemGetCudaDriverVersion_v2",
        example "count by (driver_version) (gpu_driver_info)";
}

impl Page<'_> {
    pub(in crate::exporter) fn driver(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        // Nobody asks it then.
        if self.state.is_left_alone() {
            return Ok(());
        }
        let error = self.state.driver_error(self.now);
        let (row, driver) = (&self.row, &self.state.driver);
        write(encoder, &UP, [(row, [], one(error.is_none()))])?;
        write(encoder, &ERROR, error.map(|code| (row, [code], 1.0)))?;
        let versions = driver.version.as_deref().filter(|_| error.is_none());
        let cuda = driver.cuda_version.as_deref().unwrap_or_default();
        write(
            encoder,
            &INFO,
            versions.map(|version| (row, [version, cuda], 1.0)),
        )
    }
}
