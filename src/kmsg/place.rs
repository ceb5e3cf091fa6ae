//! How far a file was read, and whether it is still the same one.

use super::record::{Line, Stamp};
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};

/// So much of a file's beginning is remembered. Log lines tell their time, so no two logs begin alike for so long.
const HEAD: usize = 1024;

/// A place in a file.
#[derive(Debug)]
pub(super) struct Place {
    device: u64,
    inode: u64,
    /// Where the first line begins that was not handed out.
    position: u64,
    /// How the file begins, as far as it was read.
    head: Vec<u8>,
}

impl Place {
    /// The beginning of a file.
    pub(super) fn start(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            position: 0,
            head: Vec::new(),
        }
    }

    /// Where the first line begins that was not handed out.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Lines were handed out up to here.
    pub(super) fn advance(&mut self, position: u64) {
        self.position = position;
    }

    /// Takes in what was read at a position.
    pub(super) fn learn(&mut self, position: u64, read: &[u8]) {
        let known = self.head.len();
        let new = usize::try_from(position)
            .ok()
            .and_then(|position| read.get(known.checked_sub(position)?..));
        if let Some(new) = new {
            self.head.extend(new.iter().take(HEAD - known));
        }
    }

    /// Whether a file that was opened again is the one that the place is in.
    pub(super) fn is_in(&self, file: &File, metadata: &Metadata) -> bool {
        metadata.dev() == self.device
            && metadata.ino() == self.inode
            && !self.was_cut(file, self.position)
    }

    /// Whether another file is a copy of the one that the place is in, as far as that was read. That is told only of a log
    /// whose lines tell their time, or of a long one: the same few words may well be written once more.
    pub(super) fn is_copied_to(&self, file: &File, metadata: &Metadata) -> bool {
        let first = self.head.split(|byte| *byte == b'\n').next();
        let tells_time = first.is_some_and(|line| Line::parse(line).stamp() != Stamp::Unknown);
        (tells_time || self.head.len() == HEAD)
            && self.position > 0
            && metadata.len() >= self.head.len() as u64
            && !self.was_cut(file, self.position)
    }

    /// The same place in a copy.
    pub(super) fn moved_to(self, file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            ..self
        }
    }

    /// Whether the file is shorter than what was read of it, or begins otherwise.
    pub(super) fn was_cut(&self, file: &File, read: u64) -> bool {
        let mut head = [0; HEAD];
        let head = &mut head[..self.head.len()];
        file.metadata().is_ok_and(|now| now.len() < read)
            || (file.read_exact_at(head, 0).is_ok() && *head != *self.head)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_beginning_is_learned_once_and_up_to_its_length() {
        let mut file = tempfile::tempfile().unwrap();
        let mut place = Place::start(&file.metadata().unwrap());
        place.learn(0, b"one");
        // Read again from where the last whole line ended, and then far on.
        place.learn(1, b"ne, two");
        place.learn(500, b"elsewhere");
        assert_eq!(place.head, b"one, two");
        place.learn(8, &[b'.'; 2 * HEAD]);
        assert_eq!(place.head.len(), HEAD);
        place.learn(2 * HEAD as u64, b"more");
        assert_eq!(place.head.len(), HEAD);

        std::io::Write::write_all(&mut file, &place.head.clone()).unwrap();
        assert!(!place.was_cut(&file, HEAD as u64));
        assert!(place.was_cut(&file, HEAD as u64 + 1), "it is shorter");
        file.write_all_at(b"O", 0).unwrap();
        assert!(place.was_cut(&file, HEAD as u64), "it begins otherwise");
    }

    #[test]
    fn a_copy_is_told_by_lines_that_tell_their_time() {
        let copied = |log: &[u8], copy: &[u8]| {
            let (file, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
            let mut place = Place::start(&file.metadata().unwrap());
            place.learn(0, log);
            place.advance(log.len() as u64);
            other.write_all_at(copy, 0).unwrap();
            place.is_copied_to(&other, &other.metadata().unwrap())
        };
        let log = b"[   12.345678] x\n";
        assert!(copied(log, log) && copied(log, b"[   12.345678] x\n[   12.345679] y\n"));
        assert!(!copied(log, b"[   12.345679] x\n") && !copied(log, b"[   12.345678]"));
        assert!(!copied(b"x\n", b"x\n"), "it may be written once more");
        assert!(copied(&[b'x'; HEAD], &[b'x'; HEAD]));
    }
}
