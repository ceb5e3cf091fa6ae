//! Events. What is added to a GPU's list after it was registered is delivered once.

use super::*;
use crate::changes::Changes;
use std::ffi::c_ulonglong;
use std::sync::{Mutex, PoisonError};

/// `nvmlEventData_t`.
#[repr(C)]
pub struct EventData {
    device: Device,
    event_type: c_ulonglong,
    event_data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// One GPU in a set, and how many of its events are old.
struct Registered {
    index: usize,
    types: u64,
    seen: usize,
}

/// A set of GPUs whose events are waited for.
#[derive(Default)]
struct Set {
    registered: Mutex<Vec<Registered>>,
    changes: Changes,
}

/// # Safety
///
/// A pointer that is not null is one that `nvmlEventSetCreate` gave out and `nvmlEventSetFree` did not take back.
unsafe fn set<'a>(set: *mut c_void) -> Result<&'a Set, Return> {
    unsafe { set.cast::<Set>().as_ref() }.ok_or(INVALID_ARGUMENT)
}

/// The next event that nobody was told of.
fn next(registered: &mut [Registered]) -> Result<Option<EventData>, Return> {
    let scenario = initialised()?;
    for one in registered {
        let gpu = scenario.gpus.get(one.index).ok_or(GPU_IS_LOST)?;
        if gpu.state == GpuState::Lost {
            return Err(GPU_IS_LOST);
        }
        while let Some(event) = gpu.events.get(one.seen) {
            one.seen += 1;
            if event.kind & one.types != 0 {
                return Ok(Some(EventData {
                    device: handle(one.index),
                    event_type: event.kind,
                    event_data: event.xid,
                    gpu_instance: event.gpu_instance.unwrap_or(c_uint::MAX),
                    compute_instance: event.compute_instance.unwrap_or(c_uint::MAX),
                }));
            }
        }
    }
    Ok(None)
}

export! {
    fn nvmlDeviceGetSupportedEventTypes(device: Device, types: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetSupportedEventTypes", |_, gpu| unsafe {
            put(types, supported(gpu.readings.events_supported)?)
        })
    }
    fn nvmlEventSetCreate(to: *mut *mut c_void) {
        initialised()?;
        let made: Box<Set> = Box::default();
        unsafe { put(to, Box::into_raw(made).cast()) }
    }
    fn nvmlDeviceRegisterEvents(device: Device, types: c_ulonglong, to: *mut c_void) {
        with_gpu(device, "nvmlDeviceRegisterEvents", |index, gpu| {
            let supported = supported(gpu.readings.events_supported)?;
            if types & !supported != 0 {
                return Err(NOT_SUPPORTED);
            }
            let set = unsafe { set(to) }?;
            let mut registered = set.registered.lock().unwrap_or_else(PoisonError::into_inner);
            registered.push(Registered { index, types, seen: gpu.events.len() });
            Ok(())
        })
    }
    fn nvmlEventSetWait_v2(from: *mut c_void, data: *mut EventData, milliseconds: c_uint) {
        let until = Instant::now() + Duration::from_millis(milliseconds.into());
        let set = unsafe { set(from) }?;
        let mut registered = set.registered.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(event) = next(&mut registered)? {
                return unsafe { put(data, event) };
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TIMEOUT);
            }
            set.changes.wait(left);
        }
    }
    fn nvmlEventSetFree(from: *mut c_void) {
        if from.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        drop(unsafe { Box::from_raw(from.cast::<Set>()) });
        Ok(())
    }
}
