//! The GPUs that the kernel sees on the PCI bus, whatever the driver says of them.

use crate::xid::PciAddress;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// NVIDIA's vendor number (pci-ids).
const NVIDIA: &str = "0x10de";
/// Display controllers: `0x0300` for those with a display, `0x0302` for those without. An NVSwitch is a bridge, `0x0680`.
const GPU_CLASSES: [&str; 2] = ["0x0300", "0x0302"];
/// Whose device it is where this driver has it; without a driver it is one that the driver failed to start.
const OURS: &str = "nvidia";

/// The GPUs on the bus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BusGpus {
    /// Those that the driver has or should have.
    pub ours: BTreeSet<PciAddress>,
    /// Those that were handed to another driver, for example to a virtual machine with `vfio-pci`.
    pub others: BTreeSet<PciAddress>,
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

    /// The GPUs, by whose they are.
    ///
    /// # Errors
    ///
    /// The devices cannot be listed. One that goes away meanwhile is passed over.
    pub fn gpus(&self) -> io::Result<BusGpus> {
        let mut found = BusGpus::default();
        for device in std::fs::read_dir(&self.devices)? {
            let device = device?;
            let address = device.file_name();
            let Some(address) = address.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if is_gpu(&device.path()) {
                let gpus = match is_ours(&device.path()) {
                    true => &mut found.ours,
                    false => &mut found.others,
                };
                gpus.insert(address);
            }
        }
        Ok(found)
    }
}

fn is_gpu(device: &Path) -> bool {
    let read = |file: &str| std::fs::read_to_string(device.join(file)).unwrap_or_default();
    let class = read("class");
    read("vendor").trim() == NVIDIA && GPU_CLASSES.iter().any(|gpu| class.starts_with(gpu))
}

fn is_ours(device: &Path) -> bool {
    match std::fs::read_link(device.join("driver")) {
        Ok(driver) => driver.file_name().is_some_and(|name| name == OURS),
        Err(_) => true,
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
        device(root, "0000:00:02.0", "0x8086", "0x030000", Some("i915"));
        let gpus = PciBus::new(root).gpus().unwrap();
        let names = |gpus: &BTreeSet<PciAddress>| -> Vec<_> {
            gpus.iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(&gpus.ours), ["0000:3b:00", "0000:5e:00"]);
        assert_eq!(names(&gpus.others), ["0000:af:00"]);
    }

    #[test]
    fn a_machine_without_such_a_bus() {
        let root = tempfile::tempdir().unwrap();
        assert!(PciBus::new(root.path()).gpus().is_err());
    }
}
