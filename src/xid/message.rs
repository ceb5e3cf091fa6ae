//! One Xid, as the driver prints it.
//!
//! The driver's releases print the same Xid differently: with and without `PCI:`, with a process, with half a process or
//! with none.

use super::line::digits;
use super::link::LinkEvent;
use super::pci::PciAddress;
use super::recovery::RecoveryChange;
use std::fmt;

const CAUSED_BY: &str = " caused by previous Xid ";
/// The code of the driver's verdict, whose text is a [`RecoveryChange`].
pub(super) const RECOVERY_CODE: u32 = 154;

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

    /// What it says of a link; `None` for any Xid that is about none.
    #[must_use]
    pub fn link_event(&self) -> Option<LinkEvent> {
        LinkEvent::parse(self.code, &self.text)
    }

    /// Reads a line that begins as one; `None` where it is no Xid in this grammar.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("NVRM: Xid (")?;
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
        let (rest, caused_by) = match rest.rsplit_once(CAUSED_BY) {
            Some((before, number)) if is_number(number.trim_end()) => {
                (before, number.trim_end().parse().ok())
            }
            _ => (rest, None),
        };
        let (code, rest) = digits(rest.trim_start())?;
        // After the number there is a comma or nothing; anything else is another number format, not an Xid.
        let rest = match rest.strip_prefix(',') {
            Some(rest) => rest.trim_start(),
            None if rest.trim().is_empty() => "",
            None => return None,
        };
        let (process, text) = Process::take(rest.trim_end());
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

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.parse::<u32>().is_ok() && text.bytes().all(|b| b.is_ascii_digit())
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
