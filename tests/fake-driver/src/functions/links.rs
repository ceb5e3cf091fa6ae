//! NVLinks, and the fabric that they make.

use super::*;
use crate::readings::{LinkErrors, Links};
use std::ffi::{c_uchar, c_ulonglong};

/// `nvmlGpuFabricInfo_v2_t`, with what the third version has more.
#[repr(C)]
pub struct FabricInfo {
    version: c_uint,
    cluster: [c_uchar; 16],
    status: Return,
    clique: c_uint,
    state: c_uchar,
    health_mask: c_uint,
    health_summary: c_uchar,
}

/// The size of `nvmlGpuFabricInfo_v2_t`.
const SECOND_VERSION: c_uint = 36;

fn link(gpu: &Gpu, number: c_uint) -> Result<&Links, Return> {
    let links = supported(gpu.readings.links.as_ref())?;
    if number < links.count {
        Ok(links)
    } else {
        Err(INVALID_ARGUMENT)
    }
}

export! {
    fn nvmlDeviceGetNvLinkState(device: Device, number: c_uint, active: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetNvLinkState", |_, gpu| {
            let down = link(gpu, number)?.down.contains(&number);
            unsafe { put(active, c_uint::from(!down)) }
        })
    }
    fn nvmlDeviceGetNvLinkErrorCounter(device: Device, number: c_uint, counter: c_uint, count: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetNvLinkErrorCounter", |_, gpu| {
            let links = link(gpu, number)?;
            match (links.told_by, counter) {
                (LinkErrors::Blackwell, _) => Err(NOT_SUPPORTED),
                (_, 0..=3) => unsafe { put(count, links.errors.get(&number).copied().unwrap_or(0)) },
                _ => Err(INVALID_ARGUMENT),
            }
        })
    }
    fn nvmlDeviceGetNvLinkRemoteDeviceType(device: Device, number: c_uint, kind: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetNvLinkRemoteDeviceType", |_, gpu| unsafe {
            put(kind, link(gpu, number)?.peer)
        })
    }
    fn nvmlDeviceGetGpuFabricInfoV(device: Device, info: *mut FabricInfo) {
        with_gpu(device, "nvmlDeviceGetGpuFabricInfoV", |_, gpu| {
            let fabric = supported(gpu.readings.fabric)?;
            if info.is_null() {
                return Err(INVALID_ARGUMENT);
            }
            unsafe {
                if (*info).version != SECOND_VERSION | 2 << 24 {
                    return Err(VERSION_MISMATCH);
                }
                (*info).cluster = [7; 16];
                (*info).status = fabric.status;
                (*info).clique = 1;
                (*info).state = fabric.state;
                (*info).health_mask = fabric.health_mask;
            }
            Ok(())
        })
    }
}
