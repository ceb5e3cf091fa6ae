//! The Xid codes and what NVIDIA says of them, as data.
//!
//! Source of each row: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html). The class is
//! this product's reading of it: what the code alone is evidence of. A code that is not here is no fault of the
//! hardware until someone says so.

use Class::{Application, Fabric, Hardware, Informational, Software, Sympathetic};
use Resolution::{
    CheckMechanics, CheckUvm, ContactSupport, FollowRecoveryAction, Ignore, RebootNode,
    RebootVirtualMachine, ResetGpu, RestartApplication, Unstated, UpdateSoftware, Workflow,
};

/// What a code is evidence of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The GPU.
    Hardware,
    /// The links between GPUs. A peer may report it when another GPU dies.
    Fabric,
    /// The driver's verdict (Xid 154): its text says what the GPU needs.
    RecoveryAction,
    /// The program that ran. Never isolates anything.
    Application,
    /// Another Xid, which came before it.
    Sympathetic,
    /// Driver, firmware or configuration.
    Software,
    /// Nothing that needs an action.
    Informational,
}

/// What NVIDIA's catalogue says to do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// Nothing.
    Ignore,
    /// Restart the application.
    RestartApplication,
    /// End the GPU's processes and reset it.
    ResetGpu,
    /// Restart the guest.
    RebootVirtualMachine,
    /// Restart the machine.
    RebootNode,
    /// Look at what is plugged in.
    CheckMechanics,
    /// Look at the unified memory driver's own report.
    CheckUvm,
    /// Update driver or firmware.
    UpdateSoftware,
    /// A person, with NVIDIA.
    ContactSupport,
    /// What the Xid 154 beside it says.
    FollowRecoveryAction,
    /// A procedure of several steps of the catalogue's.
    Workflow,
    /// The catalogue gives none.
    Unstated,
}

/// One code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The Xid's number.
    pub code: u32,
    /// A short description.
    pub meaning: &'static str,
    /// NVIDIA's immediate action.
    pub resolution: Resolution,
    /// What it is evidence of.
    pub class: Class,
    /// The driver branch from which an Xid 154 follows this code and confirms it.
    pub confirmed_since: Option<u16>,
    /// Where the row comes from.
    pub source: Source,
}

/// Where a row comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// NVIDIA's Xid catalogue, docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.
    Catalogue,
    /// The header `nverror.h` of NVIDIA's open kernel modules, release 595; the catalogue has no such row yet.
    KernelModule,
}

impl Source {
    /// Its name and address.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Catalogue => {
                "NVIDIA Xid catalogue (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html)"
            }
            Self::KernelModule => {
                "nverror.h of NVIDIA's open kernel modules, release 595 (github.com/NVIDIA/open-gpu-kernel-modules)"
            }
        }
    }
}

impl Class {
    /// A word for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Fabric => "fabric",
            Self::RecoveryAction => "recovery-action",
            Self::Application => "application",
            Self::Sympathetic => "sympathetic",
            Self::Software => "software",
            Self::Informational => "informational",
        }
    }
}

impl Resolution {
    /// The name of the bucket in NVIDIA's catalogue.
    #[must_use]
    pub const fn bucket(self) -> &'static str {
        match self {
            Self::Ignore => "IGNORE",
            Self::RestartApplication => "RESTART_APP",
            Self::ResetGpu => "RESET_GPU",
            Self::RebootVirtualMachine => "RESTART_VM",
            Self::RebootNode => "RESTART_BM",
            Self::CheckMechanics => "CHECK_MECHANICALS",
            Self::CheckUvm => "CHECK_UVM",
            Self::UpdateSoftware => "UPDATE_SWFW",
            Self::ContactSupport => "CONTACT_SUPPORT",
            Self::FollowRecoveryAction => "XID_154",
            Self::Workflow => "WORKFLOW",
            Self::Unstated => "none given",
        }
    }

    /// What is to be done at once, in words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ignore => "nothing",
            Self::RestartApplication => "restart the application",
            Self::ResetGpu => "end the processes of the GPU and reset it",
            Self::RebootVirtualMachine => "restart the virtual machine",
            Self::RebootNode => "restart the machine",
            Self::CheckMechanics => "check cables, power and seating",
            Self::CheckUvm => "look at what the unified memory driver reported",
            Self::UpdateSoftware => "update driver or firmware",
            Self::ContactSupport => "ask NVIDIA's support",
            Self::FollowRecoveryAction => "do what its own text says",
            Self::Workflow => "follow NVIDIA's procedure for this code",
            Self::Unstated => "NVIDIA gives none",
        }
    }
}

impl Entry {
    /// Whether the exporter has a series for this code before it is ever seen, so that its first event is an increase.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        matches!(self.class, Hardware | Fabric | Class::RecoveryAction)
    }
}

/// All codes, in order.
#[must_use]
pub fn all() -> &'static [Entry] {
    ENTRIES
}

