//! The messages of the driver in the kernel log.
//!
//! A message begins with the driver's words. The same words within a line are somebody's text, a path or the name of a
//! program, which the kernel prints as it finds it: they never count. What a log writes before the kernel's messages is to be
//! taken off before.

use super::message::XidMessage;
use super::pci::{self, PciAddress};
use super::sxid::{SxidMessage, of_switch};
use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::LazyLock;

const XID: &str = "NVRM: Xid";
const OF_SWITCH: &str = "SXid";
const NVRM: &str = "NVRM: ";
const BUS_LOST: &str = "has fallen off the bus";
const BUS_LOST_AT_PROBE: &str = "fallen off the bus and is not responding";
const PROBE: &str = "The NVIDIA GPU ";
const SERIAL: &str = "GPU Board Serial Number: ";
const SERIAL_OF: &str = "GPU serial number is ";
const UUID: &str = "GPU-";
const INIT_FAILED: [&str; 2] = ["RmInitAdapter failed", "rm_init_adapter failed"];

/// What each message of interest holds somewhere, whatever stands before it.
const MARKS: [&str; 9] = [
    XID,
    ": SXid",
    PROBE,
    "fallen off the bus",
    SERIAL,
    SERIAL_OF,
    INIT_FAILED[0],
    INIT_FAILED[1],
    " GPU-",
];

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

impl Message {
    /// Whether it tells of something that happened, so that it matters when; the others tell who a GPU is.
    #[must_use]
    pub const fn is_event(&self) -> bool {
        !matches!(self, Self::Uuid { .. } | Self::Serial { .. })
    }
}

/// A GPU that has fallen off the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusLoss {
    /// Where the GPU was.
    pub pci: PciAddress,
}

/// Whether a line is worth decoding and parsing; cheap, because nearly every line of a kernel log is not, and most of what
/// the driver itself says is not either.
#[must_use]
pub fn may_be_message(line: &[u8]) -> bool {
    // Looks for all of them at once. Without it, every line would be parsed.
    static ANY: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        // Only so does it look at many bytes at once.
        let kind = MatchKind::LeftmostFirst;
        AhoCorasick::builder().match_kind(kind).build(MARKS).ok()
    });
    ANY.as_ref().is_none_or(|any| any.is_match(line))
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
    /// What one record of the kernel log says; nothing where it is no message of interest.
    ///
    /// A record may have several lines, but a line break may also be one of a path or of a name. So it is read only as far as
    /// each line begins as the driver's, and no further than a message that names a process.
    pub fn parse<'a>(&'a mut self, record: &'a str) -> impl Iterator<Item = Message> + 'a {
        let (mut lines, mut ended) = (record.lines(), false);
        std::iter::from_fn(move || {
            while !ended {
                let line = lines.next()?;
                let message = if is_of_driver(line) {
                    self.line(line)
                } else {
                    ended = true;
                    self.probe_goes_on(line)
                };
                if let Some(message) = message {
                    ended |= may_name_a_process(&message);
                    return Some(message);
                }
            }
            None
        })
    }

    fn line(&mut self, line: &str) -> Option<Message> {
        if line.starts_with(XID) {
            return Some(XidMessage::parse(line).map_or(Message::Malformed, Message::Xid));
        }
        if let Some(said) = line.strip_prefix(NVRM) {
            return self.said(said);
        }
        Some(SxidMessage::parse(line).map_or(Message::Malformed, Message::Sxid))
    }

    /// `dmesg` sets the further lines of a message in.
    fn probe_goes_on(&mut self, line: &str) -> Option<Message> {
        let said = line.trim_start().strip_prefix(NVRM)?;
        said.starts_with(BUS_LOST_AT_PROBE)
            .then(|| self.said(said))
            .flatten()
    }

    /// What stands after `NVRM: ` and is no Xid.
    fn said(&mut self, said: &str) -> Option<Message> {
        if let Some(rest) = said.strip_prefix(PROBE) {
            self.probed = address(rest).map(|(pci, _)| pci);
            return None;
        }
        if said.starts_with(BUS_LOST_AT_PROBE) {
            let probed = self.probed.take();
            return probed.map(|pci| Message::BusLoss(BusLoss { pci }));
        }
        if let Some(serial) = said.strip_prefix(SERIAL) {
            return serial_of(self.announced.take(), serial);
        }
        // `GPU 0000:3b:00.0: what is said of it`, or with `GPU at`, or of no GPU.
        let of_gpu = said
            .strip_prefix("GPU ")
            .and_then(|rest| address(rest.strip_prefix("at ").unwrap_or(rest)));
        let (pci, of_it) = match of_gpu {
            Some((pci, of_it)) => (Some(pci), of_it),
            None => (None, said),
        };
        if INIT_FAILED.iter().any(|mark| of_it.starts_with(mark)) {
            return Some(Message::InitFailed {
                pci,
                text: said.trim_end().to_owned(),
            });
        }
        let pci = pci?;
        if of_it
            .strip_prefix("GPU ")
            .unwrap_or(of_it)
            .starts_with(BUS_LOST)
        {
            return Some(Message::BusLoss(BusLoss { pci }));
        }
        if let Some(serial) = of_it.strip_prefix(SERIAL_OF) {
            return serial_of(Some(pci), serial);
        }
        let digits = of_it.strip_prefix(UUID)?;
        let is_of_uuid = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
        let length = digits.bytes().take_while(is_of_uuid).count();
        self.announced = Some(pci);
        Some(Message::Uuid {
            pci,
            uuid: of_it[..UUID.len() + length].to_owned(),
        })
    }
}

/// Whether a line begins as one of the driver of GPUs, or as one about an SXid.
fn is_of_driver(line: &str) -> bool {
    line.starts_with(NVRM) || of_switch(line).is_some_and(|(_, said)| said.starts_with(OF_SWITCH))
}

/// Whether a message may hold what a process calls itself, in which there may be line breaks.
fn may_name_a_process(message: &Message) -> bool {
    match message {
        Message::Xid(xid) => xid.process.is_some(),
        Message::Malformed => true,
        _ => false,
    }
}

fn serial_of(pci: Option<PciAddress>, text: &str) -> Option<Message> {
    let word = text.split_ascii_whitespace().next()?;
    let serial = word.trim_end_matches(['.', ',']).to_owned();
    (!serial.is_empty()).then_some(Message::Serial { pci, serial })
}

/// The address that a text begins with, and what follows it.
fn address(text: &str) -> Option<(PciAddress, &str)> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let pci = pci::parse(word.trim_end_matches([':', '.', ',']))?;
    Some((pci, rest))
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

#[cfg(test)]
#[path = "first_look_tests.rs"]
mod first_look_tests;

#[cfg(test)]
#[path = "whose_words_tests.rs"]
mod whose_words_tests;
