//! Shows what is waited for, on the last line of a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

/// The wait of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// For what.
    pub what: String,
    /// Since when, and how long it will take, where that is known.
    pub takes: Option<(Timestamp, Duration)>,
}

/// A line below the story, on standard error.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows nothing.
    #[must_use]
    pub fn hidden() -> Self {
        let bar = ProgressBar::hidden();
        Self { bar }
    }

    /// Shows a line, if standard error is a terminal.
    #[must_use]
    pub fn on_terminal() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        Self { bar }
    }

    /// Shows the wait, the simulated time (`since`, the fault) and how fast it goes.
    pub fn show(&self, wait: &Wait, now: Timestamp, since: &str, rate: f64) {
        let (template, length, position) = match wait.takes {
            Some((from, all)) => {
                let passed = Duration::try_from(now.duration_since(from)).unwrap_or_default();
                (
                    "{prefix:>9}  {spinner} {bar:24} {msg}",
                    all.as_secs(),
                    passed.min(all).as_secs(),
                )
            }
            None => ("{prefix:>9}  {spinner} {msg}", 0, 0),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("━╸─"));
        }
        self.bar.set_length(length);
        self.bar.set_position(position);
        self.bar.set_prefix(since.to_owned());
        self.bar.set_message(format!("{} ({rate:.0}x)", wait.what));
        self.bar.tick();
    }

    /// Takes the line away while `write` writes above it.
    pub fn aside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Takes the line away for good.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
