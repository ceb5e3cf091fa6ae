//! The GPU driver: what is asked of it, the library that answers, and a simulated one.

mod bus;
mod errors;
mod events;
mod library;
mod raw;
mod readings;
mod sample;
mod scenario;
mod simulated;

use crate::xid::PciAddress;
use std::sync::Arc;
use std::time::Duration;

pub use bus::{BusDevices, PciBus};
pub use library::Library;
pub use sample::{
    CLOCK_EVENTS, Details, EccCount, Fabric, Instance, Labelled, Link, Links, Memory, RemappedRows,
    Sample, Sram, Usage,
};
pub use scenario::{Scenario, ScenarioDriver, ScenarioError, ScenarioLog, Simulation};
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

    /// The newest CUDA version that it supports; `None` where it does not tell.
    fn cuda_version(&self) -> Option<String> {
        None
    }

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

    /// How the GPU is, without the groups that are asked for less often.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer.
    fn sample(&self, index: u32) -> Result<Sample, DriverError>;

    /// How busy the GPU is; and the calls that failed.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer.
    fn usage(&self, index: u32) -> Result<(Usage, Vec<CallFailure>), DriverError> {
        let _ = index;
        Ok(Default::default())
    }

    /// The GPU's NVLinks, and the fabric that they make; and the calls that failed.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer.
    fn links(&self, index: u32) -> Result<(Links, Vec<CallFailure>), DriverError> {
        let _ = index;
        Ok(Default::default())
    }

    /// What the GPU is divided into; and the calls that failed.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer.
    fn instances(&self, index: u32) -> Result<(Vec<Instance>, Vec<CallFailure>), DriverError> {
        let _ = index;
        Ok(Default::default())
    }

    /// Registers for what the driver tells of a GPU by itself; `None` where it tells nothing. What happened before is not
    /// told. Whoever holds the answer holds the session.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer.
    fn events(self: Arc<Self>, index: u32) -> Result<Option<Box<dyn Events>>, DriverError> {
        let _ = index;
        Ok(None)
    }

    /// What changes rarely about the GPU; and the calls that failed.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer.
    fn details(&self, index: u32) -> Result<(Details, Vec<CallFailure>), DriverError> {
        let _ = index;
        Ok(Default::default())
    }
}

/// Something that the driver told by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An Xid.
    Xid {
        /// Its number; [`UNKNOWN_XID`] where the library cannot tell it.
        code: u32,
        /// The GPU instance that it is of, on a divided GPU.
        gpu_instance: Option<u32>,
        /// The compute instance.
        compute_instance: Option<u32>,
    },
    /// Another, by its name.
    Other(&'static str),
}

/// What the driver library calls an Xid that it does not know.
pub const UNKNOWN_XID: u32 = 999;

/// The events of one GPU.
pub trait Events: Send {
    /// The names that [`Event::Other`] may have.
    fn others(&self) -> Vec<&'static str>;

    /// Waits for the next event; `None` where there was none in time, or one that says nothing.
    ///
    /// # Errors
    ///
    /// The GPU or the driver does not answer: this ends, and another must be begun.
    fn next(&mut self, wait: Duration) -> Result<Option<Event>, DriverError>;
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
