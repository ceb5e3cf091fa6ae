//! Errors of the memory, and what was done about them.

use super::*;
use std::ffi::c_ulonglong;

/// `nvmlRowRemapperHistogramValues_t`.
#[repr(C)]
pub struct RowBanks([c_uint; 5]);

/// `nvmlEccSramErrorStatus_t`.
#[repr(C)]
pub struct SramStatus {
    version: c_uint,
    aggregate_uncorrected: [c_ulonglong; 2],
    aggregate_corrected: c_ulonglong,
    volatile_uncorrected: [c_ulonglong; 2],
    volatile_corrected: c_ulonglong,
    aggregate_units: [c_ulonglong; 5],
    threshold_exceeded: c_uint,
}

/// The numbers of `nvmlMemoryLocation_t`.
const LOCATIONS: [&str; 8] = [
    "l1_cache",
    "l2_cache",
    "device_memory",
    "register_file",
    "texture_memory",
    "shared_memory",
    "cbu",
    "sram",
];

fn pick(ecc: &crate::scenario::Ecc, kind: c_uint, counter: c_uint) -> Result<u64, Return> {
    let counts = match kind {
        0 => ecc.corrected,
        1 => ecc.uncorrected,
        _ => return Err(INVALID_ARGUMENT),
    };
    match counter {
        0 => Ok(counts.volatile),
        1 => Ok(counts.aggregate),
        _ => Err(INVALID_ARGUMENT),
    }
}

export! {
    fn nvmlDeviceGetTotalEccErrors(device: Device, kind: c_uint, counter: c_uint, count: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetTotalEccErrors", |_, gpu| unsafe { put(count, pick(&gpu.ecc, kind, counter)?) })
    }
    fn nvmlDeviceGetMemoryErrorCounter(device: Device, kind: c_uint, counter: c_uint, location: c_uint, count: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetMemoryErrorCounter", |_, gpu| {
            let name = LOCATIONS.get(location as usize).ok_or(INVALID_ARGUMENT)?;
            let ecc = supported(gpu.readings.ecc_locations.get(*name))?;
            unsafe { put(count, pick(ecc, kind, counter)?) }
        })
    }
    fn nvmlDeviceGetEccMode(device: Device, current: *mut c_uint, pending: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetEccMode", |_, gpu| {
            let mode = supported(gpu.readings.ecc_mode)?;
            unsafe { put(current, c_uint::from(mode.current)).and(put(pending, c_uint::from(mode.pending))) }
        })
    }
    fn nvmlDeviceGetSramEccErrorStatus(device: Device, status: *mut SramStatus) {
        with_gpu(device, "nvmlDeviceGetSramEccErrorStatus", |_, gpu| {
            let sram = supported(gpu.readings.sram)?;
            if status.is_null() {
                return Err(INVALID_ARGUMENT);
            }
            let version = size_of::<SramStatus>() as c_uint | 1 << 24;
            if unsafe { (*status).version } != version {
                return Err(VERSION_MISMATCH);
            }
            let uncorrected = [sram.parity, sram.secded];
            unsafe {
                put(status, SramStatus {
                    version,
                    aggregate_uncorrected: uncorrected,
                    aggregate_corrected: sram.corrected,
                    volatile_uncorrected: uncorrected,
                    volatile_corrected: sram.corrected,
                    aggregate_units: [sram.parity + sram.secded, 0, 0, 0, 0],
                    threshold_exceeded: c_uint::from(sram.threshold_exceeded),
                })
            }
        })
    }
    fn nvmlDeviceGetRemappedRows(device: Device, corrected: *mut c_uint, uncorrected: *mut c_uint, pending: *mut c_uint, failed: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetRemappedRows", |_, gpu| {
            let rows = supported(gpu.readings.remapped_rows.filter(|_| !gpu.is_divided()))?;
            unsafe {
                put(corrected, rows.corrected)?;
                put(uncorrected, rows.uncorrected)?;
                put(pending, c_uint::from(rows.pending))?;
                put(failed, c_uint::from(rows.failed))
            }
        })
    }
    fn nvmlDeviceGetRowRemapperHistogram(device: Device, values: *mut RowBanks) {
        with_gpu(device, "nvmlDeviceGetRowRemapperHistogram", |_, gpu| {
            let banks = supported(gpu.readings.row_banks.filter(|_| !gpu.is_divided()))?;
            unsafe { put(values, RowBanks(banks)) }
        })
    }
    fn nvmlDeviceGetRetiredPages(device: Device, cause: c_uint, count: *mut c_uint, addresses: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetRetiredPages", |_, gpu| {
            let pages = supported(gpu.readings.retired_pages)?;
            let there = if cause == 0 { pages.single_bit } else { pages.double_bit };
            unsafe { put_list(count, addresses, there, |page| c_ulonglong::from(page) << 16) }
        })
    }
    fn nvmlDeviceGetRetiredPages_v2(device: Device, cause: c_uint, count: *mut c_uint, addresses: *mut c_ulonglong, times: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetRetiredPages_v2", |_, gpu| {
            let pages = supported(gpu.readings.retired_pages)?;
            let there = if cause == 0 { pages.single_bit } else { pages.double_bit };
            unsafe {
                put_list(count, times, there, |_| 1_700_000_000)?;
                put_list(count, addresses, there, |page| c_ulonglong::from(page) << 16)
            }
        })
    }
    fn nvmlDeviceGetRetiredPagesPendingStatus(device: Device, pending: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetRetiredPagesPendingStatus", |_, gpu| {
            let pages = supported(gpu.readings.retired_pages)?;
            unsafe { put(pending, c_uint::from(pages.pending)) }
        })
    }
}
