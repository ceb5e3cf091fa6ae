//! The C functions, with the names, types and error codes of NVIDIA's `nvml.h`.

use crate::scenario::{DriverState, Gpu, GpuState, Scenario, current};
use std::ffi::{c_char, c_int, c_longlong, c_uint, c_ulonglong, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Return = c_uint;
type Device = *mut c_void;

const SUCCESS: Return = 0;
const UNINITIALIZED: Return = 1;
const INVALID_ARGUMENT: Return = 2;
const NOT_SUPPORTED: Return = 3;
const NOT_FOUND: Return = 6;
const INSUFFICIENT_SIZE: Return = 7;
const DRIVER_NOT_LOADED: Return = 9;
const FUNCTION_NOT_FOUND: Return = 13;
const GPU_IS_LOST: Return = 15;
const RESET_REQUIRED: Return = 16;
const LIB_RM_VERSION_MISMATCH: Return = 18;

const FIELD_RECOVERY_ACTION: c_uint = 230;
const VALUE_TYPE_UNSIGNED_INT: c_uint = 1;

/// How often a call that hangs looks whether the scenario still says so.
const HANG_STEP: Duration = Duration::from_millis(20);

static INITIALISED: AtomicUsize = AtomicUsize::new(0);

/// `nvmlPciInfo_t`.
#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_sub_system_id: c_uint,
    bus_id: [c_char; 32],
}

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

fn hang(seconds: impl Fn(&Scenario) -> f64) {
    let started = Instant::now();
    while let Some(scenario) = current() {
        let wanted = seconds(&scenario);
        if wanted <= 0.0 || started.elapsed().as_secs_f64() >= wanted {
            return;
        }
        std::thread::sleep(HANG_STEP);
    }
}

fn system() -> Result<Arc<Scenario>, Return> {
    hang(|scenario| scenario.hang_seconds);
    let scenario = current().ok_or(DRIVER_NOT_LOADED)?;
    match scenario.driver {
        DriverState::Loaded => Ok(scenario),
        DriverState::NotLoaded => Err(DRIVER_NOT_LOADED),
        DriverState::VersionMismatch => Err(LIB_RM_VERSION_MISMATCH),
    }
}

fn initialised() -> Result<Arc<Scenario>, Return> {
    if INITIALISED.load(Ordering::SeqCst) == 0 {
        return Err(UNINITIALIZED);
    }
    system()
}

/// A handle is the index plus one, so that a null pointer is never a GPU.
fn handle(index: usize) -> Device {
    std::ptr::without_provenance_mut(index + 1)
}

fn with_gpu<T>(
    device: Device,
    function: &str,
    answer: impl FnOnce(usize, &Gpu) -> Result<T, Return>,
) -> Result<T, Return> {
    let index = device.addr().checked_sub(1).ok_or(INVALID_ARGUMENT)?;
    hang(|scenario| scenario.gpus.get(index).map_or(0.0, |gpu| gpu.hang_seconds));
    let scenario = initialised()?;
    let gpu = scenario.gpus.get(index).ok_or(INVALID_ARGUMENT)?;
    if gpu.absent.iter().any(|name| name == function) {
        return Err(FUNCTION_NOT_FOUND);
    }
    match gpu.state {
        GpuState::Lost => return Err(GPU_IS_LOST),
        GpuState::ResetRequired => return Err(RESET_REQUIRED),
        GpuState::Healthy => {}
    }
    if gpu.not_supported.iter().any(|name| name == function) {
        return Err(NOT_SUPPORTED);
    }
    if let Some(code) = gpu.errors.get(function) {
        return Err(*code);
    }
    answer(index, gpu)
}

fn code(result: Result<(), Return>) -> Return {
    result.err().unwrap_or(SUCCESS)
}

/// # Safety
///
/// `to` has room for a `T`, as NVML asks of its callers.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Return> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    unsafe { to.write(value) };
    Ok(())
}

/// # Safety
///
/// `to` has room for `length` bytes, as NVML asks of its callers.
unsafe fn put_text(to: *mut c_char, length: c_uint, text: &str) -> Result<(), Return> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

fn text_array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, from) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from as c_char;
    }
    array
}

fn pci_parts(bus_id: &str) -> Option<(u32, u32, u32)> {
    let mut parts = bus_id
        .split([':', '.'])
        .map(|part| u32::from_str_radix(part, 16).ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

macro_rules! export {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $body:block)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of `nvml.h`.")]
        ///
        /// # Safety
        ///
        /// Pointers are valid for what the header says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Return {
            let answer = || -> Result<(), Return> { $body };
            code(answer())
        }
    )*};
}

