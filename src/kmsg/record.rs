//! One line of a kernel log, in the form of `/dev/kmsg` or in that of `dmesg`, syslog and `journalctl`.
//!
//! The form of `/dev/kmsg` is part of the kernel's ABI (Documentation/ABI/testing/dev-kmsg):
//! `priority,sequence,microseconds,flags[,more];message`, then lines that start with a space and hold `KEY=value`.
//! In the message, what is not printable is written `\xHH`.

use super::prefix;
use jiff::Timestamp;
use std::borrow::Cow;

/// When a line was logged, as far as the line itself tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Microseconds since boot.
    SinceBoot(u64),
    /// A time of day with its zone.
    At(Timestamp),
    /// The line does not tell.
    Unknown,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The record's number, where it has the form of `/dev/kmsg`. Numbers have gaps only where records were lost.
    pub sequence: Option<u64>,
    /// What the line says of its time, where that need not be searched for: in all but plain lines.
    stamp: Option<Stamp>,
    /// Whether the record is not of the kernel itself, but was written into its log, which root may.
    written: bool,
    /// The message, still escaped where the record has the form of `/dev/kmsg`.
    message: &'a [u8],
}

impl<'a> Line<'a> {
    /// Takes apart one line, without its end.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Self {
        Self::record(line).unwrap_or(Self {
            sequence: None,
            stamp: None,
            written: false,
            message: line,
        })
    }

    /// A message that a journal has taken apart already.
    pub(super) fn of_journal(message: &'a [u8], at: Option<Timestamp>) -> Self {
        Self {
            sequence: None,
            stamp: Some(at.map_or(Stamp::Unknown, Stamp::At)),
            written: false,
            message,
        }
    }

    /// When it was logged. In a plain line that is searched for, so it is asked for lines that matter.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp.unwrap_or_else(|| stamp(self.message))
    }

    fn record(line: &'a [u8]) -> Option<Self> {
        let (priority, rest) = field(line)?;
        let (sequence, rest) = field(rest)?;
        let (microseconds, rest) = field(rest)?;
        let end = memchr::memchr(b';', rest)?;
        let _flags = std::str::from_utf8(&rest[..end]).ok()?;
        Some(Self {
            sequence: Some(sequence),
            stamp: Some(Stamp::SinceBoot(microseconds)),
            // The level, and above it the facility: the kernel's own is 0, and nobody else is given that.
            written: priority > 7,
            message: &rest[end + 1..],
        })
    }

    /// The message as the kernel wrote it, undecoded.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.message
    }

    /// The message as text: escapes are undone, and what is no UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> Cow<'a, str> {
        self.decode(self.message)
    }

    /// The kernel's own words as text, which a message of the driver begins: what a log writes before them is not in it. It
    /// is empty where a log daemon passed on what another program said.
    #[must_use]
    pub fn said(&self) -> Cow<'a, str> {
        if self.stamp.is_none() {
            return self.decode(prefix::strip(self.message));
        }
        if self.written && is_passed_on(self.message) {
            return Cow::Borrowed("");
        }
        self.decode(self.message)
    }

    fn decode(&self, message: &'a [u8]) -> Cow<'a, str> {
        if self.sequence.is_none() || !message.contains(&b'\\') {
            // Nearly all of it is text, which is told faster than what is not is looked for.
            return match std::str::from_utf8(message) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => String::from_utf8_lossy(message),
            };
        }
        Cow::Owned(String::from_utf8_lossy(&unescape(message)).into_owned())
    }
}

/// Whether `[PID]: ` is somewhere in it: what systemd's journal passes on to the kernel's log has that after the name that
/// the program gave itself, which may be any text.
fn is_passed_on(message: &[u8]) -> bool {
    memchr::memchr_iter(b'[', message).any(|at| {
        let rest = &message[at + 1..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && rest[digits..].starts_with(b"]: ")
    })
}

/// A number and the comma after it, and what follows. Each record has three of them, so nothing here looks twice.
fn field(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                let digit = u64::from(byte - b'0');
                number = number.checked_mul(10)?.checked_add(digit)?;
            }
            b',' if at > 0 => return Some((number, &bytes[at + 1..])),
            _ => return None,
        }
    }
    None
}

// `parse` alone would accept a sign.
fn number(field: &str) -> Option<u64> {
    if !field.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    field.parse().ok()
}

