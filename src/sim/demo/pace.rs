//! How fast the simulated clock runs while a person reads.
//!
//! The clock of the runtime is paused and jumps to the next timer as soon as everything is idle: a story of ten minutes is
//! over in a second. To let a person follow, the runtime's only thread is held for a moment after each short stretch of
//! simulated time. Every timer still fires at its own instant, so the story is the same at every pace.

use std::time::{Duration, Instant};

/// Simulated time between two moments at which the thread is held, at rate 1.
const REAL_TICK: Duration = Duration::from_millis(40);

/// The slowest and the fastest rate by itself: simulated seconds a second.
const SLOWEST: f64 = 2.0;
const FASTEST: f64 = 120.0;

/// How much faster the clock runs for each tick in which nothing was told.
const GROWTH: f64 = 1.25;

/// How long a reader has for a line.
const LINE: Duration = Duration::from_millis(120);

/// How the simulated clock runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the machine can.
    Free,
    /// Slow while something happens, fast while nothing does.
    Reader,
    /// So many simulated seconds a second.
    Steady(f64),
}

/// The rate of the moment.
#[derive(Clone, Debug)]
pub struct Pacer {
    pace: Pace,
    rate: f64,
    last: Instant,
}

impl Pacer {
    /// Begins at the slowest rate.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        let rate = match pace {
            Pace::Steady(rate) => rate,
            _ => SLOWEST,
        };
        let last = Instant::now();
        Self { pace, rate, last }
    }

    /// The rate now: simulated seconds a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// How much simulated time may pass until the thread is held again; `None`: it never is.
    #[must_use]
    pub fn stretch(&self) -> Option<Duration> {
        match self.pace {
            Pace::Free => None,
            _ => Some(REAL_TICK.mul_f64(self.rate)),
        }
    }

    /// A stretch has passed: how long to hold the thread now. What the machine needed for it counts.
    pub fn passed(&mut self, now: Instant) -> Duration {
        let needed = now.duration_since(self.last);
        if self.pace == Pace::Reader {
            self.rate = (self.rate * GROWTH).min(FASTEST);
        }
        let hold = REAL_TICK.saturating_sub(needed);
        self.last = now + hold;
        hold
    }

    /// A line was told: how long to hold the thread for its reader.
    pub fn told(&mut self) -> Duration {
        if self.pace != Pace::Reader {
            return Duration::ZERO;
        }
        self.rate = SLOWEST;
        self.last = Instant::now() + LINE;
        LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_has_time_for_a_line_and_is_not_bored_by_a_wait() {
        let mut pacer = Pacer::new(Pace::Reader);
        let mut now = pacer.last;
        let (mut real, mut simulated) = (Duration::ZERO, Duration::ZERO);
        while simulated < Duration::from_secs(300) {
            simulated += pacer.stretch().unwrap_or(Duration::MAX);
            let hold = pacer.passed(now);
            now += hold;
            real += hold;
        }
        assert!(real < Duration::from_secs(4), "{real:?}");
        assert!(real > Duration::from_secs(2), "{real:?}");
        assert_eq!(pacer.told(), LINE);
        assert!(pacer.rate() < 2.1);
    }

    #[test]
    fn a_free_clock_is_never_held() {
        let mut pacer = Pacer::new(Pace::Free);
        assert_eq!(pacer.stretch(), None);
        assert_eq!(pacer.told(), Duration::ZERO);
    }

    #[test]
    fn a_steady_clock_keeps_its_rate() {
        let mut pacer = Pacer::new(Pace::Steady(10.0));
        let now = pacer.last;
        assert_eq!(pacer.stretch(), Some(Duration::from_millis(400)));
        assert_eq!(pacer.passed(now), Duration::from_millis(40));
        assert_eq!(pacer.stretch(), Some(Duration::from_millis(400)));
    }
}
