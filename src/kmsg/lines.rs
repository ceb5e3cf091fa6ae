//! The lines in what was read of a log.

use super::follow::{Counters, Entry};
use super::journal::{self, Rest, Taken};
use super::record::Line;
use super::time::Origin;
use jiff::Timestamp;
use memchr::memchr;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// A line longer than this is no kernel message, and is cut.
pub(super) const LONGEST_LINE: usize = 32 * 1024;

/// What is known of a log between two reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    /// What came after the last whole line.
    partial: Vec<u8>,
    /// Whether what comes now is new. Until everything has been read that was there when it was first looked, it is not.
    live: bool,
    /// For what was in a file that came while we looked: a stamp since boot is of something new only if it is above this.
    above: Option<u64>,
    /// The latest stamp since boot of a line that mattered.
    newest: Cell<u64>,
    last_sequence: Option<u64>,
    after_record: bool,
    /// What is to come of a journal's entry that is too long to keep and is being passed over.
    passing_over: Option<Rest>,
}

impl Lines {
    /// The same log was opened again, and is read on where the first line begins that was not handed out.
    pub(super) fn go_on(&mut self) {
        self.partial.clear();
    }

    /// Another file is read from its start; whether what it holds already was written since we looked, where we had.
    pub(super) fn begin(&mut self, new: Option<bool>) {
        self.partial.clear();
        self.after_record = false;
        self.passing_over = None;
        if let Some(new) = new {
            self.live = new;
            self.above = Some(self.newest.get());
        }
    }

    /// Everything was read that there is: what comes now is new.
    pub(super) fn catch_up(&mut self) {
        self.live = true;
        self.above = None;
    }

    /// Takes in what was read and hands out the whole lines; how much is kept after them, if there were any.
    pub(super) fn take(
        &mut self,
        read: &[u8],
        device: bool,
        counters: &Counters,
        each: &mut impl FnMut(Entry<'_>),
    ) -> Option<usize> {
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(read);
        // A writer that goes on where it was in a file that was emptied leaves a hole, which reads as zeros.
        if self.passing_over.is_none() {
            let hole = partial.iter().take_while(|byte| **byte == 0).count();
            partial.drain(..hole);
        }
        let mut taken = 0;
        while let Some(length) = self.take_line(&partial[taken..], device, counters, each) {
            taken += length;
        }
        partial.drain(..taken);
        let rest = (taken > 0).then_some(partial.len());
        // A line without an end must not fill the memory.
        partial.truncate(LONGEST_LINE);
        self.partial = partial;
        rest
    }

    /// Hands out the line or the journal's entry that begins here; how long it is, if it has come to its end.
    fn take_line(
        &mut self,
        bytes: &[u8],
        device: bool,
        counters: &Counters,
        each: &mut impl FnMut(Entry<'_>),
    ) -> Option<usize> {
        if let Some(rest) = self.passing_over {
            let (passed, rest) = journal::pass_over(rest, bytes);
            self.passing_over = rest;
            if passed > 0 || rest.is_some() {
                return Some(passed).filter(|passed| *passed > 0);
            }
        }
        if !device && journal::begins(bytes) {
            match journal::take(bytes) {
                Taken::Entry(entry) => {
                    if let Some(message) = entry.message {
                        let at = entry.at.and_then(|at| Timestamp::from_microsecond(at).ok());
                        counters.lines.fetch_add(1, Ordering::Relaxed);
                        self.after_record = false;
                        each(self.entry(Line::of_journal(message, at), device));
                    }
                    return Some(entry.length);
                }
                // No message of the kernel's is as long; it is passed over.
                Taken::Incomplete if bytes.len() >= LONGEST_LINE => {
                    let (passed, rest) = journal::pass_over(Rest::Fields, bytes);
                    self.passing_over = rest;
                    return Some(passed);
                }
                Taken::Incomplete => return None,
                Taken::Nothing => {}
            }
        }
        let length = memchr(b'\n', bytes)?;
        // As long as one whose end has not come yet may be: what it takes to read it is a multiple of that.
        self.line(&bytes[..length.min(LONGEST_LINE)], device, counters, each);
        Some(length + 1)
    }

    fn line(
        &mut self,
        bytes: &[u8],
        device: bool,
        counters: &Counters,
        each: &mut impl FnMut(Entry<'_>),
    ) {
        // `KEY=value` lines that belong to the record before.
        if self.after_record && bytes.first() == Some(&b' ') {
            return;
        }
        let line = Line::parse(bytes);
        self.after_record = line.sequence.is_some();
        counters.lines.fetch_add(1, Ordering::Relaxed);
        // In a file the numbers prove nothing: it may hold a part of the log, or several.
        if let Some(sequence) = line.sequence.filter(|_| device) {
            let expected = self
                .last_sequence
                .map_or(sequence, |last| last.saturating_add(1));
            // After the device was opened again the same records come again: they have been seen.
            if sequence < expected {
                return;
            }
            counters
                .lost
                .fetch_add(sequence - expected, Ordering::Relaxed);
            self.last_sequence = Some(sequence);
        }
        each(self.entry(line, device));
    }

    fn entry<'a>(&'a self, line: Line<'a>, device: bool) -> Entry<'a> {
        let origin = Origin {
            device,
            live: self.live,
            above: self.above,
        };
        Entry::new(line, origin, &self.newest)
    }
}
