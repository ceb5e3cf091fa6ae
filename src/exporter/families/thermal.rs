//! Temperatures, and what lowers the clocks.

use super::family::families;
use super::{Page, each, one};
use crate::exporter::series::write;
use crate::nvml::CLOCK_EVENTS;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

families! {
    TEMPERATURE: Gauge "gpu_temperature_celsius" of Gpu { sensor: "`gpu`, `memory`" },
        "Temperature of this GPU.",
        from "nvmlDeviceGetTemperature; field 82",
        example "gpu_temperature_celsius{sensor=\"memory\"} > 90";
    LIMIT: Gauge "gpu_temperature_limit_celsius" of Gpu { limit: "`shutdown`, `slowdown`, `memory_max`, `gpu_max`" },
        "Temperature at which the GPU shuts down or slows down.",
        from "nvmlDeviceGetTemperatureThreshold",
        example "gpu_temperature_celsius{sensor=\"gpu\"} > on (node, UUID) group_left () gpu_temperature_limit_celsius{limit=\"gpu_max\"}";
    MARGIN: Gauge "gpu_temperature_margin_celsius" of Gpu {},
        "Degrees up to the nearest limit of the temperature; Ada and later.",
        from "nvmlDeviceGetMarginTemperature",
        example "gpu_temperature_margin_celsius < 5";
    MARGIN_LIMIT: Gauge "gpu_temperature_margin_limit_celsius" of Gpu { limit: "`shutdown`, `slowdown`, `memory_max`, `gpu_max`" },
        "Margin (T.Limit) at which the GPU shuts down or slows down; Ada and later. Below 0: beyond the limit by so much.",
        from "fields 193 to 196",
        example "gpu_temperature_margin_celsius <= on (node, UUID) group_left () gpu_temperature_margin_limit_celsius{limit=\"slowdown\"}";
    CLOCK_EVENT: Gauge "gpu_clock_event_active" of Gpu {
            reason: "`gpu_idle`, `applications_clocks_setting`, `sw_power_cap`, `hw_slowdown`, `sync_boost`, `sw_thermal_slowdown`, `hw_thermal_slowdown`, `hw_power_brake_slowdown`, `display_clock_setting`"
        },
        "Whether this reason keeps the clocks low now. A software power cap under load is no fault.",
        from "nvmlDeviceGetCurrentClocksThrottleReasons",
        example "gpu_clock_event_active{reason=~\"hw_.*|sw_thermal_slowdown\"} == 1";
    THROTTLED: Counter "gpu_throttle_seconds_total" of Gpu {
            reason: "`sw_power_cap`, `sync_boost`, `sw_thermal_slowdown`, `hw_thermal_slowdown`, `hw_power_brake_slowdown`"
        },
        "Time for which this reason kept the clocks low, since the driver was loaded.",
        from "fields 74, 76, 251 to 253 (269 to 271 from driver 580.82 on)",
        example "rate(gpu_throttle_seconds_total{reason=\"hw_thermal_slowdown\"}[10m]) > 0.01";
}

impl Page<'_> {
    pub(in crate::exporter) fn thermal(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let temperatures = self.samples().flat_map(|(row, sample)| {
            let sensors = [
                ("gpu", sample.temperature),
                ("memory", sample.memory_temperature),
            ];
            sensors
                .into_iter()
                .filter_map(move |(sensor, degrees)| Some((row, [sensor], f64::from(degrees?))))
        });
        write(encoder, &TEMPERATURE, temperatures)?;
        let limits = (self.details())
            .flat_map(|(row, details)| each(row, &details.temperature_limits, f64::from));
        write(encoder, &LIMIT, limits)?;
        let margins = self
            .usage()
            .filter_map(|(row, usage)| Some((row, [], f64::from(usage.temperature_margin?))));
        write(encoder, &MARGIN, margins)?;
        let limits = (self.details())
            .flat_map(|(row, details)| each(row, &details.margin_limits, f64::from));
        write(encoder, &MARGIN_LIMIT, limits)?;
        let events = self.samples().flat_map(|(row, sample)| {
            let details = sample.details.as_deref();
            let supported = details.and_then(|details| details.clock_events_supported);
            sample.clock_events.into_iter().flat_map(move |active| {
                let bits = CLOCK_EVENTS.into_iter();
                bits.filter(move |(_, bit)| supported.is_none_or(|all| all & bit != 0))
                    .map(move |(reason, bit)| (row, [reason], one(active & bit != 0)))
            })
        });
        write(encoder, &CLOCK_EVENT, events)?;
        let times = self
            .usage()
            .flat_map(|(row, usage)| each(row, &usage.throttled, |seconds| seconds));
        write(encoder, &THROTTLED, times)
    }
}
