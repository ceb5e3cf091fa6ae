//! NVIDIA's management library (NVML), through `nvml-wrapper`.

use super::{CallFailure, Driver, DriverError, DriverSource, EccCount, Identity, Sample};
use crate::xid::RecoveryAction;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
use nvml_wrapper::{Device, Nvml};
use std::path::PathBuf;
use std::sync::Arc;

/// The names under which the library is looked for. The driver's own packages bring only the first.
const DEFAULT_NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// Where the library is loaded from.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// `None`: where the dynamic linker finds it.
    pub path: Option<PathBuf>,
}

impl DriverSource for Library {
    fn open(&self) -> Result<Arc<dyn Driver>, DriverError> {
        let nvml = match &self.path {
            Some(path) => init(path.as_os_str())?,
            None => init(DEFAULT_NAMES[0].as_ref()).or_else(|first| match first {
                DriverError::Load(_) => init(DEFAULT_NAMES[1].as_ref()).map_err(|_| first),
                other => Err(other),
            })?,
        };
        Ok(Arc::new(Session { nvml }))
    }
}

fn init(path: &std::ffi::OsStr) -> Result<Nvml, DriverError> {
    Nvml::builder()
        .lib_path(path)
        .init()
        .map_err(|error| match error {
            NvmlError::LibloadingError(source) => DriverError::Load(source.to_string()),
            NvmlError::FailedToLoadSymbol(symbol) => DriverError::Load(symbol),
            other => DriverError::Gone {
                call: "nvmlInit_v2",
                code: code(&other),
            },
        })
}

struct Session {
    nvml: Nvml,
}

impl Session {
    fn device(&self, index: u32) -> Result<Device<'_>, DriverError> {
        self.nvml
            .device_by_index(index)
            .map_err(|error| failed("nvmlDeviceGetHandleByIndex_v2", &error))
    }
}

impl Driver for Session {
    fn version(&self) -> Result<String, DriverError> {
        self.nvml
            .sys_driver_version()
            .map_err(|error| failed("nvmlSystemGetDriverVersion", &error))
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        self.nvml
            .device_count()
            .map_err(|error| failed("nvmlDeviceGetCount_v2", &error))
    }

    fn identity(&self, index: u32) -> Result<Identity, DriverError> {
        let device = self.device(index)?;
        let pci = device
            .pci_info()
            .map_err(|error| failed("nvmlDeviceGetPciInfo_v3", &error))?;
        Ok(Identity {
            index,
            uuid: device
                .uuid()
                .map_err(|error| failed("nvmlDeviceGetUUID", &error))?,
            pci: pci.bus_id.parse().map_err(|_| DriverError::Call {
                call: "nvmlDeviceGetPciInfo_v3",
                code: "malformed",
            })?,
            minor: optional("nvmlDeviceGetMinorNumber", device.minor_number())?.unwrap_or(index),
            model: device
                .name()
                .map_err(|error| failed("nvmlDeviceGetName", &error))?,
            serial: optional("nvmlDeviceGetSerial", device.serial())?,
            vbios: optional("nvmlDeviceGetVbiosVersion", device.vbios_version())?,
        })
    }

    fn sample(&self, index: u32) -> Result<Sample, DriverError> {
        let device = self.device(index)?;
        let mut readings = Readings::default();
        let recovery_action =
            readings.take("nvmlDeviceGetFieldValues", recovery_action(&device))?;
        let temperature = readings.take(
            "nvmlDeviceGetTemperature",
            device.temperature(TemperatureSensor::Gpu),
        )?;
        let mut ecc = Vec::with_capacity(4);
        for (corrected, aggregate) in [(true, false), (true, true), (false, false), (false, true)] {
            let kind = if corrected {
                MemoryError::Corrected
            } else {
                MemoryError::Uncorrected
            };
            let counter = if aggregate {
                EccCounter::Aggregate
            } else {
                EccCounter::Volatile
            };
            let count = readings.take(
                "nvmlDeviceGetTotalEccErrors",
                device.total_ecc_errors(kind, counter),
            )?;
            ecc.extend(count.map(|count| EccCount {
                corrected,
                aggregate,
                count,
            }));
        }
        readings.finish(Sample {
            recovery_action,
            ecc,
            temperature,
            failures: Vec::new(),
        })
    }
}

fn recovery_action(device: &Device<'_>) -> Result<RecoveryAction, NvmlError> {
    let values = device.field_values_for(&[FieldId(NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)])?;
    // By position: the wrapper may return another field number than the one that was asked for.
    let value = values.into_iter().next().ok_or(NvmlError::NoData)??.value?;
    Ok(RecoveryAction(match value {
        SampleValue::U32(number) => number,
        SampleValue::U64(number) => {
            u32::try_from(number).map_err(|_| NvmlError::UnexpectedVariant(u32::MAX))?
        }
        _ => return Err(NvmlError::UnexpectedVariant(u32::MAX)),
    }))
}

/// Collects the readings of one sample: what is missing, what failed, and whether anything was answered at all.
#[derive(Default)]
struct Readings {
    answered: bool,
    failures: Vec<CallFailure>,
}

