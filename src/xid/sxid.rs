//! SXids: what the driver of an NVSwitch says.
//!
//! One event is printed in up to three lines with the same number: the first tells its class, the others its place in the
//! chip and the registers. Only the first is the event.

use super::line::digits;
use super::pci::PciAddress;
use std::fmt;

const MARK: &str = "SXid (";
const SWITCH: &str = "nvidia-nvswitch";

/// How severe the driver calls an SXid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SxidClass {
    /// Traffic has stopped, or data was lost.
    Fatal,
    /// Work goes on.
    NonFatal,
    /// The hardware has put it right.
    Correctable,
}

impl SxidClass {
    const ALL: [Self; 3] = [Self::Fatal, Self::NonFatal, Self::Correctable];

    /// The driver's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fatal => "Fatal",
            Self::NonFatal => "Non-fatal",
            Self::Correctable => "Correctable",
        }
    }
}

/// One line about an SXid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SxidMessage {
    /// The number of the switch on its machine, where the line tells.
    pub switch: Option<u32>,
    /// Where the switch is.
    pub pci: PciAddress,
    /// The SXid's number.
    pub code: u32,
    /// How severe it is; only the line that is the event itself tells.
    pub class: Option<SxidClass>,
    /// The link it is about.
    pub link: Option<u32>,
    /// The number after `Severity` of a line that follows an event.
    pub severity: Option<u32>,
    /// The text after all that.
    pub text: String,
}

impl SxidMessage {
    /// Reads a line; `None` where it is no SXid in this grammar.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (switch, rest) = match of_switch(line) {
            Some((switch, rest)) => (Some(switch), rest),
            None => (None, line),
        };
        let rest = rest.strip_prefix(MARK)?;
        let (place, rest) = rest.split_once("):")?;
        let pci = place.trim().parse().ok()?;
        let (code, rest) = digits(rest.trim_start())?;
        let rest = match rest.strip_prefix(',') {
            Some(rest) => rest.trim(),
            None if rest.trim().is_empty() => "",
            None => return None,
        };
        let classed = SxidClass::ALL.into_iter().find_map(|class| {
            let rest = rest.strip_prefix(class.as_str())?;
            let rest = rest.strip_prefix(',').or(rest.is_empty().then_some(""))?;
            Some((class, rest.trim_start()))
        });
        let (class, rest) = match classed {
            Some((class, rest)) => (Some(class), rest),
            None => (None, rest),
        };
        let (link, text) = match rest.strip_prefix("Link ").and_then(digits) {
            Some((link, text)) => (Some(link), text.trim_start()),
            None => (None, rest),
        };
        let severity = match class {
            None => text.strip_prefix("Severity ").and_then(digits),
            Some(_) => None,
        };
        Some(Self {
            switch,
            pci,
            code,
            class,
            link,
            severity: severity.map(|(number, _)| number),
            text: text.to_owned(),
        })
    }

    /// Whether this line is the event, and not more about it.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.class.is_some()
    }
}

/// Which switch a line begins with, and what follows `nvidia-nvswitch3: `.
pub(super) fn of_switch(line: &str) -> Option<(u32, &str)> {
    let (switch, rest) = digits(line.strip_prefix(SWITCH)?)?;
    Some((switch, rest.strip_prefix(": ")?))
}

/// As the driver prints it.
impl fmt::Display for SxidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(switch) = self.switch {
            write!(f, "{SWITCH}{switch}: ")?;
        }
        write!(f, "{MARK}PCI:{}.0): {:05}", self.pci, self.code)?;
        if let Some(class) = self.class {
            write!(f, ", {}", class.as_str())?;
        }
        match (self.link, self.text.is_empty()) {
            (Some(link), true) => write!(f, ", Link {link:02}"),
            (Some(link), false) => write!(f, ", Link {link:02} {}", self.text),
            (None, false) => write!(f, ", {}", self.text),
            (None, true) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_event_and_the_lines_that_follow_it() {
        let event = SxidMessage::parse(
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
        )
        .unwrap();
        assert_eq!(
            (event.switch, event.code, event.link),
            (Some(3), 28006, Some(46))
        );
        assert_eq!(event.class, Some(SxidClass::NonFatal));
        assert_eq!(event.text, "MC TS crumbstore MCTO (First)");
        assert_eq!(event.pci.to_string(), "0000:c1:00");
        let more = SxidMessage::parse(
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Severity 1 Engine instance 46 Sub-engine instance 00",
        )
        .unwrap();
        assert!(!more.is_event() && event.is_event());
        assert_eq!(more.severity, Some(1));
        let data = SxidMessage::parse(
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Data {0x00000001, 0x00000000}",
        )
        .unwrap();
        assert_eq!((data.class, data.severity), (None, None));
    }

    #[test]
    fn numbers_with_zeros_before_them() {
        let event = SxidMessage::parse("SXid (PCI:0000:c1:00.0): 00012, Fatal, Link 05 x").unwrap();
        assert_eq!((event.code, event.link, event.switch), (12, Some(5), None));
    }

    #[test]
    fn what_is_no_sxid() {
        for line in [
            "",
            "SXid",
            "nvidia-nvswitch0: SXid (PCI:zz): 1, Fatal",
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): x, Fatal",
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 1.5, Fatal",
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0)",
            "x nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 1, Fatal",
            "nvidia-nvswitch0: x SXid (PCI:0000:c1:00.0): 1, Fatal",
            "nvidia-nvswitch: SXid (PCI:0000:c1:00.0): 1, Fatal",
        ] {
            assert_eq!(SxidMessage::parse(line), None, "{line}");
        }
    }

    fn class() -> impl Strategy<Value = Option<SxidClass>> {
        proptest::option::of(proptest::sample::select(&SxidClass::ALL[..]))
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            switch in proptest::option::of(0u32..16), bus: u8, code in 0u32..100_000, class in class(),
            link in proptest::option::of(0u32..64), text in "|[a-z][ -~]{0,40}[a-z]",
        ) {
            let pci = PciAddress { domain: 0, bus, device: 0 };
            let printed = SxidMessage { switch, pci, code, class, link, severity: None, text };
            prop_assert_eq!(SxidMessage::parse(&printed.to_string()), Some(printed));
        }

        #[test]
        fn no_text_makes_it_fail(text in "\\PC*") {
            let _ = SxidMessage::parse(&text);
            let _ = SxidMessage::parse(&format!("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {text}"));
        }
    }
}
