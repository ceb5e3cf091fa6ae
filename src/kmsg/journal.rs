//! Entries of a journal in systemd's export format, as `journalctl --dmesg --output export` writes them.
//!
//! An entry is a number of fields and then an empty line. A field is `KEY=value`, or, where the value holds more than
//! printable text, the key alone on its line, the length of the value in eight bytes, the lowest first, and the value
//! (systemd.io/JOURNAL_EXPORT_FORMATS).

use memchr::{memchr, memmem};

/// The field that every entry begins with.
const START: &[u8] = b"__CURSOR=";
/// The end of an entry and the beginning of the next.
const NEXT: &[u8] = b"\n\n__CURSOR=";

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<'a> {
    /// An entry that has not come to its end yet.
    Incomplete,
    /// An entry.
    Entry(Entry<'a>),
}

/// One entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// How many bytes it takes, with the empty line.
    pub(super) length: usize,
    /// What the kernel wrote; `None` where the entry is not the kernel's.
    pub(super) message: Option<&'a [u8]>,
    /// When, in microseconds since 1970.
    pub(super) at: Option<i64>,
}

/// Whether an entry begins here.
pub(super) fn begins(bytes: &[u8]) -> bool {
    // Nearly every line of any other log is told by its first byte.
    bytes.first() == START.first() && bytes.starts_with(START)
}

/// Where the next entry begins, after one that is too long to be kept.
pub(super) fn next(bytes: &[u8]) -> Option<usize> {
    memmem::find(bytes, NEXT).map(|at| at + 2)
}

/// Takes the entry that begins here.
pub(super) fn take(bytes: &[u8]) -> Taken<'_> {
    let mut entry = Entry::default();
    let mut times = Times::default();
    let (mut kernel, mut written) = (false, false);
    let mut at = 0;
    loop {
        let Some(length) = memchr(b'\n', &bytes[at..]) else {
            return Taken::Incomplete;
        };
        let line = &bytes[at..at + length];
        at += length + 1;
        if line.is_empty() {
            break;
        }
        let (key, value) = match memchr(b'=', line) {
            Some(end) => (&line[..end], &line[end + 1..]),
            None => match sized(&bytes[at..]) {
                Some((value, used)) => {
                    at += used;
                    (line, value)
                }
                None => return Taken::Incomplete,
            },
        };
        match key {
            b"MESSAGE" => entry.message = Some(value),
            b"_TRANSPORT" => kernel = value == b"kernel",
            // What others wrote into the kernel's log has come the same way, and without the name before it.
            b"SYSLOG_FACILITY" => written |= value != b"0",
            b"__REALTIME_TIMESTAMP" => times.realtime = number(value),
            b"__MONOTONIC_TIMESTAMP" => times.monotonic = number(value),
            b"_SOURCE_MONOTONIC_TIMESTAMP" => times.source = number(value),
            _ => {}
        }
    }
    entry.length = at;
    entry.at = times.event();
    entry.message = entry.message.filter(|_| kernel && !written);
    Taken::Entry(entry)
}

/// A value with its length before it and the end of a line after it; and how many bytes all that takes.
fn sized(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let value = rest.get(..length)?;
    rest.get(length)?;
    Some((value, 8 + length + 1))
}

fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Microseconds: of the journal's clocks when it took the entry, and since boot when the kernel wrote the message, which for
/// what the journal found at its start is long before.
#[derive(Default)]
struct Times {
    realtime: Option<i64>,
    monotonic: Option<i64>,
    source: Option<i64>,
}

impl Times {
    fn event(&self) -> Option<i64> {
        let taken = self.realtime?;
        let late = match (self.monotonic, self.source) {
            (Some(monotonic), Some(source)) => monotonic.saturating_sub(source).max(0),
            _ => 0,
        };
        taken.checked_sub(late)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const ENTRY: &[u8] = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1800000010000000\n__MONOTONIC_TIMESTAMP=15000000\n\
        _SOURCE_MONOTONIC_TIMESTAMP=5000000\n_TRANSPORT=kernel\nPRIORITY=4\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79, a=b\n\n";

    fn entry(bytes: &[u8]) -> Entry<'_> {
        match take(bytes) {
            Taken::Entry(entry) => entry,
            Taken::Incomplete => panic!("incomplete"),
        }
    }

    #[test]
    fn the_kernels_message_and_when_it_was_written() {
        let entry = entry(ENTRY);
        assert_eq!(entry.length, ENTRY.len());
        assert_eq!(
            entry.message.unwrap(),
            b"NVRM: Xid (PCI:0000:3b:00): 79, a=b"
        );
        assert_eq!(entry.at, Some(1_800_000_000_000_000));
        assert!(begins(ENTRY) && !begins(b"NVRM: x"));
    }

    #[test]
    fn what_another_program_wrote_is_not_the_kernels() {
        let forged = b"__CURSOR=1\n_TRANSPORT=stdout\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n";
        assert_eq!(entry(forged).message, None);
        // Through the kernel's log, by a program that calls itself `kernel: NVRM: Xid (...): 79, x`.
        let forged = b"__CURSOR=1\n_TRANSPORT=kernel\nSYSLOG_FACILITY=3\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n";
        assert_eq!(entry(forged).message, None);
        let unknown = b"__CURSOR=1\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n";
        assert_eq!(entry(unknown).message, None);
        let kernel = b"__CURSOR=1\n_TRANSPORT=kernel\nSYSLOG_FACILITY=0\nMESSAGE=NVRM: x\n\n";
        assert_eq!(entry(kernel).message.unwrap(), b"NVRM: x");
    }

    #[test]
    fn a_value_of_several_lines() {
        let mut bytes = b"__CURSOR=1\nMESSAGE\n".to_vec();
        // Ten bytes: the length itself looks like the end of a line.
        bytes.extend(10u64.to_le_bytes());
        bytes.extend(b"one\n\ntwo=3\n_TRANSPORT=kernel\n\nrest");
        let entry = entry(&bytes);
        assert_eq!(entry.message.unwrap(), b"one\n\ntwo=3");
        assert_eq!(&bytes[entry.length..], b"rest");
    }

    #[test]
    fn every_beginning_of_an_entry_is_incomplete() {
        for length in 0..ENTRY.len() {
            assert_eq!(take(&ENTRY[..length]), Taken::Incomplete, "{length}");
        }
        let huge = [b"__CURSOR=1\nMESSAGE\n".as_slice(), &[0xff; 8]].concat();
        assert_eq!(take(&huge), Taken::Incomplete);
    }

    #[test]
    fn the_next_entry_is_found() {
        let bytes = [b"garbage".as_slice(), b"\n\n", ENTRY].concat();
        assert_eq!(next(&bytes), Some(9));
        assert_eq!(next(b"garbage\n\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes: Vec<u8>) {
            let _ = take(&bytes);
            let _ = take(&[START, &bytes].concat());
        }
    }
}
