//! PCI addresses, which the kernel, NVML and NVSwitch write in three different ways.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The address of a PCI device; the function is dropped, because a GPU is function 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// The domain (segment); not 0 on Grace systems.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device (slot) on the bus.
    pub device: u8,
}

impl PciAddress {
    /// As NVML and dcgm-exporter write it: `00000000:3B:00.0`.
    #[must_use]
    pub fn bus_id(&self) -> String {
        format!("{:08X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

/// As the kernel log writes it: `0000:3b:00`.
impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}",
            self.domain, self.bus, self.device
        )
    }
}

/// A text is no PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a PCI address such as 0000:3b:00 or 00000000:3B:00.0")]
pub struct ParsePciAddressError(String);

/// Takes every spelling: with or without the word `PCI:`, the function, upper case, and a domain of up to 8 digits.
impl FromStr for PciAddress {
    type Err = ParsePciAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParsePciAddressError(text.to_owned()))
    }
}

/// The same, where nobody is told what was wrong.
pub(super) fn parse(text: &str) -> Option<PciAddress> {
    let bytes = text.as_bytes();
    let (domain, rest) = hex(bytes.strip_prefix(b"PCI:").unwrap_or(bytes), 4..=8)?;
    let (bus, rest) = hex(rest.strip_prefix(b":")?, 2..=2)?;
    let (device, rest) = hex(rest.strip_prefix(b":")?, 2..=2)?;
    let rest = match rest.strip_prefix(b".") {
        Some(function) => hex(function, 1..=1)?.1,
        None => rest,
    };
    rest.is_empty().then_some(PciAddress {
        domain,
        bus: u8::try_from(bus).ok()?,
        device: u8::try_from(device).ok()?,
    })
}

/// The hexadecimal number of so many digits that bytes begin with, and what follows it.
fn hex(bytes: &[u8], digits: RangeInclusive<usize>) -> Option<(u32, &[u8])> {
    let (mut number, mut end) = (0, 0);
    while let Some(digit) = bytes
        .get(end)
        .and_then(|byte| char::from(*byte).to_digit(16))
    {
        // With one digit too many it is no such number, whatever it is.
        if end == *digits.end() {
            return None;
        }
        number = number << 4 | digit;
        end += 1;
    }
    (end >= *digits.start()).then(|| (number, &bytes[end..]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_spelling_is_the_same_address() {
        let expected = PciAddress {
            domain: 0,
            bus: 0x3b,
            device: 0,
        };
        for text in [
            "0000:3b:00",
            "PCI:0000:3b:00",
            "0000:3B:00.0",
            "00000000:3B:00.0",
        ] {
            assert_eq!(text.parse::<PciAddress>().unwrap(), expected, "{text}");
        }
        assert_eq!(expected.to_string(), "0000:3b:00");
        assert_eq!(expected.bus_id(), "00000000:3B:00.0");
        assert_eq!(
            "0019:01:00".parse::<PciAddress>().unwrap().bus_id(),
            "00000019:01:00.0"
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "3b:00",
            "0000:3b:00:00",
            "0000:3g:00",
            "0000:+b:00",
            "000000000:3b:00",
            "0000:3b:00.",
            "0000:3b:0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(domain: u32, bus: u8, device in 0u8..32) {
            let address = PciAddress { domain, bus, device };
            prop_assert_eq!(address.to_string().parse::<PciAddress>().unwrap(), address);
            prop_assert_eq!(address.bus_id().parse::<PciAddress>().unwrap(), address);
        }
    }
}
