//! What the GPU is doing, and between which limits.

use super::*;
use std::ffi::c_ulonglong;

/// `nvmlUtilization_t`.
#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlBAR1Memory_t`.
#[repr(C)]
pub struct Bar1 {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    used_memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

fn process(number: c_uint) -> ProcessInfo {
    ProcessInfo {
        pid: 4000 + number,
        used_memory: 1 << 30,
        gpu_instance: c_uint::MAX,
        compute_instance: c_uint::MAX,
    }
}

/// A function that gives one number of one reading.
macro_rules! numbers {
    ($($name:ident($type:ty) = $reading:expr;)*) => {
        export! {$(
            fn $name(device: Device, value: *mut $type) {
                with_gpu(device, stringify!($name), |_, gpu| unsafe {
                    put(value, supported($reading(&gpu.readings))?)
                })
            }
        )*}
    };
}

type R = crate::readings::Readings;

numbers! {
    nvmlDeviceGetPowerUsage(c_uint) = |r: &R| r.power;
    nvmlDeviceGetEnforcedPowerLimit(c_uint) = |r: &R| r.power_limits.map(|limits| limits[0]);
    nvmlDeviceGetPowerManagementLimit(c_uint) = |r: &R| r.power_limits.map(|limits| limits[1]);
    nvmlDeviceGetPowerManagementDefaultLimit(c_uint) = |r: &R| r.power_limits.map(|limits| limits[2]);
    nvmlDeviceGetTotalEnergyConsumption(c_ulonglong) = |r: &R| r.energy;
    nvmlDeviceGetPcieReplayCounter(c_uint) = |r: &R| r.pcie.map(|pcie| pcie.replays);
    nvmlDeviceGetCurrPcieLinkGeneration(c_uint) = |r: &R| r.pcie.map(|pcie| pcie.generation[0]);
    nvmlDeviceGetMaxPcieLinkGeneration(c_uint) = |r: &R| r.pcie.map(|pcie| pcie.generation[1]);
    nvmlDeviceGetCurrPcieLinkWidth(c_uint) = |r: &R| r.pcie.map(|pcie| pcie.width[0]);
    nvmlDeviceGetMaxPcieLinkWidth(c_uint) = |r: &R| r.pcie.map(|pcie| pcie.width[1]);
    nvmlDeviceGetPersistenceMode(c_uint) = |r: &R| r.persistence.map(c_uint::from);
}

export! {
    fn nvmlDeviceGetPowerManagementLimitConstraints(device: Device, least: *mut c_uint, most: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetPowerManagementLimitConstraints", |_, gpu| {
            let limits = supported(gpu.readings.power_limits)?;
            unsafe { put(least, limits[3]).and(put(most, limits[4])) }
        })
    }
    fn nvmlDeviceGetClockInfo(device: Device, domain: c_uint, clock: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetClockInfo", |_, gpu| {
            let clocks = supported(gpu.readings.clocks)?;
            unsafe { put(clock, *clocks.get(domain as usize).ok_or(INVALID_ARGUMENT)?) }
        })
    }
    fn nvmlDeviceGetUtilizationRates(device: Device, rates: *mut Utilization) {
        with_gpu(device, "nvmlDeviceGetUtilizationRates", |_, gpu| {
            let [busy, memory, ..] = supported(gpu.readings.utilization)?;
            unsafe { put(rates, Utilization { gpu: busy, memory }) }
        })
    }
    fn nvmlDeviceGetEncoderUtilization(device: Device, busy: *mut c_uint, period: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetEncoderUtilization", |_, gpu| unsafe {
            put(busy, supported(gpu.readings.utilization)?[2]).and(put(period, 167_000))
        })
    }
    fn nvmlDeviceGetDecoderUtilization(device: Device, busy: *mut c_uint, period: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetDecoderUtilization", |_, gpu| unsafe {
            put(busy, supported(gpu.readings.utilization)?[3]).and(put(period, 167_000))
        })
    }
    fn nvmlDeviceGetMemoryInfo_v2(device: Device, memory: *mut MemoryV2) {
        with_any(device, "nvmlDeviceGetMemoryInfo_v2", |_, gpu, instance| {
            let bytes = match instance {
                Some(instance) => instance.memory,
                None => supported(gpu.readings.memory)?,
            };
            let version = size_of::<MemoryV2>() as c_uint | 2 << 24;
            if memory.is_null() || unsafe { (*memory).version } != version {
                return Err(VERSION_MISMATCH);
            }
            unsafe {
                put(memory, MemoryV2 {
                    version,
                    total: bytes.total,
                    reserved: bytes.reserved,
                    free: bytes.total - bytes.reserved - bytes.used,
                    used: bytes.used,
                })
            }
        })
    }
    fn nvmlDeviceGetBAR1MemoryInfo(device: Device, memory: *mut Bar1) {
        with_gpu(device, "nvmlDeviceGetBAR1MemoryInfo", |_, gpu| {
            let [total, used] = supported(gpu.readings.bar1)?;
            unsafe { put(memory, Bar1 { total, free: total - used, used }) }
        })
    }
    fn nvmlDeviceGetComputeRunningProcesses_v3(device: Device, count: *mut c_uint, processes: *mut ProcessInfo) {
        with_gpu(device, "nvmlDeviceGetComputeRunningProcesses_v3", |_, gpu| {
            let there = supported(gpu.readings.processes)?[0];
            unsafe { put_list(count, processes, there, process) }
        })
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Device, count: *mut c_uint, processes: *mut ProcessInfo) {
        with_gpu(device, "nvmlDeviceGetGraphicsRunningProcesses_v3", |_, gpu| {
            let there = supported(gpu.readings.processes)?[1];
            unsafe { put_list(count, processes, there, process) }
        })
    }
}
