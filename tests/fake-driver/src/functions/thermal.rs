//! Temperatures, what lowers the clocks, and fields.

use super::*;
use crate::readings::LinkErrors;
use std::ffi::{c_longlong, c_ulonglong};

/// `nvmlFieldValue_t`; the union is written through its widest member.
#[repr(C)]
pub struct FieldValue {
    field_id: c_uint,
    scope_id: c_uint,
    timestamp: c_longlong,
    latency_usec: c_longlong,
    value_type: c_uint,
    nvml_return: Return,
    value: c_ulonglong,
}

/// `nvmlMarginTemperature_t`.
#[repr(C)]
pub struct Margin {
    version: c_uint,
    margin: c_int,
}

const UNSIGNED: c_uint = 1;
const UNSIGNED_LONG_LONG: c_uint = 3;
const SIGNED: c_uint = 5;

/// The number that a field had before driver 580.82 gave out those from 251 on anew.
fn canonical(version: (u32, u32), field: c_uint) -> c_uint {
    match field {
        269..=273 if version >= (580, 82) => field - 18,
        251..=268 if version >= (580, 82) => field + 5,
        _ => field,
    }
}

fn field(gpu: &Gpu, field: c_uint, scope: c_uint) -> Result<(c_uint, c_ulonglong), Return> {
    let readings = &gpu.readings;
    let throttled = |place: usize| {
        let times = supported(readings.throttled)?;
        Ok((UNSIGNED_LONG_LONG, times[place]))
    };
    // A link that is not there is an argument that is not right.
    let link = |told_by: Option<LinkErrors>| {
        let links = supported(readings.links.as_ref())?;
        match told_by {
            Some(wanted) if links.told_by != wanted => Err(NOT_SUPPORTED),
            _ if scope >= links.count => Err(INVALID_ARGUMENT),
            _ => Ok(links),
        }
    };
    let errors = |told_by| {
        let count = link(Some(told_by))?.errors.get(&scope).copied();
        Ok((UNSIGNED_LONG_LONG, count.unwrap_or(0)))
    };
    match field {
        74 => throttled(0),
        76 => throttled(1),
        82 => Ok((UNSIGNED, supported(readings.memory_temperature)?.into())),
        91 => Ok((UNSIGNED, supported(readings.links.as_ref())?.count.into())),
        138 | 139 => {
            let links = supported(readings.links.as_ref())?;
            Ok((UNSIGNED_LONG_LONG, links.kibibytes[field as usize - 138]))
        }
        161..=163 => errors(LinkErrors::Fields),
        164 => Ok((UNSIGNED, link(None)?.speed.into())),
        193..=196 => {
            let limits = supported(readings.margin_limits)?;
            Ok((
                SIGNED,
                c_ulonglong::from(limits[field as usize - 193].cast_unsigned()),
            ))
        }
        213 | 214 | 219 | 221 => errors(LinkErrors::Blackwell),
        230 => Ok((UNSIGNED, supported(gpu.recovery_action)?.into())),
        251..=253 => throttled(field as usize - 249),
        _ => Err(NOT_SUPPORTED),
    }
}

export! {
    fn nvmlDeviceGetTemperature(device: Device, sensor: c_uint, temperature: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetTemperature", |_, gpu| {
            if sensor != 0 {
                return Err(INVALID_ARGUMENT);
            }
            unsafe { put(temperature, gpu.temperature) }
        })
    }
    fn nvmlDeviceGetTemperatureThreshold(device: Device, threshold: c_uint, temperature: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetTemperatureThreshold", |_, gpu| {
            let limits = supported(gpu.readings.temperature_limits)?;
            let limit = supported(limits.get(threshold as usize).filter(|limit| **limit != 0))?;
            unsafe { put(temperature, *limit) }
        })
    }
    fn nvmlDeviceGetMarginTemperature(device: Device, margin: *mut Margin) {
        with_gpu(device, "nvmlDeviceGetMarginTemperature", |_, gpu| {
            let degrees = supported(gpu.readings.temperature_margin)?;
            let version = size_of::<Margin>() as c_uint | 1 << 24;
            if margin.is_null() || unsafe { (*margin).version } != version {
                return Err(VERSION_MISMATCH);
            }
            unsafe { put(margin, Margin { version, margin: degrees }) }
        })
    }
    fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Device, reasons: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetCurrentClocksThrottleReasons", |_, gpu| unsafe {
            put(reasons, supported(gpu.readings.clock_events)?.active)
        })
    }
    fn nvmlDeviceGetSupportedClocksThrottleReasons(device: Device, reasons: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetSupportedClocksThrottleReasons", |_, gpu| unsafe {
            put(reasons, supported(gpu.readings.clock_events)?.supported)
        })
    }
    fn nvmlDeviceGetFieldValues(device: Device, count: c_int, values: *mut FieldValue) {
        let version = initialised()?.version();
        with_gpu(device, "nvmlDeviceGetFieldValues", |_, gpu| {
            let count = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
            if values.is_null() {
                return Err(INVALID_ARGUMENT);
            }
            for value in unsafe { std::slice::from_raw_parts_mut(values, count) } {
                match field(gpu, canonical(version, value.field_id), value.scope_id) {
                    Ok((kind, number)) => {
                        value.nvml_return = SUCCESS;
                        value.value_type = kind;
                        value.value = number;
                    }
                    Err(code) => value.nvml_return = code,
                }
            }
            Ok(())
        })
    }
}
