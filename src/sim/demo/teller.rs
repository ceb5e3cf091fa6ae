//! Writes the story for people, one line an event.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use super::happening::Tone;
use super::history::{Audience, Event, since};

/// Where the lines go. Styles are always written; a stream that must not have them takes them out.
#[derive(Clone)]
pub struct Page {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    out: Box<dyn Write + Send>,
    /// The first failure to write; nothing is written after it.
    failed: Option<std::io::Error>,
}

impl Page {
    /// A page on this stream.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        let inner = Inner { out, failed: None };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// Writes text and sees that it is out.
    pub fn write(&self, text: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.failed.is_some() {
            return;
        }
        let written = inner.out.write_all(text.as_bytes());
        if let Err(error) = written.and_then(|()| inner.out.flush()) {
            inner.failed = Some(error);
        }
    }

    /// Whether everything could be written.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub fn finish(&self) -> std::io::Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.failed.take().map_or(Ok(()), Err)
    }
}

/// Bold.
pub const STRONG: Style = Style::new().bold();
/// Dim.
pub const FAINT: Style = Style::new().dimmed();
/// For what is well.
pub const GOOD: Style = colour(AnsiColor::Green);
/// For what is broken.
pub const BAD: Style = colour(AnsiColor::Red).bold();

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Bad => BAD,
        Tone::Held => colour(AnsiColor::Yellow),
        Tone::Act => colour(AnsiColor::Cyan),
        Tone::Good => GOOD,
        Tone::Plain => Style::new(),
        Tone::Quiet => FAINT,
    }
}

/// One line of the story.
#[must_use]
pub fn line(event: &Event, fault_at: Option<Timestamp>) -> String {
    let time = since(fault_at, event.at);
    let (subject, text) = (event.happening.subject(), event.happening.text());
    let tone = style(event.happening.tone());
    format!("{FAINT}{time:>9}{FAINT:#}  {STRONG}{subject:<10}{STRONG:#}  {tone}{text}{tone:#}\n")
}

/// What is called around the writing of a line; it calls what it is given.
pub type Turn = Box<dyn FnMut(&mut dyn FnMut()) + Send>;

/// Tells each event as it happens.
pub struct Teller {
    /// Where to.
    pub page: Page,
    /// Called before each line: takes a progress display out of the way and gives the reader time.
    pub turn: Turn,
}

impl Audience for Teller {
    fn told(&mut self, event: &Event, fault_at: Option<Timestamp>) {
        let line = line(event, fault_at);
        (self.turn)(&mut || self.page.write(&line));
    }
}