impl Readings {
    fn take<T>(
        &mut self,
        call: &'static str,
        result: Result<T, NvmlError>,
    ) -> Result<Option<T>, DriverError> {
        match optional(call, result) {
            Ok(value) => {
                // Not supported is an answer too.
                self.answered = true;
                Ok(value)
            }
            Err(DriverError::Call { call, code }) => {
                self.failures.push(CallFailure { call, code });
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// A GPU of which every reading failed is not known to be up.
    fn finish(self, sample: Sample) -> Result<Sample, DriverError> {
        match self.failures.first() {
            Some(failure) if !self.answered => Err(DriverError::Call {
                call: failure.call,
                code: failure.code,
            }),
            _ => Ok(Sample {
                failures: self.failures,
                ..sample
            }),
        }
    }
}

/// A reading that a GPU or a driver release may lack.
fn optional<T>(call: &'static str, result: Result<T, NvmlError>) -> Result<Option<T>, DriverError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(
            NvmlError::NotSupported
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::NoData,
        ) => Ok(None),
        Err(error) => Err(failed(call, &error)),
    }
}

fn failed(call: &'static str, error: &NvmlError) -> DriverError {
    let code = code(error);
    match error {
        NvmlError::GpuLost => DriverError::GpuLost,
        NvmlError::ResetRequired => DriverError::ResetRequired,
        NvmlError::Uninitialized
        | NvmlError::DriverNotLoaded
        | NvmlError::LibRmVersionMismatch
        | NvmlError::LibraryNotFound => DriverError::Gone { call, code },
        _ => DriverError::Call { call, code },
    }
}

/// The name of the error in `nvml.h`, in lower case and without its prefix.
fn code(error: &NvmlError) -> &'static str {
    match error {
        NvmlError::Uninitialized => "uninitialized",
        NvmlError::InvalidArg => "invalid_argument",
        NvmlError::NotSupported => "not_supported",
        NvmlError::NoPermission => "no_permission",
        NvmlError::NotFound => "not_found",
        NvmlError::InsufficientSize(_) => "insufficient_size",
        NvmlError::InsufficientPower => "insufficient_power",
        NvmlError::DriverNotLoaded => "driver_not_loaded",
        NvmlError::Timeout => "timeout",
        NvmlError::IrqIssue => "irq_issue",
        NvmlError::LibraryNotFound => "library_not_found",
        NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_) => "function_not_found",
        NvmlError::CorruptedInfoROM => "corrupted_inforom",
        NvmlError::GpuLost => "gpu_is_lost",
        NvmlError::ResetRequired => "reset_required",
        NvmlError::OperatingSystem => "operating_system",
        NvmlError::LibRmVersionMismatch => "lib_rm_version_mismatch",
        NvmlError::InUse => "in_use",
        NvmlError::InsufficientMemory => "memory",
        NvmlError::NoData => "no_data",
        NvmlError::Utf8Error(_) | NvmlError::NulError(_) => "malformed",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_library_that_is_not_there() {
        let source = Library {
            path: Some("/nonexistent/libnvidia-ml.so.1".into()),
        };
        let error = source.open().map(|_| ()).unwrap_err();
        assert!(
            matches!(&error, DriverError::Load(text) if text.contains("/nonexistent/")),
            "{error}"
        );
        assert!(error.ends_session());
    }

    #[test]
    fn what_is_not_supported_is_absent_and_what_fails_is_counted() {
        let mut readings = Readings::default();
        assert_eq!(
            readings.take::<u32>("a", Err(NvmlError::NotSupported)),
            Ok(None)
        );
        assert_eq!(readings.take::<u32>("b", Err(NvmlError::Unknown)), Ok(None));
        let sample = readings.finish(Sample::default()).unwrap();
        assert_eq!(
            sample.failures,
            [CallFailure {
                call: "b",
                code: "unknown"
            }]
        );
    }

    #[test]
    fn what_a_library_lacks_is_absent_or_a_failed_call_and_ends_no_session() {
        let missing = || NvmlError::FailedToLoadSymbol("no such symbol".to_owned());
        assert_eq!(optional::<u32>("a", Err(missing())), Ok(None));
        let error = failed("a", &missing());
        assert_eq!(error.code(), "function_not_found");
        assert!(!error.ends_session());
    }

    #[test]
    fn a_gpu_of_which_nothing_can_be_read_is_not_up() {
        let mut readings = Readings::default();
        readings.take::<u32>("a", Err(NvmlError::Unknown)).unwrap();
        let error = readings.finish(Sample::default()).unwrap_err();
        assert_eq!(
            error,
            DriverError::Call {
                call: "a",
                code: "unknown"
            }
        );
    }

    #[test]
    fn a_lost_gpu_ends_the_sample_and_a_missing_driver_the_session() {
        assert_eq!(failed("a", &NvmlError::GpuLost), DriverError::GpuLost);
        assert!(!failed("a", &NvmlError::GpuLost).ends_session());
        assert!(failed("a", &NvmlError::DriverNotLoaded).ends_session());
        assert!(failed("a", &NvmlError::Uninitialized).ends_session());
    }
}
