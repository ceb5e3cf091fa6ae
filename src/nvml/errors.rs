//! What an error of the driver library means.

use super::{CallFailure, DriverError, Sample};
use nvml_wrapper::error::NvmlError;

/// The structure that was asked for is newer than the driver (`NVML_ERROR_ARGUMENT_VERSION_MISMATCH`).
const VERSION_MISMATCH: u32 = 25;
/// The driver no longer answers this call (`NVML_ERROR_DEPRECATED`).
const DEPRECATED: u32 = 26;

/// Collects the readings of one sample: what is missing, what failed, and whether anything was answered at all.
#[derive(Debug, Default)]
pub(super) struct Readings {
    answered: bool,
    failures: Vec<CallFailure>,
}

impl Readings {
    /// One reading; `None` where it is not supported or failed.
    pub(super) fn take<T>(
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
                let failure = CallFailure { call, code };
                // One call may give many readings, and has failed once.
                if !self.failures.contains(&failure) {
                    self.failures.push(failure);
                }
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// A GPU of which every reading failed is not known to be up.
    pub(super) fn finish(self, sample: Sample) -> Result<Sample, DriverError> {
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

    /// The failures, of readings that do not tell whether the GPU is up.
    pub(super) fn into_failures(self) -> Vec<CallFailure> {
        self.failures
    }
}

/// A reading that a GPU or a driver release may lack.
pub(super) fn optional<T>(
    call: &'static str,
    result: Result<T, NvmlError>,
) -> Result<Option<T>, DriverError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(
            NvmlError::NotSupported
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::VgpuEccNotSupported
            | NvmlError::NoData
            | NvmlError::UnexpectedVariant(VERSION_MISMATCH | DEPRECATED),
        ) => Ok(None),
        Err(error) => Err(failed(call, &error)),
    }
}

pub(super) fn failed(call: &'static str, error: &NvmlError) -> DriverError {
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
pub(super) fn code(error: &NvmlError) -> &'static str {
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
        NvmlError::UnexpectedVariant(27) => "not_ready",
        NvmlError::UnexpectedVariant(28) => "gpu_not_found",
        NvmlError::UnexpectedVariant(29) => "invalid_state",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_not_supported_is_absent_and_what_fails_is_counted_once() {
        let mut readings = Readings::default();
        assert_eq!(
            readings.take::<u32>("a", Err(NvmlError::NotSupported)),
            Ok(None)
        );
        for _ in 0..2 {
            assert_eq!(readings.take::<u32>("b", Err(NvmlError::Unknown)), Ok(None));
        }
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
    fn a_structure_that_is_too_new_for_the_driver_is_absent() {
        let newer = NvmlError::UnexpectedVariant(VERSION_MISMATCH);
        assert_eq!(optional::<u32>("a", Err(newer)), Ok(None));
        let other = NvmlError::UnexpectedVariant(4711);
        assert!(optional::<u32>("a", Err(other)).is_err());
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
