//! Logs as no kernel writes them.

use super::messages::FORMS;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// What the reader and the parser look for, and what may trip them.
const TOKENS: [&[u8]; 36] = [
    b"NVRM: ",
    b"NVRM: Xid (",
    b"NVRM: Xid",
    b": SXid",
    b"SXid (",
    b"PCI:0000:3b:00",
    b"PCI:",
    b"GPU-I:",
    b"GPU-CI:4294967296",
    b"):",
    b": 79, ",
    b"4294967296",
    b"18446744073709551616",
    b"pid=",
    b"pid='<unknown>', ",
    b"name=",
    b" caused by previous Xid ",
    b"has fallen off the bus",
    b"The NVIDIA GPU ",
    b"GPU at ",
    b": GPU-",
    b"serial number is ",
    b"\\x",
    b"\\x0a",
    b"\\x00",
    b"\xff\xfe",
    "\u{e9}\u{2028}\u{1f600}".as_bytes(),
    b"\0\0\0\0",
    b"\r\n",
    b"\n ",
    b"\n\n",
    b"__CURSOR=",
    b"\n\n__CURSOR=x\n",
    b"MESSAGE\n\x05\0\0\0\0\0\0\0ab\ncd\n",
    b"MESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xff",
    b"6,1,2,-;",
];

/// Changes a few places.
pub fn mutate(random: &mut ChaCha8Rng, log: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..400) {
        let at = random.random_range(0..=log.len());
        let end = random.random_range(at..=log.len().min(at + 200));
        match random.random_range(0..10) {
            0 => log.truncate(log.len() - log.len().min(end - at)),
            1 => drop(log.drain(at..end)),
            2 | 3 => insert(log, at, TOKENS.choose(random).unwrap()),
            4 => insert(log, at, FORMS.choose(random).unwrap().as_bytes()),
            5 => {
                let copy = log[at..end].to_vec();
                let to = random.random_range(0..=log.len());
                insert(log, to, &copy);
            }
            6 => {
                let byte = *[0, b' ', b'A', b'(', b'\\', 0xff].choose(random).unwrap();
                let length = 1 << random.random_range(0..17);
                if random.random_ratio(1, 20) {
                    insert(log, at, &vec![byte; length]);
                }
            }
            _ if at < log.len() => {
                let interesting = [
                    0,
                    b'\n',
                    b' ',
                    b';',
                    b',',
                    b')',
                    b'=',
                    0x7f,
                    0x80,
                    random.random(),
                ];
                log[at] = *interesting.choose(random).unwrap();
            }
            _ => {}
        }
    }
}

fn insert(log: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    drop(log.splice(at..at, bytes.iter().copied()));
}
