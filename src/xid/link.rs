//! What Xids about NVLink say in their text: which link, and the registers as they were.
//!
//! The registers stay text. What their bits mean depends on the driver's release: the subcode lies in bits 9 to 5 of
//! `intrInfo` before release 575, and in bits 6 to 0 from then on.

/// Hopper and before: one code for all.
const NVLINK: u32 = 74;
/// Blackwell: one code for each unit of the link.
const UNITS: std::ops::RangeInclusive<u32> = 144..=150;

/// The text of an Xid about a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEvent {
    /// The unit and the event, for example `NETIR_LINK_EVT`; Xid 74 names none.
    pub unit: Option<String>,
    /// `Fatal`, `Nonfatal` or, with Xid 74, `fatal`, as the driver writes it.
    pub severity: Option<String>,
    /// The link; -1 where the event is of no single one.
    pub link: Option<i32>,
    /// The first register of Xids 144 to 150.
    pub intr_info: Option<String>,
    /// The second register of Xids 144 to 150.
    pub error_status: Option<String>,
    /// All registers, as they stand between the parentheses.
    pub registers: Option<String>,
}

impl LinkEvent {
    /// Reads the text of an Xid; `None` for a code that is about no link, or a text without any of this.
    pub(super) fn parse(code: u32, text: &str) -> Option<Self> {
        if code == NVLINK {
            return Self::hopper(text);
        }
        if UNITS.contains(&code) {
            return Self::blackwell(text);
        }
        None
    }

    /// `NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)`.
    fn hopper(text: &str) -> Option<Self> {
        let (before, after) = text.split_once("on link ")?;
        let severity = before
            .split_ascii_whitespace()
            .find(|word| word.eq_ignore_ascii_case("fatal") || word.contains("on-fatal"));
        Some(Self {
            unit: None,
            severity: severity.map(str::to_owned),
            link: number(after),
            intr_info: None,
            error_status: None,
            registers: registers(after).map(str::to_owned),
        })
    }

    /// `RLW_REMAP Nonfatal XC1 i0 Link 02 (0x004c2 0x1 0x0 0x0 0x0 0x0 0x0)`.
    fn blackwell(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let unit = words.next()?;
        let severity = words
            .next()
            .filter(|word| matches!(*word, "Fatal" | "Nonfatal"))?;
        let link = text
            .split_once(" Link ")
            .and_then(|(_, after)| number(after));
        let registers = registers(text);
        let mut each = registers.into_iter().flat_map(words_of);
        Some(Self {
            unit: Some(unit.to_owned()),
            severity: Some(severity.to_owned()),
            link,
            intr_info: each.next().map(str::to_owned),
            error_status: each.next().map(str::to_owned),
            registers: registers.map(str::to_owned),
        })
    }
}

/// The number at the start.
fn number(text: &str) -> Option<i32> {
    let text = text.trim_start();
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || (*at == 0 && *c == '-')))
        .map_or(text.len(), |(at, _)| at);
    text[..end].parse().ok()
}

/// What stands in the last parentheses.
fn registers(text: &str) -> Option<&str> {
    let (_, after) = text.rsplit_once('(')?;
    let (inside, _) = after.split_once(')')?;
    Some(inside)
}

fn words_of(registers: &str) -> impl Iterator<Item = &str> {
    let words = registers.split([' ', ',']);
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_link_and_the_registers_of_blackwell() {
        let event = LinkEvent::parse(
            149,
            "NETIR_LINK_EVT  Nonfatal   XC0 i0 Link -1 (0x00000003 0x0 0x0 0x0 0x0 0x0 0x0)",
        )
        .unwrap();
        assert_eq!(event.unit.as_deref(), Some("NETIR_LINK_EVT"));
        assert_eq!(event.severity.as_deref(), Some("Nonfatal"));
        assert_eq!(event.link, Some(-1));
        assert_eq!(event.intr_info.as_deref(), Some("0x00000003"));
        assert_eq!(event.error_status.as_deref(), Some("0x0"));
        let event = LinkEvent::parse(145, "RLW_REMAP Fatal XC1 i0 Link 02 (0x4c2 0x1)").unwrap();
        assert_eq!(
            (event.link, event.registers.as_deref()),
            (Some(2), Some("0x4c2 0x1"))
        );
    }

    #[test]
    fn the_link_and_the_registers_of_hopper() {
        let event = LinkEvent::parse(
            74,
            "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        )
        .unwrap();
        assert_eq!(event.link, Some(14));
        assert_eq!(event.severity.as_deref(), Some("fatal"));
        assert_eq!(
            event.registers.as_deref(),
            Some("0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0")
        );
        assert_eq!(event.intr_info, None);
    }

    #[test]
    fn other_texts_are_about_no_link() {
        assert_eq!(
            LinkEvent::parse(79, "RLW_REMAP Fatal XC1 i0 Link 02 (0x1)"),
            None
        );
        assert_eq!(LinkEvent::parse(149, "something else (0x1)"), None);
        assert_eq!(LinkEvent::parse(149, ""), None);
        assert_eq!(LinkEvent::parse(74, "no such thing"), None);
    }
}
