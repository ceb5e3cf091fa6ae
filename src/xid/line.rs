//! The messages of the driver in a line of the kernel log.
//!
//! Something else (syslog, a journal, a timestamp) may stand before a message, so it is searched for, never expected at the
//! start.

use super::message::XidMessage;
use super::pci::PciAddress;
use super::sxid::SxidMessage;
use memchr::memmem::Finder;
use std::sync::LazyLock;

const XID: &str = "NVRM: Xid";
const SXID: &str = ": SXid";
const NVRM: &str = "NVRM: ";
const BUS_LOST: &str = "has fallen off the bus";
const BUS_LOST_AT_PROBE: &str = "fallen off the bus and is not responding";
const PROBE: &str = "The NVIDIA GPU ";
const SERIAL: &str = "GPU Board Serial Number: ";
const SERIAL_OF: &str = "GPU serial number is ";
const INIT_FAILED: [&str; 2] = ["RmInitAdapter failed", "rm_init_adapter failed"];

/// What the driver said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// An Xid.
    Xid(XidMessage),
    /// A line about an SXid of an NVSwitch.
    Sxid(SxidMessage),
    /// A GPU no longer answers on the bus; the driver prints this beside an Xid 79, or instead of it.
    BusLoss(BusLoss),
    /// The driver could not start a GPU, so that it has none of its functions.
    InitFailed {
        /// Where the GPU is; old drivers do not tell.
        pci: Option<PciAddress>,
        /// What the driver says of it.
        text: String,
    },
    /// Which UUID the GPU at an address has; printed once for each GPU before its first Xid.
    Uuid {
        /// Where the GPU is.
        pci: PciAddress,
        /// `GPU-` and five groups of hexadecimal digits.
        uuid: String,
    },
    /// The serial number of a board; printed after its UUID. Boards without one say 0.
    Serial {
        /// Where the GPU is, where this line or the one before it tells.
        pci: Option<PciAddress>,
        /// The number.
        serial: String,
    },
    /// It begins as an Xid or an SXid and goes on as none: cut, mangled, or of a driver that writes differently.
    Malformed,
}

/// A GPU that has fallen off the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusLoss {
    /// Where the GPU was.
    pub pci: PciAddress,
}

/// Whether a line is worth decoding and parsing; cheap, because nearly every line of a kernel log is not.
#[must_use]
pub fn may_be_message(line: &[u8]) -> bool {
    static FINDERS: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| [NVRM, SXID].map(Finder::new));
    FINDERS.iter().any(|finder| finder.find(line).is_some())
}

/// Reads messages line by line.
///
/// It holds what one line says of the next: a GPU that does not answer when the driver probes it is reported in one message
/// of three lines, which some log daemons split; and a serial number belongs to the UUID before it.
#[derive(Debug, Default)]
pub struct Parser {
    probed: Option<PciAddress>,
    announced: Option<PciAddress>,
}

impl Parser {
    /// What one record of the kernel log says; nothing where it is no message of interest. A record may have several lines.
    pub fn parse<'a>(&'a mut self, record: &'a str) -> impl Iterator<Item = Message> + 'a {
        record.lines().filter_map(|line| self.line(line))
    }

    fn line(&mut self, line: &str) -> Option<Message> {
        if let Some((_, said)) = line.split_once(NVRM) {
            if line.contains(XID) {
                return Some(XidMessage::parse(line).map_or(Message::Malformed, Message::Xid));
            }
            return self.said(said);
        }
        line.contains(SXID)
            .then(|| SxidMessage::parse(line).map_or(Message::Malformed, Message::Sxid))
    }

    /// What stands after `NVRM: ` and is no Xid.
    fn said(&mut self, said: &str) -> Option<Message> {
        if let Some(rest) = said.strip_prefix(PROBE) {
            self.probed = first_address(rest);
        }
        if said.starts_with(BUS_LOST_AT_PROBE) {
            let probed = self.probed.take();
            return probed.map(|pci| Message::BusLoss(BusLoss { pci }));
        }
        if said.contains(BUS_LOST) {
            return first_address(said).map(|pci| Message::BusLoss(BusLoss { pci }));
        }
        if INIT_FAILED.iter().any(|mark| said.contains(mark)) {
            return Some(Message::InitFailed {
                pci: first_address(said),
                text: said.trim_end().to_owned(),
            });
        }
        if let Some(serial) = said.strip_prefix(SERIAL) {
            return serial_of(self.announced.take(), serial);
        }
        if let Some((place, serial)) = said.split_once(SERIAL_OF) {
            return serial_of(first_address(place), serial);
        }
        let (place, uuid) = said.strip_prefix("GPU at ")?.split_once(": GPU-")?;
        let end = uuid
            .find(|c: char| !c.is_ascii_hexdigit() && c != '-')
            .unwrap_or(uuid.len());
        let pci = place.parse().ok()?;
        self.announced = Some(pci);
        Some(Message::Uuid {
            pci,
            uuid: format!("GPU-{}", &uuid[..end]),
        })
    }
}

fn serial_of(pci: Option<PciAddress>, text: &str) -> Option<Message> {
    let word = text.split_ascii_whitespace().next()?;
    let serial = word.trim_end_matches(['.', ',']).to_owned();
    (!serial.is_empty()).then_some(Message::Serial { pci, serial })
}

fn first_address(text: &str) -> Option<PciAddress> {
    text.split([' ', '(', ')', ','])
        .find_map(|word| word.trim_end_matches([':', '.']).parse().ok())
}

/// The decimal number at the start, and what follows it.
pub(super) fn digits(text: &str) -> Option<(u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
