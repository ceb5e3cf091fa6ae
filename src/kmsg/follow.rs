//! Reading a kernel log as it grows, on a thread of its own.

use super::journal::{self, Taken};
use super::place::Place;
use super::record::Line;
use super::time::{Origin, event_time, uptime};
use super::wait::Growth;
use jiff::Timestamp;
use memchr::memchr;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether to stop, while nothing can be read.
const POLL: Duration = Duration::from_millis(20);
/// How often a file is checked for having been replaced, and a missing one looked for. A file that grows without the kernel
/// telling, as one that another machine writes, is read as often.
const CHECK: Duration = Duration::from_millis(500);
/// The kernel refuses a read of `/dev/kmsg` into less than one record, which is at most 8 KiB.
const BUFFER: usize = 32 * 1024;
/// A line longer than this is no kernel message, and is cut.
const LONGEST_LINE: usize = 32 * 1024;
/// What is kept of an entry that is passed over, for the beginning of the next may be cut: more than that is long.
const KEPT: usize = 16;
/// The error number of a reader that was too slow: the kernel has overwritten records.
const EPIPE: i32 = 32;
/// Linux's flag (the same on every machine that has GPUs) for a read that says when there is nothing more, instead of
/// waiting: only so is it known that the device's history has been read.
const O_NONBLOCK: i32 = 0o4000;

/// What became of reading the log.
#[derive(Debug, Default)]
pub struct Counters {
    /// Whether the log is open.
    pub open: AtomicBool,
    /// Whether opening or reading it has ended in any way at least once: the history was read, or cannot be read now.
    pub tried: AtomicBool,
    /// Whether everything has been handed out that was there when it was first looked. Set after the last such line.
    pub caught_up: AtomicBool,
    /// Records or lines read.
    pub lines: AtomicU64,
    /// Records that the kernel overwrote before they were read, by the gaps in their numbers.
    pub lost: AtomicU64,
    /// Failed attempts to open or read.
    pub errors: AtomicU64,
}

/// A line of the log, as it is handed out.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The line.
    pub line: Line<'a>,
    origin: Origin,
}

impl Entry<'_> {
    /// When the line was logged; `None` where it was there before and does not tell. Asks the clocks, so it is for lines
    /// that matter.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        event_time(self.line.stamp(), self.origin, Timestamp::now(), uptime)
    }
}

/// A kernel log.
#[derive(Debug)]
pub struct KernelLog {
    path: PathBuf,
    last_sequence: Option<u64>,
    after_record: bool,
    /// Whether everything has been read that was there when it was first looked: what comes now is new.
    live: bool,
    /// Whether the rest of a journal's entry that is too long to keep is being passed over.
    passing_over: bool,
    /// How far a file was read, so that one that is opened again is not counted again.
    place: Option<Place>,
    /// The failure that was logged last, so that it is said once and not at each try.
    said: Option<ErrorKind>,
}

enum Ended {
    /// The file was replaced or cut; it is to be opened again.
    Replaced,
    Stopped,
    Failed(std::io::Error),
}

