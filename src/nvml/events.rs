//! What the driver tells by itself.

use super::errors::failed;
use super::library::Session;
use super::raw::{self, EventSet};
use super::{DriverError, Event, Events};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::{
    nvmlEventTypeDoubleBitEccError, nvmlEventTypeDramRetirementEvent,
    nvmlEventTypeDramRetirementFailure, nvmlEventTypeFatalPoisonError,
    nvmlEventTypeGpuRecoveryAction, nvmlEventTypeGpuUnavailableError,
    nvmlEventTypeNonFatalPoisonError, nvmlEventTypeSingleBitEccErrorStorm,
    nvmlEventTypeXidCriticalError,
};
use std::sync::Arc;
use std::time::Duration;

/// The Xid for which an event has no number.
const XID: u64 = nvmlEventTypeXidCriticalError as u64;
/// Neither a GPU instance nor a compute instance.
const NO_INSTANCE: u32 = u32::MAX;

/// What else is worth being told.
const OTHERS: [(u64, &str); 8] = [
    (nvmlEventTypeDoubleBitEccError as u64, "double_bit_ecc"),
    (
        nvmlEventTypeSingleBitEccErrorStorm as u64,
        "single_bit_ecc_storm",
    ),
    (nvmlEventTypeDramRetirementEvent as u64, "dram_retirement"),
    (
        nvmlEventTypeDramRetirementFailure as u64,
        "dram_retirement_failure",
    ),
    (nvmlEventTypeNonFatalPoisonError as u64, "nonfatal_poison"),
    (nvmlEventTypeFatalPoisonError as u64, "fatal_poison"),
    (nvmlEventTypeGpuUnavailableError as u64, "gpu_unavailable"),
    (nvmlEventTypeGpuRecoveryAction as u64, "recovery_action"),
];

/// The events of one GPU. Holds the session that its set is of.
struct Registered {
    session: Arc<Session>,
    types: u64,
    set: Option<EventSet>,
}

/// Registers for what the GPU and the driver can tell; `None` where they tell no Xids.
pub(super) fn register(
    session: Arc<Session>,
    index: u32,
) -> Result<Option<Box<dyn Events>>, DriverError> {
    const SUPPORTED: &str = "nvmlDeviceGetSupportedEventTypes";
    let nvml = session.nvml();
    let device = session.device(index)?;
    let supported = raw::supported_events(nvml, &device);
    let wanted = OTHERS.iter().fold(XID, |all, (bit, _)| all | bit);
    let types = match super::errors::optional(SUPPORTED, supported)? {
        // Asking for a type that is not there would fail as a whole.
        Some(supported) if supported & XID != 0 => supported & wanted,
        _ => return Ok(None),
    };
    let set = EventSet::create(nvml).map_err(|error| failed("nvmlEventSetCreate", &error))?;
    let mut registered = Registered {
        session: Arc::clone(&session),
        types,
        set: Some(set),
    };
    if let Some(set) = &mut registered.set {
        set.register(nvml, &device, types)
            .map_err(|error| failed("nvmlDeviceRegisterEvents", &error))?;
    }
    Ok(Some(Box::new(registered)))
}

impl Events for Registered {
    fn others(&self) -> Vec<&'static str> {
        let told = OTHERS.iter().filter(|(bit, _)| self.types & bit != 0);
        told.map(|(_, name)| *name).collect()
    }

    fn next(&mut self, wait: Duration) -> Result<Option<Event>, DriverError> {
        let milliseconds = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let Some(set) = &mut self.set else {
            return Ok(None);
        };
        match set.wait(self.session.nvml(), milliseconds) {
            Ok(data) => Ok(event(
                data.eventType,
                data.eventData,
                data.gpuInstanceId,
                data.computeInstanceId,
            )),
            Err(NvmlError::Timeout) => Ok(None),
            Err(error) => Err(failed("nvmlEventSetWait_v2", &error)),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(set) = self.set.take() {
            set.free(self.session.nvml());
        }
    }
}

fn event(kind: u64, data: u64, gpu_instance: u32, compute_instance: u32) -> Option<Event> {
    if kind & XID != 0 {
        let instance = |id| Some(id).filter(|id| *id != NO_INSTANCE);
        return Some(Event::Xid {
            code: u32::try_from(data).ok()?,
            gpu_instance: instance(gpu_instance),
            compute_instance: instance(compute_instance),
        });
    }
    let (_, name) = OTHERS.iter().find(|(bit, _)| kind & bit != 0)?;
    Some(Event::Other(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_an_xid_with_its_instances_or_has_a_name() {
        let xid = |gpu_instance, compute_instance| {
            Some(Event::Xid {
                code: 79,
                gpu_instance,
                compute_instance,
            })
        };
        assert_eq!(event(8, 79, u32::MAX, u32::MAX), xid(None, None));
        assert_eq!(event(8, 79, 9, 0), xid(Some(9), Some(0)));
        assert_eq!(
            event(0x8000, 0, u32::MAX, u32::MAX),
            Some(Event::Other("recovery_action"))
        );
        assert_eq!(event(0x4, 0, u32::MAX, u32::MAX), None);
    }
}