fn unescape(message: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(message.len());
    let mut rest = message;
    while let Some((first, after)) = rest.split_first() {
        if let [b'\\', b'x', high, low, ..] = rest
            && let (Some(high), Some(low)) = (
                char::from(*high).to_digit(16),
                char::from(*low).to_digit(16),
            )
        {
            plain.push((high * 16 + low) as u8);
            rest = &rest[4..];
        } else {
            plain.push(*first);
            rest = after;
        }
    }
    plain
}

/// The time in a plain line: `[ 12.345678]` of `dmesg`, or an RFC 3339 time as a line's first word.
///
/// The traditional time of syslog has neither year nor zone, so it is not taken for a time.
fn stamp(line: &[u8]) -> Stamp {
    // September 2001; as a time since boot it would be thirty-one years.
    const UNIX_SECONDS: u64 = 1_000_000_000;
    // The longest prefix that is looked at: a syslog header with a long host name.
    const PREFIX: usize = 160;
    let prefix = String::from_utf8_lossy(&line[..line.len().min(PREFIX)]);
    for word in prefix.split_ascii_whitespace().take(5) {
        let bare = word.trim_start_matches('[').trim_end_matches([']', ':']);
        if let Ok(at) = bare.parse::<Timestamp>() {
            return Stamp::At(at);
        }
    }
    // `journalctl -o short-unix`: seconds since 1970, which no machine has been up for.
    let first = prefix.split_ascii_whitespace().next();
    if let Some(microseconds) = first.and_then(since_boot)
        && microseconds >= UNIX_SECONDS * 1_000_000
        && let Some(at) = i64::try_from(microseconds).ok()
        && let Ok(at) = Timestamp::from_microsecond(at)
    {
        return Stamp::At(at);
    }
    let mut rest = prefix.as_ref();
    while let Some((_, after)) = rest.split_once('[') {
        if let Some((inside, _)) = after.split_once(']')
            && let Some(microseconds) = since_boot(inside.trim_start())
        {
            return Stamp::SinceBoot(microseconds);
        }
        rest = after;
    }
    Stamp::Unknown
}

