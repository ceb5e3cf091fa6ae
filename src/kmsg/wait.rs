//! Waiting for a log to grow, without looking again and again.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::fs::{File, Metadata};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

/// How often it is looked where the kernel does not tell.
const STEP: Duration = Duration::from_millis(20);

/// How the kernel tells that there is more.
#[derive(Debug)]
pub(super) enum Growth {
    /// A device by itself.
    Device,
    /// What is told of a file.
    File(OwnedFd),
    /// Not at all: it is something else, or there is no more room for such watches.
    Untold,
}

impl Growth {
    /// Of a log that was opened.
    pub(super) fn of(file: &File, metadata: &Metadata) -> Self {
        if metadata.file_type().is_char_device() {
            return Self::Device;
        }
        let watched = metadata.is_file().then(|| watch(file));
        match watched {
            Some(Ok(told)) => Self::File(told),
            Some(Err(error)) => {
                tracing::info!(%error, "the kernel does not tell when the log grows; looking instead");
                Self::Untold
            }
            None => Self::Untold,
        }
    }

    /// Waits until there is more to read or something else became of the file, but not longer than that; whether the
    /// kernel told of something.
    pub(super) fn wait(&self, file: &File, longest: Duration) -> bool {
        match self {
            Self::Device => is_told(file, longest),
            Self::File(told) => {
                let is_told = is_told(told, longest);
                // It is taken away, or the next wait would end at once. What it tells of is there at the next read.
                let mut room = [MaybeUninit::<u8>::uninit(); 1024];
                while rustix::io::read(told, &mut room).is_ok_and(|(some, _)| !some.is_empty()) {}
                is_told
            }
            Self::Untold => {
                std::thread::sleep(STEP.min(longest));
                false
            }
        }
    }
}

/// Watches the file that is open, whatever has its name by now.
fn watch(file: &File) -> rustix::io::Result<OwnedFd> {
    let told = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    // The attributes change when its name is taken away.
    inotify::add_watch(&told, open, WatchFlags::MODIFY | WatchFlags::ATTRIB)?;
    Ok(told)
}

fn is_told(by: impl AsFd, longest: Duration) -> bool {
    let longest_spec = Timespec::try_from(longest).ok();
    match poll(
        &mut [PollFd::new(&by, PollFlags::IN)],
        longest_spec.as_ref(),
    ) {
        Ok(ready) => ready > 0,
        Err(_) => {
            std::thread::sleep(STEP.min(longest));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_file_that_grows_or_loses_its_name_ends_a_wait() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        let file = File::open(written.path()).unwrap();
        let growth = Growth::of(&file, &file.metadata().unwrap());
        assert!(matches!(growth, Growth::File(_)));
        assert!(!growth.wait(&file, Duration::from_millis(1)));
        for _ in 0..3 {
            written.write_all(b"a line\n").unwrap();
            assert!(growth.wait(&file, LONG));
            assert!(!growth.wait(&file, Duration::ZERO), "it was told once");
        }
        let next = tempfile::NamedTempFile::new_in(written.path().parent().unwrap()).unwrap();
        next.persist(written.path()).unwrap();
        assert!(growth.wait(&file, LONG));
    }

    #[test]
    fn a_device_tells_by_itself_and_what_is_neither_is_looked_at() {
        let null = File::open("/dev/null").unwrap();
        let growth = Growth::of(&null, &null.metadata().unwrap());
        assert!(matches!(growth, Growth::Device));
        assert!(growth.wait(&null, LONG));
        let (pipe, _writer) = std::io::pipe().unwrap();
        let pipe = File::from(OwnedFd::from(pipe));
        let growth = Growth::of(&pipe, &pipe.metadata().unwrap());
        assert!(matches!(growth, Growth::Untold));
        assert!(!growth.wait(&pipe, LONG));
    }
}
