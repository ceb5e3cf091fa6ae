//! MIG instances.

use super::*;
use crate::readings::Instance;

/// As many as a GPU can be divided into.
const MOST: c_uint = 7;

fn of_instance<T>(
    device: Device,
    function: &str,
    answer: impl FnOnce(&Instance) -> Result<T, Return>,
) -> Result<T, Return> {
    with_any(device, function, |_, _, instance| {
        answer(instance.ok_or(INVALID_ARGUMENT)?)
    })
}

export! {
    fn nvmlDeviceGetMigMode(device: Device, current: *mut c_uint, pending: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetMigMode", |_, gpu| {
            let mode = supported(gpu.readings.mig_mode)?;
            unsafe { put(current, c_uint::from(mode.current)).and(put(pending, c_uint::from(mode.pending))) }
        })
    }
    fn nvmlDeviceGetMaxMigDeviceCount(device: Device, count: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetMaxMigDeviceCount", |_, gpu| {
            let most = gpu.readings.mig_mode.map_or(0, |_| MOST);
            unsafe { put(count, most) }
        })
    }
    fn nvmlDeviceGetMigDeviceHandleByIndex(device: Device, place: c_uint, instance: *mut Device) {
        with_gpu(device, "nvmlDeviceGetMigDeviceHandleByIndex", |_, gpu| {
            supported(gpu.readings.mig_mode)?;
            if place as usize >= gpu.readings.instances.len() {
                return Err(NOT_FOUND);
            }
            unsafe { put(instance, instance_handle(device, place as usize)) }
        })
    }
    fn nvmlDeviceGetGpuInstanceId(device: Device, id: *mut c_uint) {
        of_instance(device, "nvmlDeviceGetGpuInstanceId", |instance| unsafe { put(id, instance.gpu_instance) })
    }
    fn nvmlDeviceGetComputeInstanceId(device: Device, id: *mut c_uint) {
        of_instance(device, "nvmlDeviceGetComputeInstanceId", |instance| unsafe { put(id, instance.compute_instance) })
    }
}
