//! How an Xid usually reads, for logs that are made up.

use super::message::{Process, XidMessage};
use super::pci::PciAddress;
use super::recovery::{RecoveryAction, RecoveryChange};

/// Who the driver names as the process.
#[derive(Clone, Copy)]
enum Named {
    /// Nobody: the code's message has no such part.
    Nothing,
    /// `<unknown>`: the fault is of no process.
    Unknown,
    /// A process that used the GPU.
    User,
}

/// What the driver says after the number of a code; the last line is for any other.
fn text(code: u32) -> (Named, &'static str) {
    use Named::{Nothing, Unknown, User};
    match code {
        13 => (
            Nothing,
            "Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address",
        ),
        31 => (
            User,
            "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f12_34567000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        ),
        43 | 45 => (User, "Ch 00000008"),
        48 => (Unknown, "DBE (double bit error) ECC Error"),
        63 => (
            Unknown,
            "Row Remapper: New row (0x0000000012345678) marked for remapping, reset gpu to activate.",
        ),
        74 => (
            Unknown,
            "NVLink: fatal error detected on link 3(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        ),
        79 => (Unknown, "GPU has fallen off the bus."),
        92 => (Unknown, "High single-bit ECC error rate"),
        94 => (User, "Contained: SM (0x1). RST: No, D-RST: No"),
        95 => (
            Unknown,
            "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
        ),
        119 => (
            User,
            "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)",
        ),
        _ => (Unknown, "Ch 00000008"),
    }
}

/// The driver's words for a recovery action.
fn words(action: RecoveryAction) -> &'static str {
    match action.0 {
        0 => "None",
        1 => "GPU Reset Required",
        2 => "Node Reboot Required",
        3 => "Drain P2P",
        4 => "Drain and Reset",
        _ => "Unknown",
    }
}

impl XidMessage {
    /// An Xid of a GPU, as it usually reads.
    #[must_use]
    pub fn usual(pci: PciAddress, code: u32) -> Self {
        let (named, text) = text(code);
        let process = match named {
            Named::Nothing => None,
            Named::Unknown => Some(Process {
                pid: None,
                name: None,
            }),
            Named::User => Some(Process {
                pid: Some(4242),
                name: Some("python".to_owned()),
            }),
        };
        Self {
            pci,
            gpu_instance: None,
            compute_instance: None,
            code,
            process,
            text: text.to_owned(),
            caused_by: None,
        }
    }

    /// The Xid 154 with which the driver says that a GPU needs something else than before.
    #[must_use]
    pub fn recovery(pci: PciAddress, change: RecoveryChange) -> Self {
        let RecoveryChange { from, to } = change;
        let (before, after) = (words(from), words(to));
        Self {
            process: None,
            text: format!(
                "GPU recovery action changed from {:#x} ({before}) to {:#x} ({after})",
                from.0, to.0
            ),
            ..Self::usual(pci, super::message::RECOVERY_CODE)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::xid::{Message, Parser};

    fn read(message: &XidMessage) -> XidMessage {
        let line = message.to_string();
        match Parser::default().parse(&line).next() {
            Some(Message::Xid(xid)) => xid,
            other => panic!("{line} is read as {other:?}"),
        }
    }

    #[test]
    fn what_is_written_is_read_back_for_each_code() {
        let pci = "0000:3b:00".parse().unwrap();
        for code in 1..=200 {
            let message = XidMessage::usual(pci, code);
            assert_eq!(read(&message), message);
        }
        assert_eq!(
            XidMessage::usual(pci, 79).to_string(),
            "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        );
        assert!(XidMessage::usual(pci, 74).link_event().is_some());
    }

    #[test]
    fn a_change_of_the_recovery_action_is_read_back() {
        let pci = "0000:3b:00".parse().unwrap();
        for (from, to) in [(0, 2), (2, 0), (1, 9)] {
            let change = RecoveryChange {
                from: RecoveryAction(from),
                to: RecoveryAction(to),
            };
            let message = XidMessage::recovery(pci, change);
            assert_eq!(read(&message).recovery_change(), Some(change));
        }
        let change = RecoveryChange {
            from: RecoveryAction::NONE,
            to: RecoveryAction(2),
        };
        assert_eq!(
            XidMessage::recovery(pci, change).to_string(),
            "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
        );
    }
}
