//! The scenario file: what the driver and each GPU answer.

use crate::readings::{Event, Readings};
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The environment variable that names the scenario file.
pub const SCENARIO_VARIABLE: &str = "FAKE_NVML_SCENARIO";

/// A file of this name beside the scenario is held open while the library is in use.
pub const DEVICE: &str = "nvidiactl";

/// The whole scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Whether the kernel driver behind the library answers.
    pub driver: DriverState,
    /// What the library reports as the driver's version.
    pub driver_version: String,
    /// Every call that concerns no single GPU hangs for so long.
    pub hang_seconds: f64,
    /// The GPUs, by index.
    pub gpus: Vec<Gpu>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            driver: DriverState::Loaded,
            driver_version: "570.124.06".to_owned(),
            hang_seconds: 0.0,
            gpus: Vec::new(),
        }
    }
}

/// The state of the kernel driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverState {
    /// It answers.
    Loaded,
    /// Every call is answered with `NVML_ERROR_DRIVER_NOT_LOADED`.
    NotLoaded,
    /// Every call is answered with `NVML_ERROR_LIB_RM_VERSION_MISMATCH`.
    VersionMismatch,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// `GPU-` and five groups of hexadecimal digits.
    pub uuid: String,
    /// As the driver writes it: `00000000:3B:00.0`.
    pub pci_bus_id: String,
    /// The product's name.
    #[serde(default = "default_name")]
    pub name: String,
    /// The board's serial number; `None`: not supported, as on GeForce.
    #[serde(default)]
    pub serial: Option<String>,
    /// The number in `/dev/nvidiaN`; the index where it is not given.
    #[serde(default)]
    pub minor: Option<u32>,
    /// Whether the GPU answers.
    #[serde(default)]
    pub state: GpuState,
    /// Each call that concerns this GPU hangs for so long, or until the file no longer says so.
    #[serde(default)]
    pub hang_seconds: f64,
    /// Degrees Celsius.
    #[serde(default = "default_temperature")]
    pub temperature: u32,
    /// Field 230; `None`: not supported, as before driver 565.
    #[serde(default = "default_recovery_action")]
    pub recovery_action: Option<u32>,
    /// ECC error counts.
    #[serde(default)]
    pub ecc: Ecc,
    /// Everything else; what is left out is not supported.
    #[serde(default)]
    pub readings: Readings,
    /// What happened; the list only grows.
    #[serde(default)]
    pub events: Vec<Event>,
    /// Functions that this driver does not have: answered with `NVML_ERROR_FUNCTION_NOT_FOUND`.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Functions that this GPU does not support: answered with `NVML_ERROR_NOT_SUPPORTED`.
    #[serde(default)]
    pub not_supported: Vec<String>,
    /// Functions that fail, each with its error code.
    #[serde(default)]
    pub errors: std::collections::BTreeMap<String, u32>,
}

fn default_name() -> String {
    "NVIDIA H100 80GB HBM3".to_owned()
}

fn default_temperature() -> u32 {
    41
}

// The driver of the default version has field 230, so a GPU that says nothing about it needs no recovery.
fn default_recovery_action() -> Option<u32> {
    Some(0)
}

/// Whether a GPU answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuState {
    /// It answers.
    #[default]
    Healthy,
    /// Every call is answered with `NVML_ERROR_GPU_IS_LOST`.
    Lost,
    /// Every call is answered with `NVML_ERROR_RESET_REQUIRED`.
    ResetRequired,
}

/// ECC error counts by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ecc {
    /// Corrected errors.
    pub corrected: EccCounts,
    /// Uncorrected errors.
    pub uncorrected: EccCounts,
}

/// ECC error counts of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EccCounts {
    /// Since the driver was loaded.
    pub volatile: u64,
    /// Over the life of the board.
    pub aggregate: u64,
}

impl Scenario {
    /// Healthy GPUs with made-up identities, `count` of them.
    #[must_use]
    pub fn healthy(count: u32) -> Self {
        Self {
            gpus: (0..count).map(Gpu::healthy).collect(),
            ..Self::default()
        }
    }

    /// The first two numbers of the driver's version.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        let mut numbers = self
            .driver_version
            .split('.')
            .map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// Says where and why the text is no scenario.
    pub fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        serde_saphyr::from_str(text)
    }

    /// Writes the file whole: another name first, then a rename, so that no reader sees half of it.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_saphyr::to_string(self).map_err(std::io::Error::other)?;
        let next = path.with_extension("next");
        std::fs::write(&next, text)?;
        std::fs::rename(&next, path)
    }
}

impl Gpu {
    /// A healthy GPU whose UUID, PCI bus id and serial number are made from its index.
    #[must_use]
    pub fn healthy(index: u32) -> Self {
        Self {
            uuid: format!("GPU-{index:08x}-0000-4000-8000-0000000000f0"),
            pci_bus_id: format!("00000000:{:02X}:00.0", 0x3b + index),
            name: default_name(),
            serial: Some(format!("165{index:010}")),
            minor: None,
            state: GpuState::Healthy,
            hang_seconds: 0.0,
            temperature: default_temperature(),
            recovery_action: default_recovery_action(),
            ecc: Ecc::default(),
            readings: Readings::default(),
            events: Vec::new(),
            absent: Vec::new(),
            not_supported: Vec::new(),
            errors: std::collections::BTreeMap::new(),
        }
    }
}

