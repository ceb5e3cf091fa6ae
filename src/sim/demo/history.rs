//! Everything that happened in a story, in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::happening::Happening;
use super::narration;
use crate::sim::api_server::{Call, Observer, Write};

/// One happening with its simulated time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// What.
    pub happening: Happening,
}

/// Is told of each event as it happens. Receives the time of the fault as well, once there is one.
pub trait Audience: Send {
    /// Something happened.
    fn told(&mut self, event: &Event, fault_at: Option<Timestamp>);
}

/// Records the story. Clones record the same one.
#[derive(Clone, Default)]
pub struct History {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    open: bool,
    fault_at: Option<Timestamp>,
    events: Vec<Event>,
    audience: Option<Box<dyn Audience>>,
}

impl History {
    /// Begins to record, and to tell. What came before is how the cluster was built, and no part of the story.
    pub fn open(&self, audience: Option<Box<dyn Audience>>) {
        let mut inner = self.lock();
        inner.open = true;
        inner.audience = audience;
    }

    /// Adds what the server does not know of: hardware, people, the scenario itself.
    pub fn add(&self, at: Timestamp, happening: Happening) {
        let mut inner = self.lock();
        if !inner.open {
            return;
        }
        if matches!(happening, Happening::KernelLogged { .. }) {
            inner.fault_at.get_or_insert(at);
        }
        let event = Event { at, happening };
        let fault_at = inner.fault_at;
        if let Some(audience) = &mut inner.audience {
            audience.told(&event, fault_at);
        }
        inner.events.push(event);
    }

    /// All events until now.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// When the driver first wrote a line to a kernel log.
    #[must_use]
    pub fn fault_at(&self) -> Option<Timestamp> {
        self.lock().fault_at
    }

    /// Something of that kind has happened.
    #[must_use]
    pub fn any(&self, is_it: impl Fn(&Happening) -> bool) -> bool {
        self.lock().events.iter().any(|e| is_it(&e.happening))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for History {
    fn called(&mut self, call: &Call) {
        if let Some(happening) = narration::of_call(call) {
            self.add(call.at, happening);
        }
    }

    fn wrote(&mut self, write: &Write) {
        for happening in narration::of_write(write) {
            self.add(write.at, happening);
        }
    }
}

/// A time as the story shows it: since the fault, or before it.
#[must_use]
pub fn since(fault_at: Option<Timestamp>, at: Timestamp) -> String {
    let Some(fault_at) = fault_at else {
        return String::new();
    };
    let since = at.duration_since(fault_at);
    let sign = if since.is_negative() { '-' } else { '+' };
    format!("{sign}{}", duration(since))
}

/// A duration for people: `0.95s`, `4m07s`, `1h02m`.
#[must_use]
pub fn duration(duration: SignedDuration) -> String {
    let millis = duration.as_millis().unsigned_abs();
    // Rounded first, or else 59.999 s would become 60.00s.
    let hundredths = (millis + 5) / 10;
    let seconds = hundredths / 100;
    if seconds < 60 {
        return format!("{seconds}.{:02}s", hundredths % 100);
    }
    let seconds = (millis + 500) / 1000;
    if seconds < 3600 {
        return format!("{}m{:02}s", seconds / 60, seconds % 60);
    }
    format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_and_rounded() {
        let shown = |millis| duration(SignedDuration::from_millis(millis));
        let shown: Vec<_> = [0, 950, 4_006, 59_994, 59_996, 247_400, 3_599_400, 3_720_000]
            .map(shown)
            .into();
        assert_eq!(
            shown,
            [
                "0.00s", "0.95s", "4.01s", "59.99s", "1m00s", "4m07s", "59m59s", "1h02m"
            ]
        );
    }

    #[test]
    fn times_are_counted_from_the_first_line_of_a_kernel_log() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let line = |node: &str| Happening::KernelLogged {
            node: node.into(),
            line: "x".into(),
        };
        let history = History::default();
        history.add(at(1), line("too-early"));
        history.open(None);
        history.add(at(5), Happening::Staged { what: "s".into() });
        history.add(at(7), line("a"));
        history.add(at(9), line("b"));
        assert_eq!(history.fault_at(), Some(at(7)));
        assert_eq!(history.events().len(), 3);
        assert_eq!(since(history.fault_at(), at(5)), "-2.00s");
        assert_eq!(since(history.fault_at(), at(9)), "+2.00s");
    }
}
