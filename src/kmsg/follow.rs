//! Reading a kernel log as it grows, on a thread of its own.

use super::former::Former;
use super::lines::Lines;
use super::place::Place;
use super::record::{Line, Stamp};
use super::time::{Origin, event_time, uptime};
use super::wait::Growth;
use jiff::Timestamp;
use std::cell::Cell;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How often it is looked whether to stop, while nothing can be read.
const POLL: Duration = Duration::from_millis(20);
/// How often a file is checked for having been replaced, and a missing one looked for. A file that grows without the kernel
/// telling, as one that another machine writes, is read as often.
pub const CHECK: Duration = Duration::from_millis(500);
/// The kernel refuses a read of `/dev/kmsg` into less than one record, which is at most 8 KiB.
const BUFFER: usize = 32 * 1024;
/// A file's times are those of the kernel's last tick, which may be so long ago.
const TICK: Duration = Duration::from_millis(20);
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
    newest: &'a Cell<u64>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(line: Line<'a>, origin: Origin, newest: &'a Cell<u64>) -> Self {
        Self {
            line,
            origin,
            newest,
        }
    }

    /// When the line was logged; `None` where it was there before and does not tell. Asks the clocks, so it is for lines
    /// that matter.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        let stamp = self.line.stamp();
        if let Stamp::SinceBoot(microseconds) = stamp {
            self.newest.set(self.newest.get().max(microseconds));
        }
        event_time(stamp, self.origin, Timestamp::now(), uptime)
    }
}

/// A kernel log.
#[derive(Debug)]
pub struct KernelLog {
    path: PathBuf,
    lines: Lines,
    /// The file that was read before, if it was replaced just now.
    former: Option<Former>,
    /// When it was last looked, and what was found was what is known.
    looked: Option<SystemTime>,
    /// Whether the file is opened again because it was emptied: what it holds now was written since.
    emptied: bool,
    /// How far a file was read, so that one that is opened again is not counted again.
    place: Option<Place>,
    /// The failure that was logged last, so that it is said once and not at each try.
    said: Option<ErrorKind>,
}

enum Ended {
    /// Another file has taken its place.
    Replaced,
    /// The file was cut; it is to be opened again.
    Emptied,
    Stopped,
    Failed(std::io::Error),
}

impl KernelLog {
    /// A log that will be read from `path`: the device `/dev/kmsg` or a file. It need not exist yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            lines: Lines::default(),
            former: None,
            looked: None,
            emptied: false,
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
        let _closed = ClosedAtEnd(counters);
        while !stopped() {
            let looked = SystemTime::now();
            let ended = match open(&self.path) {
                Ok(file) => {
                    counters.open.store(true, Ordering::Relaxed);
                    self.read(file, counters, &stopped, &mut each)
                }
                Err(error) => {
                    // What is not there holds no history.
                    if error.kind() == ErrorKind::NotFound {
                        self.looked = Some(looked);
                        self.catch_up(counters);
                    }
                    self.read_former(counters, &mut each);
                    Ended::Failed(error)
                }
            };
            counters.open.store(false, Ordering::Relaxed);
            match ended {
                Ended::Stopped => return,
                Ended::Replaced => {}
                Ended::Emptied => {
                    self.place = None;
                    self.emptied = true;
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
        let mut place = (metadata.is_file()).then(|| self.place_in(&file, &metadata));
        self.looked = Some(SystemTime::now());
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
            self.read_former(counters, each);
            // Looked before each read: what was emptied and written anew may by now be as long as before, or longer.
            if place
                .as_ref()
                .is_some_and(|place| place.was_cut(&file, position))
            {
                break Ended::Emptied;
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
                        let there = is_there(&self.path, &metadata);
                        counters.open.store(there.is_some(), Ordering::Relaxed);
                        match there {
                            Some(true) => self.looked = Some(SystemTime::now()),
                            Some(false) => break Ended::Replaced,
                            // Removed, and perhaps soon there again: what is open is still read until then.
                            None => {}
                        }
                    }
                    // Told of something, and yet there is nothing, as with /dev/null.
                    if told {
                        std::thread::sleep(POLL);
                    }
                    // Whatever is told meanwhile, the next check is not put off by it.
                    let due = CHECK.saturating_sub(checked.elapsed());
                    told = growth.wait(&file, due.max(POLL));
                }
                Ok(length) => {
                    told = false;
                    let read = &buffer[..length];
                    if let Some(place) = &mut place {
                        place.learn(position, read);
                    }
                    position += length as u64;
                    let rest = self.lines.take(read, device, counters, each);
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
        if matches!(ended, Ended::Replaced) {
            self.former = Some(Former::new(file, self.lines.clone()));
        }
        ended
    }

    /// Where to read on in a file that was opened.
    fn place_in(&mut self, file: &File, metadata: &Metadata) -> Place {
        let emptied = std::mem::take(&mut self.emptied);
        let before = self.place.take();
        let known = before
            .filter(|place| place.is_in(file, metadata) || place.is_copied_to(file, metadata));
        match known {
            Some(place) => {
                self.lines.go_on();
                place.moved_to(metadata)
            }
            None => {
                let new = |looked| emptied || was_written_since(metadata, looked);
                self.lines.begin(self.looked.map(new));
                Place::start(metadata)
            }
        }
    }

    fn read_former(&mut self, counters: &Counters, each: &mut impl FnMut(Entry<'_>)) {
        if let Some(former) = &mut self.former
            && !former.read(counters, each)
        {
            self.former = None;
        }
    }

    fn catch_up(&mut self, counters: &Counters) {
        self.lines.catch_up();
        counters.caught_up.store(true, Ordering::Release);
        counters.tried.store(true, Ordering::Release);
    }
}

/// Says that the log is closed when nobody reads it any more, even if that is because of a panic.
struct ClosedAtEnd<'a>(&'a Counters);

impl Drop for ClosedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.open.store(false, Ordering::Relaxed);
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)
}

/// Whether the file that was opened still has its name; `None` where nothing has it.
fn is_there(path: &Path, opened: &Metadata) -> Option<bool> {
    let now = std::fs::metadata(path).ok()?;
    Some(now.ino() == opened.ino() && now.dev() == opened.dev())
}

/// Whether a file holds only what was written since a moment: it was made after it. One that was changed otherwise after it was
/// written to was put there from elsewhere, with whatever it held.
fn was_written_since(file: &Metadata, moment: SystemTime) -> bool {
    let moved = (file.ctime(), file.ctime_nsec()) > (file.mtime(), file.mtime_nsec());
    // Not every file system tells when a file was made.
    let made = file.created().ok();
    !moved && made.is_none_or(|made| made + TICK >= moment)
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

#[cfg(test)]
#[path = "replaced_tests.rs"]
mod replaced_tests;
