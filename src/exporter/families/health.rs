//! Whether a GPU is there, who it is, and what it needs.

use super::family::families;
use super::{Page, both, one};
use crate::exporter::series::write;
use crate::exporter::state::Health;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    UP: Gauge "gpu_up" of Gpu {},
        "Whether the driver answers for this GPU: 1 with a fresh good sample, 0 when it is lost, fails or hangs, or when the kernel has seen it and the driver does not have it.",
        from "every call for the GPU",
        example "gpu_up == 0";
    LOST: Gauge "gpu_lost" of Gpu {},
        "Whether this GPU is lost: the driver says so, or that it must be reset, or no longer has it.",
        from "NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED, nvmlDeviceGetCount_v2",
        example "gpu_lost == 1";
    INFO: Gauge "gpu_info" of Gpu { driver_version: "", serial: "", vbios_version: "" },
        "Always 1; what does not change about this GPU, as labels.",
        from "nvmlDeviceGetSerial, nvmlDeviceGetVbiosVersion",
        example "gpu_up * on (node, UUID) group_left (serial) gpu_info";
    RECOVERY_ACTION: Gauge "gpu_recovery_action" of Gpu {},
        "What this GPU needs, as the driver says: 0 nothing, 1 GPU reset, 2 node reboot, 3 drain peer-to-peer, 4 drain and reset, 5 recover IMEX domain, 6 bus reset, 7 system reboot. Where NVML does not tell, what it last told if that was not 0, or the last Xid 154.",
        from "field 230; Xid 154",
        example "gpu_recovery_action > 0";
    PERSISTENCE: Gauge "gpu_persistence_mode" of Gpu {},
        "Whether the driver stays loaded for this GPU without a client: 1 it does.",
        from "nvmlDeviceGetPersistenceMode",
        example "gpu_persistence_mode == 0";
    ECC_MODE: Gauge "gpu_ecc_mode" of Gpu { state: "`current`, `pending`" },
        "Whether ECC is on: now, and after the next reset.",
        from "nvmlDeviceGetEccMode",
        example "gpu_ecc_mode{state=\"current\"} == 0";
    MIG_MODE: Gauge "gpu_mig_mode" of Gpu { state: "`current`, `pending`" },
        "Whether this GPU may be divided into instances: now, and after the next reset.",
        from "nvmlDeviceGetMigMode",
        example "gpu_mig_mode{state=\"current\"} != ignoring (state) gpu_mig_mode{state=\"pending\"}";
}

impl Page<'_> {
    pub(in crate::exporter) fn health(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let asked = !self.state.is_left_alone();
        let up = (self.gpus.iter()).map(|shown| (&shown.row, [], one(shown.sample.is_some())));
        let nameless = self.nameless.iter().map(|(_, _, row)| (row, [], 0.0));
        let unlisted = self.unlisted.iter().map(|row| (row, [], 0.0));
        let up = up.chain(nameless).chain(unlisted).filter(|_| asked);
        write(encoder, &UP, up)?;
        let lost = self.gpus.iter().map(|shown| {
            let lost = shown.gpu.health == Health::Lost || self.state.is_missing(shown.gpu);
            (&shown.row, [], one(lost))
        });
        let nameless = (self.nameless.iter()).map(|(_, lost, row)| (row, [], one(*lost)));
        write(encoder, &LOST, lost.chain(nameless))?;
        let version = self.state.driver.version.as_deref().unwrap_or_default();
        let infos = self.gpus.iter().map(|shown| {
            let identity = &shown.gpu.identity;
            let serial = identity.serial.as_deref().unwrap_or_default();
            let vbios = identity.vbios.as_deref().unwrap_or_default();
            (&shown.row, [version, serial, vbios], 1.0)
        });
        write(encoder, &INFO, infos)?;
        let actions = self.gpus.iter().filter_map(|shown| {
            let action = self.state.recovery_action(shown.gpu, self.now)?;
            Some((&shown.row, [], f64::from(action.0)))
        });
        write(encoder, &RECOVERY_ACTION, actions)?;
        let modes = self
            .details()
            .filter_map(|(row, details)| Some((row, [], one(details.persistence?))));
        write(encoder, &PERSISTENCE, modes)?;
        let modes = self
            .details()
            .filter_map(|(row, details)| Some(both(row, details.ecc_mode?)));
        write(encoder, &ECC_MODE, modes.flatten())?;
        let modes = self
            .details()
            .filter_map(|(row, details)| Some(both(row, details.mig_mode?)));
        write(encoder, &MIG_MODE, modes.flatten())
    }
}
