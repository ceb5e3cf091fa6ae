//! The grammar of the driver's kernel-log messages.
//!
//! The driver's releases print the same message differently: with and without `PCI:`, with a process, with half a process
//! or with none. Something else (syslog, a journal, a timestamp) may stand before the message, so it is searched for, never
//! expected at the start.

use super::pci::PciAddress;
use super::recovery::RecoveryChange;
use std::fmt;

const BUS_LOST: &str = "GPU has fallen off the bus";
const BUS_LOST_AT_PROBE: &str = "fallen off the bus and is not responding";
const PROBE: &str = "NVRM: The NVIDIA GPU ";
const CAUSED_BY: &str = " caused by previous Xid ";
/// The code of the driver's verdict, whose text is a [`RecoveryChange`].
const RECOVERY_CODE: u32 = 154;

/// What the driver said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// An Xid.
    Xid(XidMessage),
    /// A GPU no longer answers on the bus; the driver prints this beside an Xid 79, or instead of it.
    BusLoss(BusLoss),
    /// Which UUID the GPU at an address has; printed once for each GPU before its first Xid.
    Uuid {
        /// Where the GPU is.
        pci: PciAddress,
        /// `GPU-` and five groups of hexadecimal digits.
        uuid: String,
    },
}

/// A GPU that has fallen off the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusLoss {
    /// Where the GPU was.
    pub pci: PciAddress,
}

/// One Xid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XidMessage {
    /// The GPU's address.
    pub pci: PciAddress,
    /// The MIG GPU instance.
    pub gpu_instance: Option<u32>,
    /// The MIG compute instance.
    pub compute_instance: Option<u32>,
    /// The Xid's number.
    pub code: u32,
    /// The process whose work was under way; `None` where the driver names none.
    pub process: Option<Process>,
    /// The text after that.
    pub text: String,
    /// The Xid that this one follows from.
    pub caused_by: Option<u32>,
}

/// A process as an Xid names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// `None` where the driver says `<unknown>`.
    pub pid: Option<u32>,
    /// `None` where the driver says `<unknown>`, or nothing, as drivers before 515 do.
    pub name: Option<String>,
}

impl XidMessage {
    /// What an Xid 154 says; `None` for any other Xid.
    #[must_use]
    pub fn recovery_change(&self) -> Option<RecoveryChange> {
        (self.code == RECOVERY_CODE)
            .then(|| RecoveryChange::parse(&self.text))
            .flatten()
    }

    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once("NVRM: Xid (")?;
        let (place, rest) = rest.split_once("):")?;
        let mut place = place.split(' ').filter(|word| !word.is_empty());
        let pci = place.next()?.parse().ok()?;
        let (mut gpu_instance, mut compute_instance) = (None, None);
        for word in place {
            if let Some(number) = word.strip_prefix("GPU-I:") {
                gpu_instance = Some(number.parse().ok()?);
            } else if let Some(number) = word.strip_prefix("GPU-CI:") {
                compute_instance = Some(number.parse().ok()?);
            }
        }
        let rest = rest.trim_start();
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let code = rest[..digits].parse().ok()?;
        let rest = &rest[digits..];
        // After the number there is a comma or nothing; anything else is another number format, not an Xid.
        let rest = match rest.strip_prefix(',') {
            Some(rest) => rest.trim_start(),
            None if rest.trim().is_empty() => "",
            None => return None,
        };
        let (process, text) = Process::take(rest.trim_end());
        let (text, caused_by) = match text.rsplit_once(CAUSED_BY) {
            Some((before, number)) if number.parse::<u32>().is_ok() => {
                (before, number.parse().ok())
            }
            _ => (text, None),
        };
        Some(Self {
            pci,
            gpu_instance,
            compute_instance,
            code,
            process,
            text: text.to_owned(),
            caused_by,
        })
    }
}

