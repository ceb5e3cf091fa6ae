//! Entries of a journal in systemd's export format, as `journalctl --dmesg --output export` writes them.
//!
//! An entry is a number of fields and then an empty line. A field is `KEY=value`, or, where the value holds more than
//! printable text, the key alone on its line, the length of the value in eight bytes, the lowest first, and the value
//! (systemd.io/JOURNAL_EXPORT_FORMATS).

use memchr::memchr;

/// The field that every entry begins with.
const START: &[u8] = b"__CURSOR=";
/// What the second field is one of. What goes on otherwise is a line of another log that begins as an entry does.
const SECOND: [&[u8]; 4] = [
    b"__REALTIME_TIMESTAMP",
    b"__MONOTONIC_TIMESTAMP",
    b"__SEQNUM",
    b"__SEQNUM_ID",
];
/// No name of a field is longer.
const LONGEST_NAME: usize = 64;
/// No value is larger: the journal takes entries of at most 1 GiB.
const LARGEST_VALUE: u64 = 1 << 30;

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<'a> {
    /// An entry that has not come to its end yet.
    Incomplete,
    /// An entry.
    Entry(Entry<'a>),
    /// No entry, though it begins as one.
    Nothing,
}

/// What is to come of an entry that is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Fields, or its end.
    Fields,
    /// The rest of a line.
    Line,
    /// So many bytes of a value.
    Value(u64),
}

/// What a field is, or whatever else stands there.
enum Step<'a> {
    Incomplete,
    Field {
        name: &'a [u8],
        value: &'a [u8],
        length: usize,
    },
    End,
    Nothing,
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

/// Passes over what is there of an entry that is too long to be kept: how many bytes that is, and what is then to come of it;
/// nothing where it has come to its end, or is no entry.
///
/// Its values are measured and not looked into, for what is in them is anybody's.
pub(super) fn pass_over(mut rest: Rest, bytes: &[u8]) -> (usize, Option<Rest>) {
    let mut at = 0;
    loop {
        let left = &bytes[at..];
        match rest {
            Rest::Value(length) => match usize::try_from(length) {
                Ok(length) if length <= left.len() => {
                    at += length;
                    rest = Rest::Fields;
                }
                _ => return (bytes.len(), Some(Rest::Value(length - left.len() as u64))),
            },
            Rest::Line => match memchr(b'\n', left) {
                Some(end) => {
                    at += end + 1;
                    rest = Rest::Fields;
                }
                None => return (bytes.len(), Some(rest)),
            },
            Rest::Fields => {
                let name = name(left);
                let after = left.get(name + 1..).unwrap_or_default();
                match left.get(name) {
                    _ if name > LONGEST_NAME => return (at, None),
                    None => return (at, Some(rest)),
                    Some(b'\n') if name == 0 => return (at + 1, None),
                    Some(b'=') if name > 0 => {
                        at += name + 1;
                        rest = Rest::Line;
                    }
                    Some(b'\n') => match after
                        .first_chunk()
                        .map(|length| u64::from_le_bytes(*length))
                    {
                        None => return (at, Some(rest)),
                        Some(length) if length > LARGEST_VALUE => return (at, None),
                        Some(length) => {
                            at += name + 1 + 8;
                            rest = Rest::Value(length + 1);
                        }
                    },
                    Some(_) => return (at, None),
                }
            }
        }
    }
}

/// Takes the entry that begins here.
pub(super) fn take(bytes: &[u8]) -> Taken<'_> {
    let mut entry = Entry::default();
    let mut times = Times::default();
    let (mut kernel, mut written) = (false, false);
    let (mut at, mut fields) = (0, 0);
    loop {
        let (name, value) = match step(&bytes[at..]) {
            Step::Incomplete => return Taken::Incomplete,
            Step::Nothing => return Taken::Nothing,
            Step::End => break,
            Step::Field {
                name,
                value,
                length,
            } => {
                at += length;
                (name, value)
            }
        };
        fields += 1;
        if (fields == 2 && !SECOND.contains(&name)) || (fields > 2 && name == b"__CURSOR") {
            return Taken::Nothing;
        }
        match name {
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
    if fields < 2 {
        return Taken::Nothing;
    }
    entry.length = at + 1;
    entry.at = times.event();
    entry.message = entry.message.filter(|_| kernel && !written);
    Taken::Entry(entry)
}

fn step(bytes: &[u8]) -> Step<'_> {
    let (name, after) = bytes.split_at(name(bytes));
    if name.len() > LONGEST_NAME {
        return Step::Nothing;
    }
    match after.split_first() {
        None => Step::Incomplete,
        Some((b'\n', _)) if name.is_empty() => Step::End,
        Some((b'=', after)) if !name.is_empty() => match memchr(b'\n', after) {
            None => Step::Incomplete,
            Some(end) => Step::Field {
                name,
                value: &after[..end],
                length: name.len() + 1 + end + 1,
            },
        },
        Some((b'\n', after)) => sized(name, after),
        Some(_) => Step::Nothing,
    }
}

