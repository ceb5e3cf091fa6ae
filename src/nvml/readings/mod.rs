//! The readings of one GPU, by subject.

mod instances;
mod links;
mod load;
mod memory;
mod thermal;

use super::errors::Readings;
use super::{CallFailure, Details, DriverError, Instance, Links, Sample, Usage, raw};
use crate::xid::RecoveryAction;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_MEMORY_TEMP,
};
use nvml_wrapper::{Device, Nvml};

const FIELDS: &str = "nvmlDeviceGetFieldValues";

/// Reads one GPU.
pub(super) struct Reader<'a> {
    nvml: &'a Nvml,
    device: Device<'a>,
    readings: Readings,
}

impl<'a> Reader<'a> {
    pub(super) fn new(nvml: &'a Nvml, device: Device<'a>) -> Self {
        Self {
            nvml,
            device,
            readings: Readings::default(),
        }
    }

    /// What tells whether the GPU is healthy.
    pub(super) fn sample(mut self) -> Result<Sample, DriverError> {
        let [action, memory_temperature] =
            self.fields([NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_MEMORY_TEMP])?;
        let sample = Sample {
            recovery_action: action
                .and_then(|number| u32::try_from(number).ok())
                .map(RecoveryAction),
            ecc: self.ecc_errors()?,
            rows: self.remapped_rows()?,
            temperature: self.temperature()?,
            // 0 is what boards without such a sensor say.
            memory_temperature: memory_temperature
                .and_then(|degrees| u32::try_from(degrees).ok())
                .filter(|degrees| *degrees != 0),
            clock_events: self.clock_events()?,
            pcie_replays: self.readings.take(
                "nvmlDeviceGetPcieReplayCounter",
                self.device.pcie_replay_counter(),
            )?,
            ..Sample::default()
        };
        self.readings.finish(sample)
    }

    /// How busy it is.
    pub(super) fn usage(mut self) -> Result<(Usage, Vec<CallFailure>), DriverError> {
        let mut usage = Usage::default();
        self.load(&mut usage)?;
        usage.throttled = self.throttled()?;
        usage.temperature_margin = self.temperature_margin()?;
        usage.sram = self.sram()?;
        Ok((usage, self.readings.into_failures()))
    }

    /// Its NVLinks, and the fabric that they make.
    pub(super) fn links(mut self) -> Result<(Links, Vec<CallFailure>), DriverError> {
        let mut links = Links::default();
        self.link_readings(&mut links)?;
        links.fabric = self.fabric()?;
        Ok((links, self.readings.into_failures()))
    }

    /// What it is divided into.
    pub(super) fn instances(mut self) -> Result<(Vec<Instance>, Vec<CallFailure>), DriverError> {
        let instances = self.mig_instances()?;
        Ok((instances, self.readings.into_failures()))
    }

    /// What changes rarely.
    pub(super) fn details(mut self) -> Result<(Details, Vec<CallFailure>), DriverError> {
        let mut details = Details::default();
        self.limits(&mut details)?;
        self.modes(&mut details)?;
        self.memory_details(&mut details)?;
        details.clock_events_supported = self.clock_events_supported()?;
        Ok((details, self.readings.into_failures()))
    }

    /// Values of fields of the whole GPU.
    fn fields<const N: usize>(&mut self, ids: [u32; N]) -> Result<[Option<i64>; N], DriverError> {
        let mut found = [None; N];
        let answered = raw::fields(self.nvml, &self.device, &ids.map(|id| (id, 0)));
        if let Some(values) = self.readings.take(FIELDS, answered)? {
            for (found, value) in found.iter_mut().zip(values) {
                *found = self.readings.take(FIELDS, value)?;
            }
        }
        Ok(found)
    }

    /// Adds a reading to a list, where there is one.
    fn push<T, U>(
        &mut self,
        list: &mut Vec<(&'static str, U)>,
        label: &'static str,
        call: &'static str,
        result: Result<T, NvmlError>,
        convert: impl FnOnce(T) -> U,
    ) -> Result<(), DriverError> {
        if let Some(value) = self.readings.take(call, result)? {
            list.push((label, convert(value)));
        }
        Ok(())
    }
}