fn since_boot(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.len() != 6 || seconds.is_empty() {
        return None;
    }
    number(seconds)?
        .checked_mul(1_000_000)?
        .checked_add(number(fraction)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record() {
        let line = Line::parse(b"4,1234,5678901,-,caller=T77;NVRM: Xid (PCI:0000:3b:00): 79");
        assert_eq!(line.sequence, Some(1234));
        assert_eq!(line.stamp(), Stamp::SinceBoot(5_678_901));
        assert_eq!(line.text(), "NVRM: Xid (PCI:0000:3b:00): 79");
    }

    #[test]
    fn what_begins_otherwise_is_a_plain_line() {
        for line in [
            "",
            "4",
            "4,1",
            "4,1,2",
            "4,1,2;x",
            "4,1,2,-",
            "4,,2,-;x",
            ",1,2,-;x",
            "4,+1,2,-;x",
            "4,1 ,2,-;x",
            "4,18446744073709551616,2,-;x",
            "a;4,1,2,-;x",
        ] {
            let parsed = Line::parse(line.as_bytes());
            assert_eq!((parsed.sequence, parsed.bytes()), (None, line.as_bytes()));
        }
        assert_eq!(Line::parse(b"4,1,2,\xff;x").sequence, None);
        assert_eq!(Line::parse(b"4,1,2,;x").bytes(), b"x");
        let last = Line::parse(b"4,18446744073709551615,2,-;x").sequence;
        assert_eq!(last, Some(u64::MAX));
    }

    #[test]
    fn the_kernels_words_begin_a_record_and_follow_only_what_a_log_writes() {
        let said = |line: &'static [u8]| Line::parse(line).said();
        const XID: &str = "NVRM: Xid (PCI:0000:3b:00): 79";
        assert_eq!(said(b"4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79"), XID);
        assert_eq!(
            said(b"May 10 09:00:00 node kernel: NVRM: Xid (PCI:0000:3b:00): 79"),
            XID
        );
        // Before a message in a record there is nothing to be taken off.
        for line in [
            &b"4,1,2,-;[    1.000000] NVRM: Xid (PCI:0000:3b:00): 79"[..],
            b"4,1,2,-;kernel: NVRM: Xid (PCI:0000:3b:00): 79",
        ] {
            assert!(!Line::parse(line).said().starts_with("NVRM"));
        }
        let of_journal = Line::of_journal(b"kernel: NVRM: x", None);
        assert_eq!(of_journal.said(), "kernel: NVRM: x");
    }

    #[test]
    fn what_root_writes_is_the_kernels_word_and_what_a_log_daemon_passes_on_is_not() {
        let said = |line: &'static [u8]| Line::parse(line).said();
        // `echo "NVRM: ..." > /dev/kmsg`.
        assert_eq!(
            said(b"12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79"),
            "NVRM: Xid (PCI:0000:3b:00): 79"
        );
        // A program that names itself so: `systemd-cat -t 'NVRM: Xid (...): 79, x'`.
        assert_eq!(
            said(b"14,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, x[4711]: y"),
            ""
        );
        assert_eq!(
            said(b"4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, x[4711]: y"),
            "NVRM: Xid (PCI:0000:3b:00): 79, x[4711]: y"
        );
        assert!(!is_passed_on(b"a [x]: [1] [2]:3 []: [") && is_passed_on(b"[[1]: "));
    }

    #[test]
    fn a_message_may_hold_a_semicolon_and_a_comma() {
        assert_eq!(Line::parse(b"6,1,2,-;a;b,c").text(), "a;b,c");
    }

    #[test]
    fn a_record_of_several_lines() {
        let line = Line::parse(b"4,1,2,-;one\\x0atwo\\x5cthree");
        assert_eq!(line.text(), "one\ntwo\\three");
    }

    #[test]
    fn a_backslash_that_is_no_escape_stays() {
        assert_eq!(
            Line::parse(b"4,1,2,-;a\\b\\x\\xg0\\x0").text(),
            "a\\b\\x\\xg0\\x0"
        );
        assert_eq!(
            Line::parse(b"[    1.000000] path a\\x41b").text(),
            "[    1.000000] path a\\x41b"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(Line::parse(b"4,1,2,-;a\\xffb").text(), "a\u{fffd}b");
        assert_eq!(Line::parse(b"a\xffb").text(), "a\u{fffd}b");
    }

    #[test]
    fn the_time_of_a_plain_line() {
        let at = |text: &str| Stamp::At(text.parse().unwrap());
        for (line, expected) in [
            ("[   12.345678] NVRM: x", Stamp::SinceBoot(12_345_678)),
            (
                "[12345.000001] [ T1946] NVRM: x",
                Stamp::SinceBoot(12_345_000_001),
            ),
            (
                "May 10 09:00:00 node kernel: [   12.345678] NVRM: x",
                Stamp::SinceBoot(12_345_678),
            ),
            (
                "2026-05-10T09:00:00.5+02:00 node kernel: NVRM: x",
                at("2026-05-10T07:00:00.5Z"),
            ),
            (
                "10.0.0.1: kern: warning: [2026-05-10T09:00:00Z]: NVRM: x",
                at("2026-05-10T09:00:00Z"),
            ),
            ("May 10 09:00:00 node kernel: NVRM: x", Stamp::Unknown),
            (
                "2026-05-10T09:00:00+0200 node kernel: NVRM: x",
                at("2026-05-10T07:00:00Z"),
            ),
            (
                "1778396400.500000 node kernel: NVRM: x",
                at("2026-05-10T07:00:00.5Z"),
            ),
            (
                "NVRM: Xid (PCI:0000:3b:00): 79, a [12] [1.2]",
                Stamp::Unknown,
            ),
            ("", Stamp::Unknown),
        ] {
            assert_eq!(Line::parse(line.as_bytes()).stamp(), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes: Vec<u8>) {
            let _ = Line::parse(&bytes).text();
        }

        #[test]
        fn what_the_kernel_escapes_is_read_back(message in "[ -~\\n\\x01\u{e9}]{0,80}", sequence: u64, microseconds: u64) {
            // As the kernel writes it: control characters, backslash and bytes beyond ASCII are escaped.
            let mut record = format!("4,{sequence},{microseconds},-;").into_bytes();
            for byte in message.bytes() {
                if !(b' '..0x7f).contains(&byte) || byte == b'\\' {
                    record.extend(format!("\\x{byte:02x}").bytes());
                } else {
                    record.push(byte);
                }
            }
            let line = Line::parse(&record);
            prop_assert_eq!(line.text(), message);
            prop_assert_eq!(line.sequence, Some(sequence));
        }
    }
}