/// The file as it was read last, and the last good scenario.
#[derive(Default)]
struct Last {
    file: Option<Read>,
    scenario: Option<Arc<Scenario>>,
}

/// A file that was read. It is kept open, so that no other file gets its inode for as long.
struct Read {
    _open: File,
    version: Version,
}

/// What another content of a file changes: a file that was put in its place is another one, and one that was written
/// again has other times.
#[derive(PartialEq, Eq)]
struct Version {
    place: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    /// That of the file that is there now, if there is one.
    fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|now| Self::of(&now))
    }

    fn of(file: &Metadata) -> Self {
        Self {
            place: (file.dev(), file.ino()),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl Last {
    /// Reads the file where the version that is there is not the one that was read last; keeps the scenario where it
    /// cannot be read.
    ///
    /// To look is a hundred times cheaper than to read, and the driver is called a hundred times a second.
    fn look(&mut self, path: &Path, now: Option<Version>) {
        let Some(now) = now else {
            return;
        };
        if self.file.as_ref().is_some_and(|read| read.version == now) {
            return;
        }
        let read = || -> std::io::Result<(Read, String)> {
            let mut file = File::open(path)?;
            // Asked before it is read: what is written meanwhile is read again.
            let version = Version::of(&file.metadata()?);
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let read = Read {
                _open: file,
                version,
            };
            Ok((read, text))
        };
        if let Ok((read, text)) = read() {
            self.file = Some(read);
            self.update(&text);
        }
    }

    /// Takes in what the file holds now, and keeps what was where it is no scenario.
    fn update(&mut self, text: &str) {
        if let Ok(scenario) = Scenario::parse(text) {
            self.scenario = Some(Arc::new(scenario));
        }
    }
}

static LAST: Mutex<Last> = Mutex::new(Last {
    file: None,
    scenario: None,
});

/// Where the scenario is, as the environment said at the first call.
pub(crate) fn path() -> Option<&'static Path> {
    static PATH: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os(SCENARIO_VARIABLE).map(PathBuf::from));
    PATH.as_deref()
}

/// The scenario as the file says it now; the last good one while the file cannot be read or understood.
pub(crate) fn current() -> Option<Arc<Scenario>> {
    // Looked at before: the threads of a program do not wait for each other's looks.
    let found = path().map(|path| (path, Version::at(path)));
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((path, now)) = found {
        last.look(path, now);
    }
    last.scenario.clone()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut scenario = Scenario::healthy(2);
        scenario.gpus[1].state = GpuState::Lost;
        scenario.gpus[1]
            .errors
            .insert("nvmlDeviceGetTemperature".into(), 999);
        let directory = std::env::temp_dir().join(format!("fake-driver-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("scenario.yaml");
        scenario.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(Scenario::parse(&text).unwrap(), scenario, "{text}");
    }

    #[test]
    fn a_short_file_is_enough() {
        let text = "gpus:\n  - {uuid: GPU-1, pci_bus_id: '00000000:3B:00.0'}\n  - uuid: GPU-2\n    pci_bus_id: '00000000:5E:00.0'\n    state: lost\n";
        let scenario = Scenario::parse(text).unwrap();
        assert_eq!(scenario.gpus[0].state, GpuState::Healthy);
        assert_eq!(scenario.gpus[0].recovery_action, Some(0));
        assert_eq!(scenario.gpus[1].state, GpuState::Lost);
    }

    #[test]
    fn half_a_file_changes_nothing() {
        let mut last = Last::default();
        let text = serde_saphyr::to_string(&Scenario::healthy(2)).unwrap();
        last.update(&(text[..text.len() / 3].to_owned() + ": ["));
        assert_eq!(last.scenario, None);
        last.update(&text);
        assert_eq!(last.scenario.as_deref(), Some(&Scenario::healthy(2)));
        last.update("gpus:\n  - {uuid: GPU");
        assert_eq!(last.scenario.as_deref(), Some(&Scenario::healthy(2)));
        last.update(&serde_saphyr::to_string(&Scenario::healthy(3)).unwrap());
        assert_eq!(last.scenario.as_deref(), Some(&Scenario::healthy(3)));
    }

    #[test]
    fn each_of_many_changes_in_a_row_is_seen_and_what_did_not_change_is_not_read_again() {
        let directory =
            std::env::temp_dir().join(format!("fake-driver-many-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("scenario.yaml");
        let mut last = Last::default();
        last.look(&path, Version::at(&path));
        assert_eq!(last.scenario, None, "there is none yet");
        let mut scenario = Scenario::healthy(1);
        for round in 0..300 {
            // All are of one length, and several come within one tick of the file system's clock.
            for temperature in [10 + round % 7, 20 + round % 7, 30 + round % 7] {
                scenario.gpus[0].temperature = temperature;
                scenario.write(&path).unwrap();
            }
            last.look(&path, Version::at(&path));
            assert_eq!(last.scenario.as_deref(), Some(&scenario));
            let seen = last.scenario.clone().unwrap();
            last.look(&path, Version::at(&path));
            assert!(Arc::ptr_eq(&seen, last.scenario.as_ref().unwrap()));
        }
        std::fs::remove_file(&path).unwrap();
        last.look(&path, Version::at(&path));
        assert_eq!(last.scenario.as_deref(), Some(&scenario));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(Scenario::parse("gpu: []").is_err());
    }
}
