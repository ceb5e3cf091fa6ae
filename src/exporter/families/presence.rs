//! How many GPUs there are, and should be.

use super::family::families;
use super::{Page, one};
use crate::exporter::series::write;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    EXPECTED: Gauge "gpu_expected" of Node {},
        "GPUs that there should be: as configured, else the most that the driver has had or the kernel has seen, without those that were given to another driver since.",
        from "--expected-gpus, nvmlDeviceGetCount_v2, sysfs",
        example "gpu_present < gpu_expected";
    PRESENT: Gauge "gpu_present" of Node {},
        "GPUs that the driver has; absent while it does not answer.",
        from "nvmlDeviceGetCount_v2",
        example "gpu_present < gpu_present offset 1d";
    ON_BUS: Gauge "gpu_on_bus" of Node { pci_bus_id: "" },
        "Always 1; the GPUs that the kernel sees on the PCI bus and has given to no other driver.",
        from "sysfs: vendor, class, driver",
        example "gpu_on_bus unless on (node, pci_bus_id) gpu_up == 1";
    RELEASED: Gauge "gpu_exporter_released" of Node {},
        "Whether nobody holds the driver any more, as requested, so that a GPU can be reset; gpu_up and gpu_driver_up are absent from the request on.",
        from "POST /release, SIGUSR1",
        example "gpu_exporter_released == 1";
}

impl Page<'_> {
    pub(in crate::exporter) fn presence(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (row, state) = (&self.row, self.state);
        let expected = state.presence.expected().map(f64::from);
        write(
            encoder,
            &EXPECTED,
            expected.map(|expected| (row, [], expected)),
        )?;
        let answers = state.driver_error(self.now).is_none() && !state.is_left_alone();
        let present = answers.then(|| f64::from(state.driver.gpu_count));
        write(encoder, &PRESENT, present.map(|count| (row, [], count)))?;
        let on_bus: Vec<String> = state.presence.on_bus().map(|pci| pci.bus_id()).collect();
        let on_bus = on_bus.iter().map(|pci| (row, [pci.as_str()], 1.0));
        write(encoder, &ON_BUS, on_bus)?;
        write(encoder, &RELEASED, [(row, [], one(state.is_released()))])
    }
}