/// The entry of a code.
#[must_use]
pub fn find(code: u32) -> Option<&'static Entry> {
    let place = ENTRIES
        .binary_search_by_key(&code, |entry| entry.code)
        .ok()?;
    ENTRIES.get(place)
}

/// The codes that are evidence against the hardware, in order.
pub fn watched() -> impl Iterator<Item = u32> {
    ENTRIES
        .iter()
        .filter(|entry| entry.is_watched())
        .map(|entry| entry.code)
}

const fn row(
    code: u32,
    meaning: &'static str,
    resolution: Resolution,
    class: Class,
    confirmed_since: Option<u16>,
) -> Entry {
    Entry {
        code,
        meaning,
        resolution,
        class,
        confirmed_since,
        source: Source::Catalogue,
    }
}

/// A row that only the kernel module has.
const fn new(code: u32, meaning: &'static str, class: Class) -> Entry {
    Entry {
        source: Source::KernelModule,
        ..row(code, meaning, Unstated, class, None)
    }
}

#[rustfmt::skip]
const ENTRIES: &[Entry] = &[
    row(8, "GPU stopped processing", RestartApplication, Application, None),
    row(11, "invalid or illegal push buffer", RestartApplication, Application, None),
    row(13, "graphics engine exception", RestartApplication, Application, None),
    row(25, "invalid or illegal push buffer", RestartApplication, Application, None),
    row(31, "GPU memory page fault", RestartApplication, Application, None),
    row(32, "push buffer DMA error", RestartApplication, Application, None),
    row(37, "driver firmware error", Ignore, Informational, None),
    row(38, "driver firmware error", Ignore, Informational, None),
    row(39, "copy engine exception", RestartApplication, Application, None),
    row(40, "copy engine exception", RestartApplication, Application, None),
    row(41, "copy engine exception", RestartApplication, Application, None),
    row(43, "reset channel verification error", Ignore, Application, None),
    row(44, "graphics engine fault during context switch", Ignore, Informational, None),
    row(45, "preemptive channel removal", Workflow, Sympathetic, None),
    row(46, "GPU stopped processing, timeout", ResetGpu, Hardware, None),
    row(48, "double-bit ECC error", Workflow, Hardware, Some(565)),
    row(54, "auxiliary power is not connected", CheckMechanics, Hardware, None),
    row(56, "display engine error", ContactSupport, Informational, None),
    row(57, "error programming video memory interface", ContactSupport, Informational, None),
    row(58, "unstable video memory interface", ContactSupport, Informational, None),
    row(59, "internal micro-controller error", ContactSupport, Informational, None),
    row(61, "internal micro-controller breakpoint", ContactSupport, Informational, None),
    row(62, "internal micro-controller halt", ResetGpu, Hardware, Some(565)),
    row(63, "row remapping or page retirement recorded", Ignore, Informational, Some(565)),
    row(64, "row remapping or page retirement failed", ResetGpu, Hardware, Some(565)),
    row(66, "illegal access by driver", Ignore, Software, None),
    row(67, "illegal access by driver", Ignore, Software, None),
    row(68, "video decoder exception", RestartApplication, Application, None),
    row(69, "graphics engine class error", RestartApplication, Application, None),
    row(70, "copy engine exception", RestartApplication, Application, None),
    row(71, "copy engine exception", RestartApplication, Application, None),
    row(72, "copy engine exception", RestartApplication, Application, None),
    row(74, "NVLink error", Workflow, Fabric, Some(565)),
    row(75, "copy engine exception", RestartApplication, Application, None),
    row(76, "copy engine exception", RestartApplication, Application, None),
    row(77, "copy engine exception", RestartApplication, Application, None),
    row(78, "vGPU start error", UpdateSoftware, Software, None),
    row(79, "GPU has fallen off the bus", RebootNode, Hardware, Some(565)),
    row(80, "corrupted data sent to GPU", RestartApplication, Application, None),
    row(83, "video decoder exception", RestartApplication, Application, None),
    row(84, "video decoder exception", RestartApplication, Application, None),
    row(85, "copy engine exception", RestartApplication, Application, None),
    row(88, "video decoder exception", RestartApplication, Application, None),
    row(89, "video decoder exception", RestartApplication, Application, None),
    row(92, "high single-bit ECC error rate", Ignore, Informational, None),
    row(93, "InfoROM wear limit reached", Ignore, Informational, None),
    row(94, "contained uncorrectable memory error", RestartApplication, Hardware, Some(565)),
    row(95, "uncontained uncorrectable memory error", ResetGpu, Hardware, Some(565)),
    row(96, "video decoder exception", RestartApplication, Application, None),
    row(97, "video decoder exception", RestartApplication, Application, None),
    row(98, "video decoder exception", RestartApplication, Application, None),
    row(106, "SMBPBI test message", Ignore, Informational, None),
    row(107, "SMBPBI test message", Ignore, Informational, None),
    row(109, "context switch timeout", ResetGpu, Hardware, Some(570)),
    row(110, "security fault", ResetGpu, Hardware, Some(565)),
    row(119, "GSP RPC timeout", ResetGpu, Hardware, None),
    row(120, "GSP error", ResetGpu, Hardware, Some(565)),
    row(121, "corrected error on the chip-to-chip link", Ignore, Informational, None),
    row(122, "SPI PMU RPC read failure", ContactSupport, Informational, None),
    row(123, "SPI PMU RPC write failure", ContactSupport, Informational, None),
    row(124, "SPI PMU RPC erase failure", ContactSupport, Informational, None),
    row(125, "InfoROM file system error", ContactSupport, Informational, None),
    row(126, "copy engine exception", RestartApplication, Application, None),
    row(127, "copy engine exception", RestartApplication, Application, None),
    row(128, "copy engine exception", RestartApplication, Application, None),
    row(129, "copy engine exception", RestartApplication, Application, None),
    row(130, "copy engine exception", RestartApplication, Application, None),
    row(131, "copy engine exception", RestartApplication, Application, None),
    row(132, "copy engine exception", RestartApplication, Application, None),
    row(133, "copy engine exception", RestartApplication, Application, None),
    row(134, "copy engine exception", RestartApplication, Application, None),
    row(135, "copy engine exception", RestartApplication, Application, None),
    row(136, "NVLink training failed", ResetGpu, Fabric, Some(565)),
    row(137, "NVLink privilege error or remote memory fault", Ignore, Application, None),
    row(140, "unrecovered ECC error", ResetGpu, Hardware, None),
    row(141, "fast path error", Ignore, Informational, None),
    row(142, "video encoder exception", ContactSupport, Software, None),
    row(143, "GPU initialisation error", ResetGpu, Hardware, Some(575)),
    row(144, "NVLink SAW error", Workflow, Fabric, Some(565)),
    row(145, "NVLink RLW error", Workflow, Fabric, Some(565)),
    row(146, "NVLink TLW error", Workflow, Fabric, Some(565)),
    row(147, "NVLink TREX error", Workflow, Fabric, Some(565)),
    row(148, "NVLink NVLPW error", Workflow, Fabric, Some(565)),
    row(149, "NVLink NETIR error", Workflow, Fabric, Some(565)),
    row(150, "NVLink MSE error", Workflow, Fabric, Some(565)),
    row(151, "key rotation error", RebootVirtualMachine, Software, None),
    row(152, "deep learning accelerator exception", Ignore, Informational, None),
    row(153, "deep learning accelerator exception", Ignore, Informational, None),
    row(154, "GPU recovery action changed", FollowRecoveryAction, Class::RecoveryAction, None),
    row(155, "NVLink taken down by software", ResetGpu, Fabric, Some(565)),
    row(156, "resource retirement", ResetGpu, Hardware, Some(565)),
    row(157, "resource retirement failed", Ignore, Informational, None),
    row(158, "GPU fatal timeout", ResetGpu, Hardware, Some(565)),
    row(159, "chip-to-chip non-data error", CheckUvm, Sympathetic, Some(565)),
    row(160, "memory channel retirement", Ignore, Informational, Some(575)),
    row(161, "memory channel retirement failed", Ignore, Informational, Some(575)),
    row(162, "power smoothing engaged again", Unstated, Informational, None),
    row(163, "power smoothing disengaged", Unstated, Informational, None),
    row(164, "power smoothing lifetime low", Unstated, Informational, None),
    row(165, "power smoothing lifetime spent", Unstated, Informational, None),
    row(166, "NVLink encryption error", Unstated, Software, None),
    row(167, "PCIe fatal timeout", Unstated, Hardware, None),
    row(168, "reduced memory capacity", Unstated, Hardware, None),
    row(169, "SEC2 halt", Unstated, Hardware, None),
    row(170, "confidential computing interrupt", Unstated, Software, None),
    row(171, "uncorrectable DRAM error, beside Xid 48", Unstated, Informational, None),
    row(172, "uncorrectable SRAM error, beside Xid 48", Unstated, Informational, None),
    new(173, "fatal failure of the chip-to-chip link", Hardware),
    new(174, "channel reset that ended a process silently", Informational),
    new(175, "error of the memory subsystem", Hardware),
    new(176, "correctable PCIe error", Informational),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn codes_are_in_order_so_that_they_can_be_searched() {
        assert!(all().windows(2).all(|pair| pair[0].code < pair[1].code));
        assert!(all().iter().all(|entry| find(entry.code) == Some(entry)));
        assert_eq!(find(9999), None);
    }

    #[test]
    fn application_errors_are_not_watched() {
        let watched: Vec<u32> = watched().collect();
        for code in [8, 13, 31, 43, 45, 68, 137] {
            assert!(!watched.contains(&code), "{code}");
        }
        for code in [46, 48, 64, 74, 79, 94, 95, 119, 120, 140, 154] {
            assert!(watched.contains(&code), "{code}");
        }
    }
}
