//! Waiting for the scenario to change, as the real library waits for its driver: without looking again and again.

use crate::scenario;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// How often it is looked where the kernel does not tell.
const STEP: Duration = Duration::from_millis(5);

/// What the kernel tells of the scenario's folder; `None` where it tells nothing, because each user may ask for so much only.
pub(crate) struct Changes(Option<OwnedFd>);

impl Default for Changes {
    fn default() -> Self {
        Self(scenario::path().and_then(Path::parent).and_then(watch))
    }
}

fn watch(folder: &Path) -> Option<OwnedFd> {
    let watched = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
    // A scenario is put in the place of the one before, or written where it is.
    let both = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&watched, folder, both).ok()?;
    Some(watched)
}

impl Changes {
    /// Waits until something may have changed since the last wait, and no longer than that.
    pub(crate) fn wait(&self, longest: Duration) {
        let Some(watched) = &self.0 else {
            std::thread::sleep(STEP.min(longest));
            return;
        };
        let longest = Timespec::try_from(longest).ok();
        let told = poll(&mut [PollFd::new(watched, PollFlags::IN)], longest.as_ref());
        if told.is_err() {
            std::thread::sleep(STEP);
        }
        // What was told is taken away, or the next wait would end at once.
        let mut room = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(watched, &mut room);
        while events
            .next()
            .is_ok_and(|event| event.events() != ReadFlags::empty())
        {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_wait_ends_with_a_change_or_with_its_time() {
        let folder =
            std::env::temp_dir().join(format!("fake-driver-changes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for changes in [Changes(watch(&folder)), Changes(None)] {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(50) {
                changes.wait(Duration::from_millis(50) - begun.elapsed());
            }
            for round in 0..3 {
                std::fs::write(folder.join("next"), round.to_string()).unwrap();
                std::fs::rename(folder.join("next"), folder.join("scenario.yaml")).unwrap();
                // It would not end otherwise.
                changes.wait(Duration::from_secs(3600));
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
