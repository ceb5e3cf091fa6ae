//! A log that another file has taken the place of.

use super::follow::{Counters, Entry};
use super::lines::Lines;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// How long it is read on: whoever writes to it is told of the other one only some time after it was put there.
const LINGERS: Duration = Duration::from_secs(30);

/// It is open still, and read on beside the other for a while.
#[derive(Debug)]
pub(super) struct Former {
    file: File,
    lines: Lines,
    until: Instant,
}

impl Former {
    /// A file that was read up to its end just now.
    pub(super) fn new(file: File, lines: Lines) -> Self {
        Self {
            file,
            lines,
            until: Instant::now() + LINGERS,
        }
    }

    /// Hands out what has come to it; whether it is to be read again.
    pub(super) fn read(&mut self, counters: &Counters, each: &mut impl FnMut(Entry<'_>)) -> bool {
        let over = Instant::now() >= self.until;
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = self.file.read(&mut buffer) {
            self.lines.take(&buffer[..length], false, counters, each);
        }
        !over
    }
}