export! {
    fn nvmlInit_v2() {
        system()?;
        INITIALISED.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn nvmlInitWithFlags(_flags: c_uint) {
        system()?;
        INITIALISED.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn nvmlShutdown() {
        INITIALISED
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1))
            .map(|_| ())
            .map_err(|_| UNINITIALIZED)
    }
    fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) {
        let scenario = initialised()?;
        unsafe { put_text(version, length, &scenario.driver_version) }
    }
    fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) {
        let scenario = initialised()?;
        unsafe { put_text(version, length, &format!("12.{}", scenario.driver_version)) }
    }
    fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) {
        initialised()?;
        unsafe { put(version, 12_080) }
    }
    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        let scenario = initialised()?;
        unsafe { put(count, scenario.gpus.len() as c_uint) }
    }
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Device) {
        let scenario = initialised()?;
        if index as usize >= scenario.gpus.len() {
            return Err(INVALID_ARGUMENT);
        }
        unsafe { put(device, handle(index as usize)) }
    }
    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Device) {
        let scenario = initialised()?;
        let wanted = unsafe { std::ffi::CStr::from_ptr(uuid) };
        let index = scenario.gpus.iter().position(|gpu| gpu.uuid.as_bytes() == wanted.to_bytes());
        unsafe { put(device, handle(index.ok_or(NOT_FOUND)?)) }
    }
    fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: *const c_char, device: *mut Device) {
        let scenario = initialised()?;
        let wanted = unsafe { std::ffi::CStr::from_ptr(bus_id) }.to_string_lossy();
        let index = scenario.gpus.iter().position(|gpu| pci_parts(&gpu.pci_bus_id) == pci_parts(&wanted));
        unsafe { put(device, handle(index.ok_or(NOT_FOUND)?)) }
    }
    fn nvmlDeviceGetUUID(device: Device, uuid: *mut c_char, length: c_uint) {
        with_gpu(device, "nvmlDeviceGetUUID", |_, gpu| unsafe { put_text(uuid, length, &gpu.uuid) })
    }
    fn nvmlDeviceGetName(device: Device, name: *mut c_char, length: c_uint) {
        with_gpu(device, "nvmlDeviceGetName", |_, gpu| unsafe { put_text(name, length, &gpu.name) })
    }
    fn nvmlDeviceGetSerial(device: Device, serial: *mut c_char, length: c_uint) {
        with_gpu(device, "nvmlDeviceGetSerial", |_, gpu| {
            let text = gpu.serial.as_deref().ok_or(NOT_SUPPORTED)?;
            unsafe { put_text(serial, length, text) }
        })
    }
    fn nvmlDeviceGetVbiosVersion(device: Device, version: *mut c_char, length: c_uint) {
        with_gpu(device, "nvmlDeviceGetVbiosVersion", |_, _| unsafe { put_text(version, length, "96.00.89.00.01") })
    }
    fn nvmlDeviceGetIndex(device: Device, index: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetIndex", |own, _| unsafe { put(index, own as c_uint) })
    }
    fn nvmlDeviceGetMinorNumber(device: Device, minor: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetMinorNumber", |own, gpu| unsafe {
            put(minor, gpu.minor.unwrap_or(own as c_uint))
        })
    }
    fn nvmlDeviceGetPciInfo_v3(device: Device, info: *mut PciInfo) {
        with_gpu(device, "nvmlDeviceGetPciInfo_v3", |_, gpu| {
            let (domain, bus, slot) = pci_parts(&gpu.pci_bus_id).ok_or(INVALID_ARGUMENT)?;
            unsafe {
                put(info, PciInfo {
                    bus_id_legacy: text_array(&format!("{domain:04X}:{bus:02X}:{slot:02X}.0")),
                    domain,
                    bus,
                    device: slot,
                    pci_device_id: 0x2330_10DE,
                    pci_sub_system_id: 0x16C1_10DE,
                    bus_id: text_array(&format!("{domain:08X}:{bus:02X}:{slot:02X}.0")),
                })
            }
        })
    }
    fn nvmlDeviceGetTemperature(device: Device, sensor: c_uint, temperature: *mut c_uint) {
        with_gpu(device, "nvmlDeviceGetTemperature", |_, gpu| {
            if sensor != 0 {
                return Err(INVALID_ARGUMENT);
            }
            unsafe { put(temperature, gpu.temperature) }
        })
    }
    fn nvmlDeviceGetTotalEccErrors(device: Device, kind: c_uint, counter: c_uint, count: *mut c_ulonglong) {
        with_gpu(device, "nvmlDeviceGetTotalEccErrors", |_, gpu| {
            let counts = match kind {
                0 => gpu.ecc.corrected,
                1 => gpu.ecc.uncorrected,
                _ => return Err(INVALID_ARGUMENT),
            };
            let value = match counter {
                0 => counts.volatile,
                1 => counts.aggregate,
                _ => return Err(INVALID_ARGUMENT),
            };
            unsafe { put(count, value) }
        })
    }
    fn nvmlDeviceGetFieldValues(device: Device, count: c_int, values: *mut FieldValue) {
        with_gpu(device, "nvmlDeviceGetFieldValues", |_, gpu| {
            let count = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
            if values.is_null() {
                return Err(INVALID_ARGUMENT);
            }
            for value in unsafe { std::slice::from_raw_parts_mut(values, count) } {
                value.value_type = VALUE_TYPE_UNSIGNED_INT;
                match (value.field_id, gpu.recovery_action) {
                    (FIELD_RECOVERY_ACTION, Some(action)) => {
                        value.nvml_return = SUCCESS;
                        value.value = c_ulonglong::from(action);
                    }
                    _ => value.nvml_return = NOT_SUPPORTED,
                }
            }
            Ok(())
        })
    }
}
