//! The calls that `nvml-wrapper` has no method for, through the symbols that it has loaded.
//!
//! Each symbol is looked at before it is called: a method of the `sys` crate panics where the library lacks it. All unsafe
//! code about the driver is here.

use super::sample::RemappedRows;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, FieldIdScheme, Nvml};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlEccSramErrorStatus_t, nvmlEventData_t, nvmlEventSet_t, nvmlFieldValue_t,
    nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfoV_t, nvmlMarginTemperature_t,
    nvmlRowRemapperHistogramValues_t,
};
use std::mem;

/// `NVML_STRUCT_VERSION` of `nvml.h`: the size of a structure and its version.
const fn version<T>(number: u32) -> u32 {
    // No structure of NVML is as large as 16 MiB.
    mem::size_of::<T>() as u32 | (number << 24)
}

fn handle(device: &Device<'_>) -> nvmlDevice_t {
    // SAFETY: it is only given to calls of the session that the device borrows.
    unsafe { device.handle() }
}

/// `nvmlDeviceGetRemappedRows`.
pub(super) fn remapped_rows(nvml: &Nvml, device: &Device<'_>) -> Result<RemappedRows, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetRemappedRows.as_ref())?;
    let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: the handle is of this session, and each pointer is to an integer that outlives the call.
    nvml_try(unsafe {
        call(
            handle(device),
            &mut corrected,
            &mut uncorrected,
            &mut pending,
            &mut failed,
        )
    })?;
    Ok(RemappedRows {
        corrected,
        uncorrected,
        pending: pending != 0,
        failed: failed != 0,
    })
}

/// `nvmlDeviceGetRowRemapperHistogram`.
pub(super) fn row_remapper_histogram(
    nvml: &Nvml,
    device: &Device<'_>,
) -> Result<nvmlRowRemapperHistogramValues_t, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetRowRemapperHistogram.as_ref())?;
    // SAFETY: five integers, for which 0 is a value.
    let mut values: nvmlRowRemapperHistogramValues_t = unsafe { mem::zeroed() };
    // SAFETY: the handle is of this session, and the pointer is to a structure that outlives the call.
    nvml_try(unsafe { call(handle(device), &mut values) })?;
    Ok(values)
}

/// `nvmlDeviceGetSramEccErrorStatus`.
pub(super) fn sram_errors(
    nvml: &Nvml,
    device: &Device<'_>,
) -> Result<nvmlEccSramErrorStatus_t, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetSramEccErrorStatus.as_ref())?;
    // SAFETY: integers, for which 0 is a value.
    let mut status: nvmlEccSramErrorStatus_t = unsafe { mem::zeroed() };
    status.version = version::<nvmlEccSramErrorStatus_t>(1);
    // SAFETY: the handle is of this session, and the pointer is to a structure of the version that it states.
    nvml_try(unsafe { call(handle(device), &mut status) })?;
    Ok(status)
}

/// `nvmlDeviceGetMarginTemperature`: degrees Celsius up to the nearest limit.
pub(super) fn temperature_margin(nvml: &Nvml, device: &Device<'_>) -> Result<i32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetMarginTemperature.as_ref())?;
    let mut margin = nvmlMarginTemperature_t {
        version: version::<nvmlMarginTemperature_t>(1),
        marginTemperature: 0,
    };
    // SAFETY: the handle is of this session, and the pointer is to a structure of the version that it states.
    nvml_try(unsafe { call(handle(device), &mut margin) })?;
    Ok(margin.marginTemperature)
}

/// `nvmlDeviceGetGpuFabricInfoV`, in its second version, which every driver with this call knows.
pub(super) fn fabric_info(
    nvml: &Nvml,
    device: &Device<'_>,
) -> Result<nvmlGpuFabricInfo_v2_t, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetGpuFabricInfoV.as_ref())?;
    // SAFETY: integers and an array of bytes, for which 0 is a value.
    let mut info: nvmlGpuFabricInfoV_t = unsafe { mem::zeroed() };
    info.version = version::<nvmlGpuFabricInfo_v2_t>(2);
    // SAFETY: the handle is of this session. The structure begins like the one of the version that it states, and is larger.
    nvml_try(unsafe { call(handle(device), &mut info) })?;
    Ok(nvmlGpuFabricInfo_v2_t {
        version: info.version,
        clusterUuid: info.clusterUuid,
        status: info.status,
        cliqueId: info.cliqueId,
        state: info.state,
        healthMask: info.healthMask,
    })
}

