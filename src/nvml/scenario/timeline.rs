//! The steps in the order of their times, once or over and over.

use super::state::{self, Hang, Moment};
use super::step::Step;
use std::time::Duration;

/// Shorter, and nothing that asks would see what happens.
pub(super) const SHORTEST_ROUND: Duration = Duration::from_secs(1);

/// What happens to GPUs that are healthy before.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    /// How warm each GPU is while it is healthy.
    temperatures: Vec<u32>,
    steps: Vec<Step>,
    repeat: Option<Duration>,
}

/// One happening of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Happening<'a> {
    /// Since the start of the scenario.
    pub(super) at: Duration,
    pub(super) step: &'a Step,
}

impl Timeline {
    /// `repeat` is longer than the time of every step.
    pub(super) fn new(
        temperatures: Vec<u32>,
        mut steps: Vec<Step>,
        repeat: Option<Duration>,
    ) -> Self {
        // Steps of the same time stay in the file's order.
        steps.sort_by_key(|step| step.at);
        Self {
            temperatures,
            steps,
            repeat: repeat.map(|repeat| repeat.max(SHORTEST_ROUND)),
        }
    }

    /// How everything is after so long. All begins anew with each round, except for what a board counts over its life.
    pub(super) fn at(&self, elapsed: Duration) -> Moment {
        let (round, within) = self.round(elapsed);
        let mut moment = self.fold(within);
        let Some(repeat) = self.repeat.filter(|_| round > 0) else {
            return moment;
        };
        let begun = repeat.saturating_mul(round);
        let whole = self.fold(repeat);
        for (gpu, whole) in moment.gpus.iter_mut().zip(&whole.gpus) {
            for (errors, before) in [
                (&mut gpu.corrected, whole.corrected),
                (&mut gpu.uncorrected, whole.uncorrected),
            ] {
                let before = before.aggregate.saturating_mul(round.into());
                errors.aggregate = errors.aggregate.saturating_add(before);
            }
            if let Some(Hang::Until(end)) = &mut gpu.hang {
                *end = end.saturating_add(begun);
            }
        }
        moment
    }

    /// When something may change next that is not a number on its way; `None` where nothing will.
    pub(super) fn next_change(&self, elapsed: Duration) -> Option<Duration> {
        let hangs = self.at(elapsed).gpus.into_iter().filter_map(|gpu| gpu.hang);
        let ends = hangs.filter_map(|hang| match hang {
            Hang::Until(end) => Some(end),
            Hang::Open => None,
        });
        let round_ends = self.repeat.map(|repeat| {
            let (round, _) = self.round(elapsed);
            repeat.saturating_mul(round.saturating_add(1))
        });
        let step = self.happening(self.after(elapsed)).map(|next| next.at);
        ends.chain(round_ends).chain(step).min()
    }

    /// The happening of that number, over all rounds; `None` where there are not so many.
    pub(super) fn happening(&self, number: u64) -> Option<Happening<'_>> {
        let steps = u64::try_from(self.steps.len()).ok()?;
        let (round, index) = (number.checked_div(steps)?, number.checked_rem(steps)?);
        let begun = match (self.repeat, round) {
            (_, 0) => Duration::ZERO,
            (Some(repeat), _) => repeat.saturating_mul(u32::try_from(round).ok()?),
            (None, _) => return None,
        };
        let step = self.steps.get(usize::try_from(index).ok()?)?;
        Some(Happening {
            at: begun.saturating_add(step.at),
            step,
        })
    }

    /// The number of the first happening after so long.
    pub(super) fn after(&self, elapsed: Duration) -> u64 {
        let (round, within) = self.round(elapsed);
        let past = self.steps.partition_point(|step| step.at <= within);
        u64::from(round) * self.steps.len() as u64 + past as u64
    }

    /// How many rounds are over, and how long the one has been going on.
    fn round(&self, elapsed: Duration) -> (u32, Duration) {
        let Some(repeat) = self.repeat else {
            return (0, elapsed);
        };
        let rounds = elapsed.as_nanos() / repeat.as_nanos();
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        (
            rounds,
            elapsed.saturating_sub(repeat.saturating_mul(rounds)),
        )
    }

    fn fold(&self, at: Duration) -> Moment {
        state::fold(self.temperatures.iter().copied(), &self.steps, at)
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
