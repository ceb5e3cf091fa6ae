//! The GPUs and NVSwitches that the kernel sees on the PCI bus, whatever the driver says of them.

use crate::xid::PciAddress;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// NVIDIA's vendor number (pci-ids).
const NVIDIA: &str = "0x10de";
/// Display controllers: `0x0300` for those with a display, `0x0302` for those without.
const GPU_CLASSES: [&str; 2] = ["0x0300", "0x0302"];
/// Other bridges, which an NVSwitch is.
const SWITCH_CLASS: &str = "0x0680";
/// Whose device it is where this driver has it; without a driver it is one that the driver failed to start.
const OURS: &str = "nvidia";
/// Whose an NVSwitch is.
const SWITCH_DRIVER: &str = "nvidia-nvswitch";

/// The GPUs and NVSwitches on the bus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BusDevices {
    /// GPUs that the driver has or should have.
    pub ours: BTreeSet<PciAddress>,
    /// GPUs that were handed to another driver, for example to a virtual machine with `vfio-pci`.
    pub others: BTreeSet<PciAddress>,
    /// NVSwitches that the driver has.
    pub switches: BTreeSet<PciAddress>,
}

/// The PCI devices of this machine, as sysfs shows them (Documentation/ABI/testing/sysfs-bus-pci).
#[derive(Debug, Clone)]
pub struct PciBus {
    devices: PathBuf,
}

impl PciBus {
    /// The devices below a sysfs that is mounted at `sysfs`, usually `/sys`.
    #[must_use]
    pub fn new(sysfs: &Path) -> Self {
        Self {
            devices: sysfs.join("bus/pci/devices"),
        }
    }

    /// The GPUs, by whose they are, and the NVSwitches.
    ///
    /// # Errors
    ///
    /// The devices cannot be listed. One that goes away meanwhile is passed over.
    pub fn devices(&self) -> io::Result<BusDevices> {
        let mut found = BusDevices::default();
        for device in std::fs::read_dir(&self.devices)? {
            let device = device?;
            let address = device.file_name();
            let Some(address) = address.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            match kind_of(&device.path()) {
                Some(Kind::Ours) => found.ours.insert(address),
                Some(Kind::Others) => found.others.insert(address),
                Some(Kind::Switch) => found.switches.insert(address),
                None => continue,
            };
        }
        Ok(found)
    }
}

/// What a device is, and whose.
enum Kind {
    Ours,
    Others,
    Switch,
}

fn kind_of(device: &Path) -> Option<Kind> {
    let read = |file: &str| std::fs::read_to_string(device.join(file)).unwrap_or_default();
    if read("vendor").trim() != NVIDIA {
        return None;
    }
    let class = read("class");
    let driver = std::fs::read_link(device.join("driver")).ok();
    let driver = driver
        .as_deref()
        .map(|path| path.file_name().unwrap_or_default());
    if GPU_CLASSES.iter().any(|gpu| class.starts_with(gpu)) {
        let ours = driver.is_none_or(|name| name == OURS);
        Some(if ours { Kind::Ours } else { Kind::Others })
    } else if class.starts_with(SWITCH_CLASS) && driver.is_some_and(|name| name == SWITCH_DRIVER) {
        Some(Kind::Switch)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    fn device(root: &Path, address: &str, vendor: &str, class: &str, driver: Option<&str>) {
        let path = root.join("bus/pci/devices").join(address);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("vendor"), format!("{vendor}\n")).unwrap();
        std::fs::write(path.join("class"), format!("{class}\n")).unwrap();
        if let Some(driver) = driver {
            symlink(
                format!("../../../bus/pci/drivers/{driver}"),
                path.join("driver"),
            )
            .unwrap();
        }
    }

    #[test]
    fn gpus_that_the_driver_has_or_should_have() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        device(root, "0000:3b:00.0", "0x10de", "0x030200", Some("nvidia"));
        device(root, "0000:5e:00.0", "0x10de", "0x030000", None);
        device(root, "0000:af:00.0", "0x10de", "0x030200", Some("vfio-pci"));
        device(
            root,
            "0000:c1:00.0",
            "0x10de",
            "0x068000",
            Some("nvidia-nvswitch"),
        );
        device(root, "0000:c2:00.0", "0x10de", "0x068000", Some("pcieport"));
        device(root, "0000:00:02.0", "0x8086", "0x030000", Some("i915"));
        let found = PciBus::new(root).devices().unwrap();
        let names = |gpus: &BTreeSet<PciAddress>| -> Vec<_> {
            gpus.iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(&found.ours), ["0000:3b:00", "0000:5e:00"]);
        assert_eq!(names(&found.others), ["0000:af:00"]);
        assert_eq!(names(&found.switches), ["0000:c1:00"]);
    }

    #[test]
    fn a_machine_without_such_a_bus() {
        let root = tempfile::tempdir().unwrap();
        assert!(PciBus::new(root.path()).devices().is_err());
    }
}
