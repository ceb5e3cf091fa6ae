//! Whole logs, and what must be read from them.

use super::messages::{other, printed};
use super::mutate::mutate;
use gpu_remediator::xid::Message;
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

/// Longer than the reader keeps a line.
const LONG: std::ops::Range<usize> = 32 * 1024..200 * 1024;

/// What is in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Records of `/dev/kmsg` and plain lines.
    Lines,
    /// Entries of a journal.
    Journal,
    /// Either, with changes.
    Changed,
}

/// What the parser must make of a line.
#[derive(Debug)]
pub enum Read {
    /// This one message.
    Message(Message),
    /// Nothing: they are not the kernel's words.
    Nothing,
    /// That is not known.
    Anything,
}

/// What must be handed out next.
#[derive(Debug)]
pub enum Expected {
    /// A line with this text, and what the parser must make of it.
    Text(String, Read),
    /// A line that was too long, whatever is left of it.
    Cut,
    /// This text, or nothing: it is as long as the most that is kept, or longer.
    Perhaps(String),
}

/// A log.
pub struct Log {
    /// What is in it.
    pub kind: Kind,
    /// The file.
    pub bytes: Vec<u8>,
    /// What must be read; nothing where that is not known.
    pub expected: Option<Vec<Expected>>,
}

impl Log {
    /// The next one.
    pub fn next(random: &mut ChaCha8Rng) -> Self {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        let of_journal = random.random_ratio(1, 3);
        let size = 1 << random.random_range(8..20);
        while bytes.len() < size {
            if of_journal {
                entry(random, &mut bytes, &mut expected);
            } else {
                line(random, &mut bytes, &mut expected);
            }
        }
        if random.random() {
            mutate(random, &mut bytes);
            return Self {
                kind: Kind::Changed,
                bytes,
                expected: None,
            };
        }
        let kind = if of_journal {
            Kind::Journal
        } else {
            Kind::Lines
        };
        Self {
            kind,
            bytes,
            expected: Some(expected),
        }
    }
}

/// What the kernel or the driver says, and what the parser makes of it.
fn said(random: &mut ChaCha8Rng) -> (Vec<u8>, Read) {
    if random.random_ratio(1, 4) {
        let (message, line) = printed(random);
        (line.into_bytes(), Read::Message(message))
    } else {
        (other(random), Read::Anything)
    }
}

fn line(random: &mut ChaCha8Rng, log: &mut Vec<u8>, expected: &mut Vec<Expected>) {
    if random.random_ratio(1, 3000) {
        log.extend(b"x".repeat(random.random_range(2 * LONG.start..LONG.end)));
        log.push(b'\n');
        expected.push(Expected::Cut);
        return;
    }
    let (mut said, mut message) = said(random);
    // Somebody's path or name.
    if random.random_ratio(1, 4) {
        let before = [
            &b"process '/tmp/"[..],
            b"x\n",
            b"[    1.000000] x: ",
            b"a b[7]: ",
        ];
        said = [*before.choose(random).unwrap(), &said].concat();
        message = Read::Nothing;
    }
    if random.random() {
        record(random, log, &said, &mut message);
        // As the kernel takes it: what is no UTF-8 is escaped byte by byte.
        expected.push(Expected::Text(
            String::from_utf8_lossy(&said).into_owned(),
            message,
        ));
        return;
    }
    let prefix = [
        "[   12.345678] ",
        "May 10 09:00:00 node kernel: ",
        "2026-05-10T09:00:00+02:00 n kernel: ",
        "x: ",
    ]
    .choose(random)
    .unwrap();
    if *prefix == "x: " {
        message = Read::Nothing;
    }
    said.retain(|byte| *byte != b'\n');
    let line = [prefix.as_bytes(), &said].concat();
    log.extend(&line);
    log.push(b'\n');
    expected.push(Expected::Text(
        String::from_utf8_lossy(&line).into_owned(),
        message,
    ));
}

/// As the kernel writes it: control characters, backslash and bytes beyond ASCII are escaped.
fn record(random: &mut ChaCha8Rng, log: &mut Vec<u8>, said: &[u8], read: &mut Read) {
    let (sequence, microseconds): (u64, u64) = (random.random(), random.random());
    let more = if random.random() { ",caller=T77" } else { "" };
    let priority = random.random_range(0..192);
    // What a log daemon passes on has its mark; a text by chance may have it as well.
    if priority > 7 && matches!(read, Read::Message(_)) {
        *read = Read::Anything;
    }
    log.extend(format!("{priority},{sequence},{microseconds},-{more};").bytes());
    for byte in said {
        if !(b' '..0x7f).contains(byte) || *byte == b'\\' {
            log.extend(format!("\\x{byte:02x}").bytes());
        } else {
            log.push(*byte);
        }
    }
    log.push(b'\n');
    for _ in 0..random.random_range(0..3) {
        log.extend(b" SUBSYSTEM=pci NVRM: Xid (PCI:0000:3b:00): 79\n");
    }
}

fn entry(random: &mut ChaCha8Rng, log: &mut Vec<u8>, expected: &mut Vec<Expected>) {
    let (mut said, mut message) = said(random);
    let long = random.random_ratio(1, 3000);
    if long {
        said.extend(b"y".repeat(random.random_range(LONG)));
        message = Read::Anything;
    }
    let transport = ["kernel", "kernel", "kernel", "stdout", "journal"]
        .choose(random)
        .unwrap();
    // A value with more than printable text has its length before it; any value may.
    let printable = said.iter().all(|byte| (b' '..0x7f).contains(byte));
    let message_field = if printable && random.random() {
        [b"MESSAGE=", &said[..], b"\n"].concat()
    } else {
        [
            b"MESSAGE\n",
            &(said.len() as u64).to_le_bytes()[..],
            &said,
            b"\n",
        ]
        .concat()
    };
    let mut fields = [
        message_field,
        format!("_TRANSPORT={transport}\n").into_bytes(),
        format!("__MONOTONIC_TIMESTAMP={}\n", random.random::<u32>()).into_bytes(),
        format!("_SOURCE_MONOTONIC_TIMESTAMP={}\n", random.random::<i64>()).into_bytes(),
        b"PRIORITY=4\n".to_vec(),
    ];
    fields.shuffle(random);
    let (cursor, at) = (random.random::<u64>(), random.random::<i64>());
    log.extend(format!("__CURSOR=s={cursor}\n__REALTIME_TIMESTAMP={at}\n").bytes());
    fields.iter().for_each(|field| log.extend(field));
    log.push(b'\n');
    if *transport != "kernel" {
        return;
    }
    let text = String::from_utf8_lossy(&said).into_owned();
    expected.push(match long {
        true => Expected::Perhaps(text),
        false => Expected::Text(text, message),
    });
}
