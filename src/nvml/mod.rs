//! The GPU driver: what is asked of it, the library that answers, and a simulated one.

mod library;
mod simulated;

use crate::xid::{PciAddress, RecoveryAction};
use std::sync::Arc;

pub use library::Library;
pub use simulated::SimulatedGpus;

/// Who a GPU is. Everything here outlives a lost GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The index that the driver gave it.
    pub index: u32,
    /// `GPU-` and five groups of hexadecimal digits.
    pub uuid: String,
    /// Where it is plugged in.
    pub pci: PciAddress,
    /// The number in `/dev/nvidiaN`; the index where the driver does not tell.
    pub minor: u32,
    /// The product's name.
    pub model: String,
    /// The board's serial number, where it has one.
    pub serial: Option<String>,
    /// The version of the GPU's firmware.
    pub vbios: Option<String>,
}

/// How an ECC error count is kept and what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EccCount {
    /// Whether the memory could put the errors right.
    pub corrected: bool,
    /// Whether the count is kept over the life of the board; otherwise it starts with the driver.
    pub aggregate: bool,
    /// The errors.
    pub count: u64,
}

/// What one GPU answered. What it does not support is absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// What the driver says the GPU needs; drivers since 565.
    pub recovery_action: Option<RecoveryAction>,
    /// ECC error counts.
    pub ecc: Vec<EccCount>,
    /// Degrees Celsius of the GPU's own sensor.
    pub temperature: Option<u32>,
    /// Calls that failed for another reason than not being supported.
    pub failures: Vec<CallFailure>,
}

/// One call that failed and did not end the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// The function's name in the driver library.
    pub call: &'static str,
    /// Why, as a short constant word.
    pub code: &'static str,
}

/// Why the driver or a GPU did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The driver library cannot be loaded.
    #[error("cannot load the driver library: {0}")]
    Load(String),
    /// The library is there and the kernel driver is not, or is another one, or has gone since.
    #[error("the driver does not answer ({call}: {code})")]
    Gone {
        /// The function that was called.
        call: &'static str,
        /// Its error.
        code: &'static str,
    },
    /// The GPU has fallen off the bus or cannot be reached otherwise.
    #[error("the GPU is lost")]
    GpuLost,
    /// The GPU must be reset before it can be used.
    #[error("the GPU must be reset")]
    ResetRequired,
    /// Another failure.
    #[error("{call} failed: {code}")]
    Call {
        /// The function that was called.
        call: &'static str,
        /// Its error.
        code: &'static str,
    },
}

impl DriverError {
    /// A short constant word, for a label.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Load(_) => "library_not_found",
            Self::Gone { code, .. } | Self::Call { code, .. } => code,
            Self::GpuLost => "gpu_is_lost",
            Self::ResetRequired => "reset_required",
        }
    }

    /// Whether it concerns the driver as a whole: the session with it is over.
    #[must_use]
    pub fn ends_session(&self) -> bool {
        matches!(self, Self::Load(_) | Self::Gone { .. })
    }
}

/// A session with a loaded driver. A call may block for as long as the driver likes.
pub trait Driver: Send + Sync {
    /// The driver's version.
    ///
    /// # Errors
    ///
    /// The driver does not answer.
    fn version(&self) -> Result<String, DriverError>;

    /// How many GPUs there are; indices go from 0 to one less.
    ///
    /// # Errors
    ///
    /// The driver does not answer.
    fn gpu_count(&self) -> Result<u32, DriverError>;

    /// Who the GPU is.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer.
    fn identity(&self, index: u32) -> Result<Identity, DriverError>;

    /// How the GPU is.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer.
    fn sample(&self, index: u32) -> Result<Sample, DriverError>;
}

/// Where a driver comes from. It is asked again after the driver has gone.
pub trait DriverSource: Send {
    /// Begins a session.
    ///
    /// # Errors
    ///
    /// There is no driver now.
    fn open(&self) -> Result<Arc<dyn Driver>, DriverError>;
}
