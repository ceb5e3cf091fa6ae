//! Temperatures, and what lowers the clocks.

use super::Reader;
use crate::nvml::sample::{Details, Labelled};
use crate::nvml::{DriverError, raw};
use nvml_wrapper::enum_wrappers::device::{TemperatureSensor, TemperatureThreshold};
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST,
    NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT,
    NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT,
};

const LIMITS: [(&str, TemperatureThreshold); 4] = [
    ("shutdown", TemperatureThreshold::Shutdown),
    ("slowdown", TemperatureThreshold::Slowdown),
    ("memory_max", TemperatureThreshold::MemoryMax),
    ("gpu_max", TemperatureThreshold::GpuMax),
];

const NANOSECONDS: f64 = 1e9;

impl Reader<'_> {
    pub(super) fn temperature(&mut self) -> Result<Option<u32>, DriverError> {
        self.readings.take(
            "nvmlDeviceGetTemperature",
            self.device.temperature(TemperatureSensor::Gpu),
        )
    }

    pub(super) fn temperature_margin(&mut self) -> Result<Option<i32>, DriverError> {
        self.readings.take(
            "nvmlDeviceGetMarginTemperature",
            raw::temperature_margin(self.nvml, &self.device),
        )
    }

    pub(super) fn clock_events(&mut self) -> Result<Option<u64>, DriverError> {
        // The older of two names for one call: every driver has it.
        let events = self.readings.take(
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            self.device.current_throttle_reasons(),
        )?;
        Ok(events.map(|events| events.bits()))
    }

    pub(super) fn clock_events_supported(&mut self) -> Result<Option<u64>, DriverError> {
        let events = self.readings.take(
            "nvmlDeviceGetSupportedClocksThrottleReasons",
            self.device.supported_throttle_reasons(),
        )?;
        Ok(events.map(|events| events.bits()))
    }

    pub(super) fn throttled(&mut self) -> Result<Labelled<f64>, DriverError> {
        const LABELS: [&str; 5] = [
            "sw_power_cap",
            "sync_boost",
            "sw_thermal_slowdown",
            "hw_thermal_slowdown",
            "hw_power_brake_slowdown",
        ];
        let times = self.fields([
            NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
            NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST,
            NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
            NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
            NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
        ])?;
        let labelled = LABELS.into_iter().zip(times);
        Ok(labelled
            .filter_map(|(label, time)| Some((label, time? as f64 / NANOSECONDS)))
            .collect())
    }

    pub(super) fn temperature_limits(&mut self, details: &mut Details) -> Result<(), DriverError> {
        for (label, threshold) in LIMITS {
            let limit = self.device.temperature_threshold(threshold);
            let list = &mut details.temperature_limits;
            self.push(
                list,
                label,
                "nvmlDeviceGetTemperatureThreshold",
                limit,
                |limit| limit,
            )?;
        }
        let margins = self.fields([
            NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT,
            NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT,
            NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT,
            NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT,
        ])?;
        let labelled = LIMITS.into_iter().zip(margins);
        details.margin_limits = labelled
            .filter_map(|((label, _), margin)| Some((label, signed(margin?)?)))
            .collect();
        Ok(())
    }
}

/// A number of degrees; drivers have written negative ones as unsigned.
fn signed(number: i64) -> Option<i32> {
    i32::try_from(number)
        .or_else(|_| u32::try_from(number).map(u32::cast_signed))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::signed;

    #[test]
    fn a_negative_margin_is_one_whatever_its_type() {
        assert_eq!(signed(-8), Some(-8));
        assert_eq!(signed(4_294_967_288), Some(-8));
        assert_eq!(signed(7), Some(7));
        assert_eq!(signed(i64::MAX), None);
    }
}
