//! When a GPU is asked for what is not asked for each time.

use super::collectors::{Collector, Collectors};
use std::time::{Duration, Instant};

/// What is asked for with a GPU's health, and less often: nothing of it means much where the GPU has no health to tell.
pub(super) const GROUPS: [Collector; 4] = [
    Collector::Usage,
    Collector::Nvlink,
    Collector::Mig,
    Collector::Details,
];

/// When each group of a GPU was last asked for.
#[derive(Debug, Default)]
pub(super) struct Schedule([Option<Instant>; GROUPS.len()]);

impl Schedule {
    /// The groups to ask for with an asking that begins now: those that are on, and whose interval has passed.
    pub(super) fn due(&self, collectors: &Collectors, now: Instant) -> Vec<Collector> {
        let groups = GROUPS.into_iter().zip(&self.0);
        let due = groups.filter(|(group, last)| {
            let passed = |last: Instant| now.duration_since(last) >= collectors.interval(*group);
            collectors.is_on(*group) && last.is_none_or(passed)
        });
        due.map(|(group, _)| group).collect()
    }

    /// These were asked for by an asking that began then.
    pub(super) fn asked(&mut self, groups: &[Collector], began: Instant) {
        for (group, last) in GROUPS.iter().zip(&mut self.0) {
            if groups.contains(group) {
                *last = Some(began);
            }
        }
    }

    /// Nothing that was answered before holds: all are due.
    pub(super) fn begin_anew(&mut self) {
        self.0 = Default::default();
    }
}

/// Until when an answer means something: the next two were due, and had their time.
pub(super) fn fresh(interval: Duration, deadline: Duration) -> Duration {
    interval * 2 + deadline
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_group_is_due_at_first_and_after_its_interval() {
        let collectors = Collectors::new([
            (Collector::Nvml, None),
            (Collector::Usage, Some(5 * SECOND)),
            (Collector::Details, Some(30 * SECOND)),
        ]);
        let start = Instant::now();
        let mut schedule = Schedule::default();
        let mut asked = Vec::new();
        for second in 0..=60 {
            let now = start + second * SECOND;
            let due = schedule.due(&collectors, now);
            schedule.asked(&due, now);
            asked.extend(due.into_iter().map(|group| (second, group)));
        }
        let at = |wanted: Collector| -> Vec<u32> {
            let asked = asked.iter().filter(|(_, group)| *group == wanted);
            asked.map(|(second, _)| *second).collect()
        };
        let expected: Vec<u32> = (0..=60).step_by(5).collect();
        assert_eq!(at(Collector::Usage), expected);
        assert_eq!(at(Collector::Details), [0, 30, 60]);
        assert!(at(Collector::Nvlink).is_empty(), "it is off");
        schedule.begin_anew();
        let now = start + 61 * SECOND;
        let due = schedule.due(&collectors, now);
        assert_eq!(due, [Collector::Usage, Collector::Details]);
    }

    #[test]
    fn what_is_to_be_asked_more_often_than_its_gpu_is_asked_each_time() {
        let quick = Duration::from_millis(10);
        let collectors = Collectors::default().every(Collector::Mig, quick);
        let start = Instant::now();
        let mut schedule = Schedule::default();
        for second in 0..3 {
            let now = start + second * SECOND;
            let due = schedule.due(&collectors, now);
            assert!(due.contains(&Collector::Mig), "{second}");
            schedule.asked(&due, now);
        }
    }
}
