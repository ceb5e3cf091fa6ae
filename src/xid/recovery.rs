//! The recovery action: the driver's own verdict on what a GPU needs, told by Xid 154 and by NVML field 230.

use std::fmt;

/// What a GPU needs to work again, as the driver sees it.
///
/// The number decides. The driver's text for one and the same number differs between releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecoveryAction(pub u32);

impl RecoveryAction {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// A name for the number; `None` for one that NVML has not given a meaning yet.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        // nvml.h, nvmlDeviceGpuRecoveryAction_t; 6 and 7 as later headers have them.
        Some(match self.0 {
            0 => "none",
            1 => "reset the GPU",
            2 => "reboot the node",
            3 => "drain peer-to-peer traffic",
            4 => "drain and reset the GPU",
            5 => "recover the IMEX domain",
            6 => "reset the bus",
            7 => "reboot the system",
            _ => return None,
        })
    }
}

impl fmt::Display for RecoveryAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "recovery action {}", self.0),
        }
    }
}

/// The content of an Xid 154: from which recovery action to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryChange {
    /// What the GPU needed before.
    pub from: RecoveryAction,
    /// What it needs now.
    pub to: RecoveryAction,
}

impl RecoveryChange {
    /// Reads the text of an Xid 154. Only the hexadecimal numbers are read, never the words beside them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("recovery action changed from 0x")?;
        let (from, rest) = leading_hex(rest)?;
        let (_, rest) = rest.split_once(" to 0x")?;
        let (to, _) = leading_hex(rest)?;
        Some(Self {
            from: RecoveryAction(from),
            to: RecoveryAction(to),
        })
    }
}

fn leading_hex(text: &str) -> Option<(u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(text.len());
    let value = u32::from_str_radix(&text[..end], 16).ok()?;
    Some((value, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_count_and_the_words_do_not() {
        for (text, from, to) in [
            (
                "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
                0,
                1,
            ),
            (
                "GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)",
                0,
                2,
            ),
            (
                "GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)",
                4,
                0,
            ),
            (
                "GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)",
                0,
                1,
            ),
        ] {
            let expected = RecoveryChange {
                from: RecoveryAction(from),
                to: RecoveryAction(to),
            };
            assert_eq!(RecoveryChange::parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_change() {
        for text in [
            "",
            "GPU recovery action changed",
            "GPU recovery action changed from 0x (None) to 0x1",
        ] {
            assert_eq!(RecoveryChange::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_unknown_number_is_kept() {
        assert_eq!(RecoveryAction(9).to_string(), "recovery action 9");
        assert_eq!(RecoveryAction::NONE.to_string(), "none");
    }
}
