//! NVIDIA's management library (NVML), through `nvml-wrapper`.

use super::errors::{code, failed, optional};
use super::readings::Reader;
use super::{
    CallFailure, Details, Driver, DriverError, DriverSource, Events, Identity, Instance, Links,
    Sample, Usage, events,
};
use nvml_wrapper::error::NvmlError;
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

pub(super) struct Session {
    nvml: Nvml,
}

impl Session {
    pub(super) fn nvml(&self) -> &Nvml {
        &self.nvml
    }

    pub(super) fn device(&self, index: u32) -> Result<Device<'_>, DriverError> {
        self.nvml
            .device_by_index(index)
            .map_err(|error| failed("nvmlDeviceGetHandleByIndex_v2", &error))
    }

    fn reader(&self, index: u32) -> Result<Reader<'_>, DriverError> {
        Ok(Reader::new(&self.nvml, self.device(index)?))
    }
}

impl Driver for Session {
    fn version(&self) -> Result<String, DriverError> {
        self.nvml
            .sys_driver_version()
            .map_err(|error| failed("nvmlSystemGetDriverVersion", &error))
    }

    fn cuda_version(&self) -> Option<String> {
        let version = self.nvml.sys_cuda_driver_version().ok()?;
        let (major, minor) = (version / 1000, version % 1000 / 10);
        Some(format!("{major}.{minor}"))
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
        self.reader(index)?.sample()
    }

    fn usage(&self, index: u32) -> Result<(Usage, Vec<CallFailure>), DriverError> {
        self.reader(index)?.usage()
    }

    fn links(&self, index: u32) -> Result<(Links, Vec<CallFailure>), DriverError> {
        self.reader(index)?.links()
    }

    fn instances(&self, index: u32) -> Result<(Vec<Instance>, Vec<CallFailure>), DriverError> {
        self.reader(index)?.instances()
    }

    fn events(self: Arc<Self>, index: u32) -> Result<Option<Box<dyn Events>>, DriverError> {
        events::register(self, index)
    }

    fn details(&self, index: u32) -> Result<(Details, Vec<CallFailure>), DriverError> {
        self.reader(index)?.details()
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
}
