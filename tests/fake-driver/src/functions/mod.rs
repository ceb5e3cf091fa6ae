//! The C functions, with the names, types and error codes of NVIDIA's `nvml.h`.

use crate::readings::Instance;
use crate::scenario::{DriverState, Gpu, GpuState, Scenario, current};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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

mod device;
mod events;
mod instances;
mod links;
mod load;
mod memory;
mod thermal;

pub use events::*;
pub use instances::*;
pub use links::*;
pub use load::*;
pub use memory::*;
pub use thermal::*;

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
const TIMEOUT: Return = 10;
const VERSION_MISMATCH: Return = 25;
const LIB_RM_VERSION_MISMATCH: Return = 18;

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

/// Hangs for as long as the scenario says; what it says after that.
fn hang(seconds: impl Fn(&Scenario) -> f64) -> Option<Arc<Scenario>> {
    let started = Instant::now();
    loop {
        let scenario = current()?;
        let wanted = seconds(&scenario);
        if wanted <= 0.0 || started.elapsed().as_secs_f64() >= wanted {
            return Some(scenario);
        }
        std::thread::sleep(HANG_STEP);
    }
}

fn system() -> Result<Arc<Scenario>, Return> {
    system_after(|_| 0.0)
}

/// What the scenario says after the longer of two hangs: the driver's own and this one.
fn system_after(seconds: impl Fn(&Scenario) -> f64) -> Result<Arc<Scenario>, Return> {
    let longer = |scenario: &Scenario| scenario.hang_seconds.max(seconds(scenario));
    let scenario = hang(longer).ok_or(DRIVER_NOT_LOADED)?;
    match scenario.driver {
        DriverState::Loaded => Ok(scenario),
        DriverState::NotLoaded => Err(DRIVER_NOT_LOADED),
        DriverState::VersionMismatch => Err(LIB_RM_VERSION_MISMATCH),
    }
}

fn initialised() -> Result<Arc<Scenario>, Return> {
    initialised_after(|_| 0.0)
}

fn initialised_after(seconds: impl Fn(&Scenario) -> f64) -> Result<Arc<Scenario>, Return> {
    if INITIALISED.load(Ordering::SeqCst) == 0 {
        return Err(UNINITIALIZED);
    }
    system_after(seconds)
}

/// A handle is the index plus one, so that a null pointer is never a GPU, and the place of an instance, plus one, above it.
fn handle(index: usize) -> Device {
    std::ptr::without_provenance_mut(index + 1)
}

const INSTANCES_FROM: usize = 1 << 16;

fn instance_handle(device: Device, place: usize) -> Device {
    std::ptr::without_provenance_mut(device.addr() + (place + 1) * INSTANCES_FROM)
}

/// Answers for a GPU. The handle of an instance is no argument for most calls.
fn with_gpu<T>(
    device: Device,
    function: &str,
    answer: impl FnOnce(usize, &Gpu) -> Result<T, Return>,
) -> Result<T, Return> {
    with_any(device, function, |index, gpu, instance| match instance {
        None => answer(index, gpu),
        Some(_) => Err(INVALID_ARGUMENT),
    })
}

/// Answers for a GPU or one of its instances.
fn with_any<T>(
    device: Device,
    function: &str,
    answer: impl FnOnce(usize, &Gpu, Option<&Instance>) -> Result<T, Return>,
) -> Result<T, Return> {
    let place = (device.addr() / INSTANCES_FROM).checked_sub(1);
    let index = (device.addr() % INSTANCES_FROM)
        .checked_sub(1)
        .ok_or(INVALID_ARGUMENT)?;
    let scenario = initialised_after(|scenario| {
        let gpu = scenario.gpus.get(index);
        gpu.map_or(0.0, |gpu| gpu.hang_seconds)
    })?;
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
    let instance = match place {
        None => None,
        Some(place) => Some(gpu.readings.instances.get(place).ok_or(INVALID_ARGUMENT)?),
    };
    answer(index, gpu, instance)
}

/// A reading that a GPU may not have.
fn supported<T>(value: Option<T>) -> Result<T, Return> {
    value.ok_or(NOT_SUPPORTED)
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

/// Writes a list into room for `count` of its elements, or tells how many there are.
///
/// # Safety
///
/// `list` has room for as many elements as `count` says, as NVML asks of its callers.
unsafe fn put_list<T>(
    count: *mut c_uint,
    list: *mut T,
    there: c_uint,
    element: impl Fn(c_uint) -> T,
) -> Result<(), Return> {
    let room = *unsafe { count.as_ref() }.ok_or(INVALID_ARGUMENT)?;
    unsafe { count.write(there) };
    if room < there {
        return Err(INSUFFICIENT_SIZE);
    }
    for place in 0..there {
        unsafe { list.add(place as usize).write(element(place)) };
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

export! {
    fn nvmlInit_v2() {
        system()?;
        device::hold();
        INITIALISED.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn nvmlInitWithFlags(_flags: c_uint) {
        system()?;
        device::hold();
        INITIALISED.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn nvmlShutdown() {
        let before = INITIALISED
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1))
            .map_err(|_| UNINITIALIZED)?;
        if before == 1 {
            device::let_go();
        }
        Ok(())
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
        let scenario = initialised()?;
        // A driver of branch 535 supports CUDA 12.2, and so on.
        let cuda = match scenario.version().0 {
            0..=549 => 12_020,
            550..=569 => 12_040,
            570..=579 => 12_080,
            _ => 13_000,
        };
        unsafe { put(version, cuda) }
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
        with_any(device, "nvmlDeviceGetUUID", |_, gpu, instance| {
            let text = instance.map_or(&gpu.uuid, |instance| &instance.uuid);
            unsafe { put_text(uuid, length, text) }
        })
    }
    fn nvmlDeviceGetName(device: Device, name: *mut c_char, length: c_uint) {
        with_any(device, "nvmlDeviceGetName", |_, gpu, instance| {
            let suffix = instance.map_or(String::new(), |instance| format!(" MIG {}", instance.profile));
            unsafe { put_text(name, length, &(gpu.name.clone() + &suffix)) }
        })
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
}