/// `nvmlDeviceGetGpuInstanceId`, of the handle of a MIG instance.
pub(super) fn gpu_instance(nvml: &Nvml, device: &Device<'_>) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetGpuInstanceId.as_ref())?;
    let mut id = 0;
    // SAFETY: the handle is of this session, and the pointer is to an integer that outlives the call.
    nvml_try(unsafe { call(handle(device), &mut id) })?;
    Ok(id)
}

/// `nvmlDeviceGetComputeInstanceId`, of the handle of a MIG instance.
pub(super) fn compute_instance(nvml: &Nvml, device: &Device<'_>) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetComputeInstanceId.as_ref())?;
    let mut id = 0;
    // SAFETY: the handle is of this session, and the pointer is to an integer that outlives the call.
    nvml_try(unsafe { call(handle(device), &mut id) })?;
    Ok(id)
}

/// `nvmlDeviceGetFieldValues`: values of fields in the order in which they are asked for, each with its scope (a link, or 0).
///
/// The wrapper's own call cannot tell a scope, does not know the signed type that limits of the temperature have, and cuts
/// some values to 32 bits.
pub(super) fn fields(
    nvml: &Nvml,
    device: &Device<'_>,
    asked: &[(u32, u32)],
) -> Result<Vec<Result<i64, NvmlError>>, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetFieldValues.as_ref())?;
    let mut values: Vec<nvmlFieldValue_t> = asked
        .iter()
        .map(|(field, scope)| {
            // SAFETY: integers and a union of numbers, for which 0 is a value.
            let mut value: nvmlFieldValue_t = unsafe { mem::zeroed() };
            value.fieldId = numbered(nvml.field_id_scheme(), *field);
            value.scopeId = *scope;
            value
        })
        .collect();
    let count = i32::try_from(values.len()).map_err(|_| NvmlError::InvalidArg)?;
    // SAFETY: the handle is of this session, and the pointer is to as many structures as are told.
    nvml_try(unsafe { call(handle(device), count, values.as_mut_ptr()) })?;
    Ok(values.iter().map(number).collect())
}

/// The number that this driver has given to a field: 580.82 moved those from 251 on, and broke with its own promise
/// (docs.nvidia.com/deploy/nvml-api/known-issues.html). `field` is the number before that.
fn numbered(scheme: FieldIdScheme, field: u32) -> u32 {
    match (scheme, field) {
        (FieldIdScheme::V13Update1, 251..=255) => field + 18,
        (FieldIdScheme::V13Update1, 256..=273) => field - 5,
        _ => field,
    }
}

fn number(value: &nvmlFieldValue_t) -> Result<i64, NvmlError> {
    nvml_try(value.nvmlReturn)?;
    // SAFETY: the type beside the union says which of its members was written; they are numbers, so any bits are a value.
    unsafe {
        Ok(match value.valueType {
            1 => i64::from(value.value.uiVal),
            2 | 3 => i64::try_from(value.value.ullVal).unwrap_or(i64::MAX),
            4 => value.value.sllVal,
            5 => i64::from(value.value.siVal),
            6 => i64::from(value.value.usVal),
            other => return Err(NvmlError::UnexpectedVariant(other)),
        })
    }
}

/// `nvmlDeviceGetNvLinkRemoteDeviceType`: a number of `nvmlIntNvLinkDeviceType_t`. The wrapper's own method lets the driver
/// write into a copy, and answers "unknown" whatever that says.
pub(super) fn link_peer(nvml: &Nvml, device: &Device<'_>, link: u32) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref())?;
    let mut kind = 0;
    // SAFETY: the handle is of this session, and the pointer is to an integer that outlives the call.
    nvml_try(unsafe { call(handle(device), link, &mut kind) })?;
    Ok(kind)
}