impl KernelLog {
    /// A log that will be read from `path`: the device `/dev/kmsg` or a file. It need not exist yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            last_sequence: None,
            after_record: false,
            live: false,
            passing_over: false,
            place: None,
            said: None,
        }
    }

    /// Reads what is there and then what comes, until `stopped`; gives each line to `each`.
    pub fn follow(
        mut self,
        counters: &Counters,
        stopped: impl Fn() -> bool,
        mut each: impl FnMut(Entry<'_>),
    ) {
        while !stopped() {
            let ended = match open(&self.path) {
                Ok(file) => {
                    counters.open.store(true, Ordering::Relaxed);
                    self.read(file, counters, &stopped, &mut each)
                }
                Err(error) => {
                    // What is not there holds no history.
                    if error.kind() == ErrorKind::NotFound {
                        self.catch_up(counters);
                    }
                    Ended::Failed(error)
                }
            };
            counters.open.store(false, Ordering::Relaxed);
            match ended {
                Ended::Stopped => return,
                Ended::Replaced => {
                    self.place = None;
                    self.passing_over = false;
                }
                Ended::Failed(error) => {
                    counters.errors.fetch_add(1, Ordering::Relaxed);
                    counters.tried.store(true, Ordering::Release);
                    if self.said != Some(error.kind()) {
                        tracing::warn!(path = %self.path.display(), %error, "cannot read the kernel log; trying again");
                        self.said = Some(error.kind());
                    }
                    pause(CHECK, &stopped);
                }
            }
        }
    }

    fn read(
        &mut self,
        mut file: File,
        counters: &Counters,
        stopped: &impl Fn() -> bool,
        each: &mut impl FnMut(Entry<'_>),
    ) -> Ended {
        let metadata = match file.metadata() {
            Ok(metadata) => metadata,
            Err(error) => return Ended::Failed(error),
        };
        let device = metadata.file_type().is_char_device();
        if metadata.is_dir() {
            return Ended::Failed(ErrorKind::IsADirectory.into());
        }
        let mut buffer = vec![0; BUFFER];
        let mut partial = Vec::new();
        let mut place = (metadata.is_file()).then(|| {
            let before = self.place.take();
            before
                .filter(|place| place.is_in(&file, &metadata))
                .unwrap_or_else(|| Place::start(&metadata))
        });
        let mut position = place.as_ref().map_or(0, Place::position);
        if position > 0
            && let Err(error) = file.seek(SeekFrom::Start(position))
        {
            self.place = place;
            return Ended::Failed(error);
        }
        let growth = Growth::of(&file, &metadata);
        let (mut checked, mut announced, mut told) = (Instant::now(), false, false);
        let ended = loop {
            if stopped() {
                break Ended::Stopped;
            }
            // Looked before each read: what was emptied and written anew may by now be as long as before, or longer.
            if place
                .as_ref()
                .is_some_and(|place| place.was_cut(&file, position))
            {
                break Ended::Replaced;
            }
            let read = match file.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                read => read,
            };
            if read.is_ok() && !announced {
                announced = true;
                self.said = None;
                tracing::info!(path = %self.path.display(), "reading the kernel log");
            }
            match read {
                Ok(0) => {
                    self.catch_up(counters);
                    if stopped() {
                        break Ended::Stopped;
                    }
                    if checked.elapsed() >= CHECK {
                        checked = Instant::now();
                        if was_replaced(&self.path, &metadata) {
                            break Ended::Replaced;
                        }
                    }
                    // Told of something, and yet there is nothing, as with /dev/null.
                    if told {
                        std::thread::sleep(POLL);
                    }
                    told = growth.wait(&file, CHECK);
                }
                Ok(length) => {
                    told = false;
                    let read = &buffer[..length];
                    if let Some(place) = &mut place {
                        place.learn(position, read);
                    }
                    position += length as u64;
                    partial.extend_from_slice(read);
                    let rest = self.take_lines(&mut partial, device, counters, each);
                    if let (Some(place), Some(rest)) = (&mut place, rest) {
                        place.advance(position.saturating_sub(rest as u64));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The gap in the sequence numbers says how many were lost.
                Err(error) if device && error.raw_os_error() == Some(EPIPE) => {}
                Err(error) => break Ended::Failed(error),
            }
        };
        self.place = place;
        ended
    }

    fn catch_up(&mut self, counters: &Counters) {
        self.live = true;
        counters.caught_up.store(true, Ordering::Release);
        counters.tried.store(true, Ordering::Release);
    }

    /// Hands out the whole lines, and keeps what comes after them; how much that is, if there were any.
    fn take_lines(
        &mut self,
        partial: &mut Vec<u8>,
        device: bool,
        counters: &Counters,
        each: &mut impl FnMut(Entry<'_>),
    ) -> Option<usize> {
        // A writer that goes on where it was in a file that was emptied leaves a hole, which reads as zeros.
        let hole = partial.iter().take_while(|byte| **byte == 0).count();
        partial.drain(..hole);
        let mut taken = 0;
        while let Some(length) = self.take_line(&partial[taken..], device, counters, each) {
            taken += length;
        }
        partial.drain(..taken);
        let rest = (taken > 0).then_some(partial.len());
        // A line without an end must not fill the memory.
        partial.truncate(LONGEST_LINE);
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
        if self.passing_over {
            let next = journal::next(bytes);
            self.passing_over = next.is_none();
            return next.or_else(|| bytes.len().checked_sub(KEPT).filter(|length| *length > 0));
        }
        if !device && journal::begins(bytes) {
            let entry = match journal::take(bytes) {
                Taken::Entry(entry) => entry,
                // No message of the kernel's is as long; it is passed over.
                Taken::Incomplete if bytes.len() >= LONGEST_LINE => {
                    self.passing_over = true;
                    return Some(1);
                }
                Taken::Incomplete => return None,
            };
            if let Some(message) = entry.message {
                let at = entry.at.and_then(|at| Timestamp::from_microsecond(at).ok());
                counters.lines.fetch_add(1, Ordering::Relaxed);
                self.after_record = false;
                let line = Line::of_journal(message, at);
                let origin = Origin {
                    device,
                    live: self.live,
                };
                each(Entry { line, origin });
            }
            return Some(entry.length);
        }
        let length = memchr(b'\n', bytes)?;
        self.line(&bytes[..length], device, counters, each);
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
        each(Entry {
            line,
            origin: Origin {
                device,
                live: self.live,
            },
        });
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)
}

fn was_replaced(path: &Path, opened: &Metadata) -> bool {
    match std::fs::metadata(path) {
        Ok(now) => now.ino() != opened.ino() || now.dev() != opened.dev(),
        // Removed, and perhaps soon there again: what is open is still read until then.
        Err(_) => false,
    }
}

fn pause(time: Duration, stopped: &impl Fn() -> bool) {
    let mut left = time;
    while !left.is_zero() && !stopped() {
        std::thread::sleep(left.min(POLL));
        left = left.saturating_sub(POLL);
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