/// A value with its length before it and the end of a line after it.
fn sized<'a>(name: &'a [u8], bytes: &'a [u8]) -> Step<'a> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Step::Incomplete;
    };
    let length = u64::from_le_bytes(*length);
    if length > LARGEST_VALUE {
        return Step::Nothing;
    }
    let Some(length) = usize::try_from(length)
        .ok()
        .filter(|length| *length < rest.len())
    else {
        return Step::Incomplete;
    };
    match rest[length] {
        b'\n' => Step::Field {
            name,
            value: &rest[..length],
            length: name.len() + 1 + 8 + length + 1,
        },
        _ => Step::Nothing,
    }
}

/// How long the name of a field is that begins here.
fn name(bytes: &[u8]) -> usize {
    let is_of_name = |byte: &&u8| matches!(**byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
    bytes
        .iter()
        .take(LONGEST_NAME + 1)
        .take_while(is_of_name)
        .count()
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
            other => panic!("{other:?}"),
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
        let forged = b"__CURSOR=1\n__REALTIME_TIMESTAMP=1\n_TRANSPORT=stdout\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n";
        assert_eq!(entry(forged).message, None);
        // Through the kernel's log, by a program that calls itself `kernel: NVRM: Xid (...): 79, x`.
        let forged = b"__CURSOR=1\n__REALTIME_TIMESTAMP=1\n_TRANSPORT=kernel\nSYSLOG_FACILITY=3\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n";
        assert_eq!(entry(forged).message, None);
        let unknown =
            b"__CURSOR=1\n__REALTIME_TIMESTAMP=1\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n";
        assert_eq!(entry(unknown).message, None);
        let kernel = b"__CURSOR=1\n__REALTIME_TIMESTAMP=1\n_TRANSPORT=kernel\nSYSLOG_FACILITY=0\nMESSAGE=NVRM: x\n\n";
        assert_eq!(entry(kernel).message.unwrap(), b"NVRM: x");
    }

    #[test]
    fn a_value_of_several_lines() {
        let mut bytes = b"__CURSOR=1\n__REALTIME_TIMESTAMP=1\nMESSAGE\n".to_vec();
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
        let large = (1u64 << 29).to_le_bytes();
        let large = [
            b"__CURSOR=1\n__REALTIME_TIMESTAMP=1\nMESSAGE\n".as_slice(),
            &large,
        ]
        .concat();
        assert_eq!(take(&large), Taken::Incomplete);
    }

    #[test]
    fn what_begins_as_an_entry_and_is_none() {
        for lines in [
            &b"__CURSOR=hello\nMay 10"[..],
            b"__CURSOR=hello\n\n",
            b"__CURSOR=hello\n__CURSOR=hello\n",
            b"__CURSOR=hello\nMESSAGE=x\n",
            b"__CURSOR=hello\n__REALTIME_TIMESTAMP=1\n__CURSOR=hello\n",
            b"__CURSOR=hello\nNVRM: Xid",
            b"__CURSOR=hello\n__REALTIME_TIMESTAMP=1\nNVRM: Xid",
            b"__CURSOR=hello\n__REALTIME_TIMESTAMP=1\nMESSAGE\nNVRM: Xid",
            b"__CURSOR=hello\n__REALTIME_TIMESTAMP=1\nMESSAGE\n\x01\0\0\0\0\0\0\0ab",
        ] {
            assert_eq!(
                take(lines),
                Taken::Nothing,
                "{:?}",
                String::from_utf8_lossy(lines)
            );
        }
    }

    #[test]
    fn what_is_passed_over_ends_where_the_entry_does_and_not_within_its_values() {
        let inside = [b"x\n\n", ENTRY].concat();
        let mut entry = b"__CURSOR=1\n__REALTIME_TIMESTAMP=1\nMESSAGE\n".to_vec();
        entry.extend((inside.len() as u64).to_le_bytes());
        entry.extend([&inside[..], b"\n_TRANSPORT=stdout\n\n"].concat());
        let log = [&entry[..], ENTRY].concat();
        assert_eq!(pass_over(Rest::Fields, &log), (entry.len(), None));
        // In pieces of any size.
        for size in 1..log.len() {
            let (mut rest, mut at, mut end) = (Some(Rest::Fields), 0, size);
            while let Some(now) = rest {
                let (passed, then) = pass_over(now, &log[at..end.min(log.len())]);
                (at, rest, end) = (at + passed, then, end + size);
            }
            assert_eq!(at, entry.len(), "{size}");
        }
        assert_eq!(pass_over(Rest::Fields, b"A=1\neth0: up\n"), (4, None));
        assert_eq!(pass_over(Rest::Fields, b"A=1\nB\nNVRM: Xid"), (4, None));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes: Vec<u8>) {
            let _ = take(&bytes);
            let _ = take(&[START, &bytes].concat());
            for rest in [Rest::Fields, Rest::Line, Rest::Value(3)] {
                prop_assert!(pass_over(rest, &bytes).0 <= bytes.len());
            }
        }
    }
}