/// `nvmlDeviceGetSupportedEventTypes`.
pub(super) fn supported_events(nvml: &Nvml, device: &Device<'_>) -> Result<u64, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetSupportedEventTypes.as_ref())?;
    let mut types = 0;
    // SAFETY: the handle is of this session, and the pointer is to an integer that outlives the call.
    nvml_try(unsafe { call(handle(device), &mut types) })?;
    Ok(types)
}

/// A set of events. It ends before the session that it is of: whoever holds one holds that session too.
#[derive(Debug)]
pub(super) struct EventSet(nvmlEventSet_t);

// SAFETY: NVML asks only that a set is not used by two threads at once, and no method takes a shared reference.
unsafe impl Send for EventSet {}

impl EventSet {
    /// `nvmlEventSetCreate`. Without the call that frees it no set is created.
    pub(super) fn create(nvml: &Nvml) -> Result<Self, NvmlError> {
        let call = nvml_sym(nvml.lib().nvmlEventSetCreate.as_ref())?;
        nvml_sym(nvml.lib().nvmlEventSetFree.as_ref())?;
        let mut set: nvmlEventSet_t = std::ptr::null_mut();
        // SAFETY: the pointer is to a handle that outlives the call.
        nvml_try(unsafe { call(&mut set) })?;
        Ok(Self(set))
    }

    /// `nvmlDeviceRegisterEvents`.
    pub(super) fn register(
        &mut self,
        nvml: &Nvml,
        device: &Device<'_>,
        types: u64,
    ) -> Result<(), NvmlError> {
        let call = nvml_sym(nvml.lib().nvmlDeviceRegisterEvents.as_ref())?;
        // SAFETY: both handles are of this session, and the set has not been freed.
        nvml_try(unsafe { call(handle(device), types, self.0) })
    }

    /// `nvmlEventSetWait_v2`.
    pub(super) fn wait(
        &mut self,
        nvml: &Nvml,
        milliseconds: u32,
    ) -> Result<nvmlEventData_t, NvmlError> {
        let call = nvml_sym(nvml.lib().nvmlEventSetWait_v2.as_ref())?;
        // SAFETY: integers and a handle that is only compared, for which 0 is a value.
        let mut data: nvmlEventData_t = unsafe { mem::zeroed() };
        // SAFETY: the set has not been freed, and the pointer is to a structure that outlives the call.
        nvml_try(unsafe { call(self.0, &mut data, milliseconds) })?;
        Ok(data)
    }

    /// `nvmlEventSetFree`. A failure is of no use to anyone: the set is gone either way.
    pub(super) fn free(self, nvml: &Nvml) {
        if let Ok(call) = nvml.lib().nvmlEventSetFree.as_ref() {
            // SAFETY: the set is of this session, and nobody has it any more.
            let _ = unsafe { call(self.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn fields_from_251_on_have_two_numbers() {
        for (field, newer) in [
            (250, 250),
            (251, 269),
            (253, 271),
            (256, 251),
            (273, 268),
            (274, 274),
        ] {
            assert_eq!(numbered(FieldIdScheme::V12, field), field);
            assert_eq!(numbered(FieldIdScheme::V13Update1, field), newer);
        }
    }

    #[test]
    fn a_value_is_read_as_the_type_that_it_has() {
        // SAFETY: as above.
        let mut value: nvmlFieldValue_t = unsafe { mem::zeroed() };
        value.value.ullVal = u64::MAX;
        for (kind, expected) in [
            (1, i64::from(u32::MAX)),
            (3, i64::MAX),
            (4, -1),
            (5, -1),
            (6, 65535),
        ] {
            value.valueType = kind;
            assert_eq!(number(&value).unwrap(), expected);
        }
        value.valueType = 99;
        assert!(number(&value).is_err());
        value.nvmlReturn = 3;
        assert!(matches!(number(&value), Err(NvmlError::NotSupported)));
    }
}
