//! MIG: the instances that a GPU is divided into.

use super::{Reader, load};
use crate::nvml::sample::Instance;
use crate::nvml::{DriverError, raw};
use nvml_wrapper::error::NvmlError;

impl Reader<'_> {
    pub(super) fn mig_instances(&mut self) -> Result<Vec<Instance>, DriverError> {
        let mode = self
            .readings
            .take("nvmlDeviceGetMigMode", self.device.mig_mode())?;
        if mode.is_none_or(|mode| mode.current == 0) {
            return Ok(Vec::new());
        }
        let most = self.readings.take(
            "nvmlDeviceGetMaxMigDeviceCount",
            self.device.mig_device_count(),
        )?;
        let mut instances = Vec::new();
        for place in 0..most.unwrap_or(0) {
            let instance = match self.device.mig_device_by_index(place) {
                // A place without an instance.
                Err(NvmlError::NotFound | NvmlError::InvalidArg) => continue,
                other => other,
            };
            let call = "nvmlDeviceGetMigDeviceHandleByIndex";
            let Some(instance) = self.readings.take(call, instance)? else {
                continue;
            };
            let Some(uuid) = self.readings.take("nvmlDeviceGetUUID", instance.uuid())? else {
                continue;
            };
            let name = self.readings.take("nvmlDeviceGetName", instance.name())?;
            let info = self
                .readings
                .take("nvmlDeviceGetMemoryInfo_v2", instance.memory_info())?;
            instances.push(Instance {
                uuid,
                gpu_instance: self.readings.take(
                    "nvmlDeviceGetGpuInstanceId",
                    raw::gpu_instance(self.nvml, &instance),
                )?,
                compute_instance: self.readings.take(
                    "nvmlDeviceGetComputeInstanceId",
                    raw::compute_instance(self.nvml, &instance),
                )?,
                profile: name.as_deref().and_then(profile).map(str::to_owned),
                memory: info.map(|info| load::memory(&info, false)),
            });
        }
        Ok(instances)
    }
}

/// The profile in an instance's name: `1g.10gb` of `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
fn profile(name: &str) -> Option<&str> {
    let (_, profile) = name.rsplit_once("MIG ")?;
    Some(profile.trim()).filter(|profile| !profile.is_empty())
}

#[cfg(test)]
mod tests {
    use super::profile;

    #[test]
    fn a_profile_is_the_end_of_a_name() {
        let name = "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb";
        assert_eq!(profile(name), Some("1c.3g.40gb"));
        assert_eq!(profile("NVIDIA H100 80GB HBM3"), None);
    }
}