impl Process {
    /// Takes `pid=.., name=..` from the start of a text, and what follows it.
    fn take(text: &str) -> (Option<Self>, &str) {
        let Some(rest) = text.strip_prefix("pid=") else {
            return (None, text);
        };
        let (pid, rest) = field(rest);
        let (name, rest) = match rest.strip_prefix("name=") {
            Some(rest) => {
                let (name, rest) = field(rest);
                (known(name).map(str::to_owned), rest)
            }
            None => (None, rest),
        };
        let process = Self {
            pid: known(pid).and_then(|pid| pid.parse().ok()),
            name,
        };
        (Some(process), rest)
    }
}

/// A field ends at a comma with a space, or with the line: a name may hold anything else.
fn field(text: &str) -> (&str, &str) {
    match text.split_once(", ") {
        Some((field, rest)) => (field, rest.trim_start()),
        None => (text.strip_suffix(',').unwrap_or(text), ""),
    }
}

fn known(field: &str) -> Option<&str> {
    let bare = field
        .strip_prefix('\'')
        .and_then(|field| field.strip_suffix('\''))
        .unwrap_or(field);
    (bare != "<unknown>" && !bare.is_empty()).then_some(bare)
}

/// The form that drivers since 515 print.
impl fmt::Display for XidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRM: Xid (PCI:{}", self.pci)?;
        if let Some(instance) = self.gpu_instance {
            write!(f, " GPU-I:{instance:02}")?;
        }
        if let Some(instance) = self.compute_instance {
            write!(f, " GPU-CI:{instance:02}")?;
        }
        write!(f, "): {}", self.code)?;
        if let Some(process) = &self.process {
            match process.pid {
                Some(pid) => write!(f, ", pid={pid}")?,
                None => write!(f, ", pid='<unknown>'")?,
            }
            write!(
                f,
                ", name={}",
                process.name.as_deref().unwrap_or("<unknown>")
            )?;
        }
        if !self.text.is_empty() {
            write!(f, ", {}", self.text)?;
        }
        if let Some(code) = self.caused_by {
            write!(f, "{CAUSED_BY}{code}")?;
        }
        Ok(())
    }
}

/// Whether a line is worth decoding and parsing; cheap, because nearly every line of a kernel log is not.
#[must_use]
pub fn may_be_message(line: &[u8]) -> bool {
    const MARK: &[u8] = b"NVRM: ";
    line.windows(MARK.len()).any(|window| window == MARK)
}

/// Reads messages line by line.
///
/// It holds one thing between two lines: a GPU that does not answer when the driver probes it is reported in one message of
/// three lines, which some log daemons split.
#[derive(Debug, Default)]
pub struct Parser {
    probed: Option<PciAddress>,
}

impl Parser {
    /// What one record of the kernel log says; `None` where it is no message of interest. A record may have several lines.
    pub fn parse(&mut self, record: &str) -> Option<Message> {
        record.lines().find_map(|line| self.line(line))
    }

    fn line(&mut self, line: &str) -> Option<Message> {
        if let Some(xid) = XidMessage::parse(line) {
            return Some(Message::Xid(xid));
        }
        let (_, said) = line.split_once("NVRM: ")?;
        if let Some((_, rest)) = line.split_once(PROBE) {
            self.probed = first_address(rest);
        }
        if said.starts_with(BUS_LOST_AT_PROBE) {
            return self
                .probed
                .take()
                .map(|pci| Message::BusLoss(BusLoss { pci }));
        }
        if said.starts_with("Xid") {
            return None;
        }
        if said.contains(BUS_LOST) || said.contains("has fallen off the bus") {
            return first_address(said).map(|pci| Message::BusLoss(BusLoss { pci }));
        }
        let (place, uuid) = said.strip_prefix("GPU at ")?.split_once(": GPU-")?;
        let end = uuid
            .find(|c: char| !c.is_ascii_hexdigit() && c != '-')
            .unwrap_or(uuid.len());
        Some(Message::Uuid {
            pci: place.parse().ok()?,
            uuid: format!("GPU-{}", &uuid[..end]),
        })
    }
}

fn first_address(text: &str) -> Option<PciAddress> {
    text.split([' ', '(', ')', ','])
        .find_map(|word| word.trim_end_matches([':', '.']).parse().ok())
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
