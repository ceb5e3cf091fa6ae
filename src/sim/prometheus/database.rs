//! Series as step functions: runs of one value, whose samples are made when somebody asks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tsink::Label;

/// The value with which a scraper marks that a series has ended.
pub(super) const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// Whether a value is the mark of an ended series. It is one of many NaNs.
pub(super) fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE.to_bits()
}

/// What a series has at its samples.
#[derive(Debug, Clone, Copy)]
pub(super) enum Course {
    /// The same value each time.
    Constant(f64),
    /// A value that grows by 1 each second, such as a time that is always now.
    FollowsTime(f64),
}

impl Course {
    /// The value, so many milliseconds after the first sample of the run.
    fn value(self, after: i64) -> f64 {
        match self {
            Self::Constant(value) => value,
            #[allow(clippy::cast_precision_loss)]
            Self::FollowsTime(value) => value + after as f64 / 1000.0,
        }
    }
}

#[derive(Debug)]
struct Run {
    /// The time of the first sample, in milliseconds since 1970, as all times here.
    first: i64,
    /// The time of the last one; `None` while each scrape of the target adds one.
    last: Option<i64>,
    target: usize,
    course: Course,
}

/// The part of a run that lies in a window.
pub(super) struct Stretch {
    /// The time of its first sample.
    pub(super) first: i64,
    /// The time of its last one.
    pub(super) last: i64,
    /// Whether all have the same value.
    pub(super) is_constant: bool,
    /// The value of the first.
    pub(super) value: f64,
    course: Course,
}

/// One series.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: Arc<str>,
    /// In the order of their names, without the metric's.
    pub(super) labels: Vec<Label>,
    runs: Vec<Run>,
}

/// The number of a series.
pub(super) type Id = usize;

/// All series, of all targets.
#[derive(Debug)]
pub(super) struct Database {
    interval: i64,
    series: Vec<Series>,
    ids: HashMap<(Arc<str>, Vec<Label>), Id>,
    names: BTreeMap<Arc<str>, Vec<Id>>,
    /// The time of the last scrape of each target.
    last: Vec<Option<i64>>,
}

impl Database {
    /// An empty one, whose targets are scraped once in so many milliseconds.
    pub(super) fn new(interval: i64) -> Self {
        Self {
            interval,
            series: Vec::new(),
            ids: HashMap::new(),
            names: BTreeMap::new(),
            last: Vec::new(),
        }
    }

    /// A number for one more target.
    pub(super) fn add_target(&mut self) -> usize {
        self.last.push(None);
        self.last.len() - 1
    }

    /// When a target was last scraped.
    pub(super) fn last_scrape(&self, target: usize) -> Option<i64> {
        self.last[target]
    }

    /// A target was scraped: every series of it that was not ended has one more sample.
    pub(super) fn scraped(&mut self, target: usize, at: i64) {
        self.last[target] = Some(at);
    }

    /// The series with these labels, which must be in order.
    pub(super) fn id(&mut self, name: &str, labels: Vec<Label>) -> Id {
        let name = match self.names.get_key_value(name) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(name),
        };
        let key = (name, labels);
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = self.series.len();
        let (name, labels) = key.clone();
        self.names.entry(Arc::clone(&name)).or_default().push(id);
        self.ids.insert(key, id);
        self.series.push(Series {
            name,
            labels,
            runs: Vec::new(),
        });
        id
    }

    /// Sees to it that the scrape of a target at a time finds this value. A scrape that follows the one before after one
    /// interval, and finds what was there, costs nothing.
    pub(super) fn observe(&mut self, id: Id, target: usize, at: i64, course: Course) {
        let before = self.last[target];
        let follows = before == Some(at - self.interval);
        let runs = &mut self.series[id].runs;
        if let Some(run) = runs.last_mut().filter(|run| run.last.is_none()) {
            let same = match (run.course, course) {
                (Course::Constant(old), Course::Constant(new)) => old.to_bits() == new.to_bits(),
                (Course::FollowsTime(_), Course::FollowsTime(new)) => {
                    (run.course.value(at - run.first) - new).abs() < 1e-6
                }
                _ => false,
            };
            if same && follows && run.target == target {
                return;
            }
        }
        self.end(id);
        self.series[id].runs.push(Run {
            first: at,
            last: None,
            target,
            course,
        });
    }

    /// The series has no sample after the last scrape of its target, and a mark says so at this time.
    pub(super) fn vanish(&mut self, id: Id, target: usize, at: i64) {
        // Another target may have the series by now.
        if !self.series[id]
            .runs
            .last()
            .is_some_and(|run| run.last.is_none() && run.target == target)
        {
            return;
        }
        self.end(id);
        let course = Course::Constant(STALE);
        self.series[id].runs.push(Run {
            first: at,
            last: Some(at),
            target,
            course,
        });
    }

    fn end(&mut self, id: Id) {
        let last = &self.last;
        if let Some(run) = self.series[id].runs.last_mut() {
            let end = last[run.target].unwrap_or(run.first);
            run.last.get_or_insert(end);
        }
    }

    /// A series by its number.
    pub(super) fn series(&self, id: Id) -> &Series {
        &self.series[id]
    }

    /// The numbers of all series of a metric; later ones are only ever added at the end.
    pub(super) fn ids_of(&self, name: &str) -> &[Id] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    /// All series.
    pub(super) fn all(&self) -> impl Iterator<Item = (Id, &Series)> {
        self.series.iter().enumerate()
    }

    /// The last sample after `after` and not after `until`, marks included.
    pub(super) fn latest(&self, id: Id, after: i64, until: i64) -> Option<(i64, f64)> {
        let runs = &self.series[id].runs;
        let next = runs.partition_point(|run| run.first <= until);
        let run = runs[..next].last()?;
        let last = self.end_of(run).min(until);
        let at = run.first + (last - run.first) / self.interval * self.interval;
        (at > after).then(|| (at, run.course.value(at - run.first)))
    }

    /// Gives each sample after `after` and not after `until`, marks included, to `each`. Where `thin`, the samples between
    /// the first and the last of a run of one value are left out.
    pub(super) fn samples(
        &self,
        id: Id,
        window: (i64, i64),
        thin: bool,
        mut each: impl FnMut(i64, f64),
    ) {
        self.stretches(id, window, |stretch| {
            let step = if thin && stretch.is_constant {
                (stretch.last - stretch.first).max(1)
            } else {
                self.interval
            };
            let mut at = stretch.first;
            while at <= stretch.last {
                each(at, stretch.course.value(at - stretch.first));
                at += step;
            }
        });
    }

    /// Gives what each run has after `after` and not after `until` to `each`.
    pub(super) fn stretches(
        &self,
        id: Id,
        (after, until): (i64, i64),
        mut each: impl FnMut(Stretch),
    ) {
        let runs = &self.series[id].runs;
        let begin = runs.partition_point(|run| self.end_of(run) <= after);
        for run in runs[begin..].iter().take_while(|run| run.first <= until) {
            let last = self.end_of(run).min(until);
            let skipped = (after + 1 - run.first).max(0);
            let first = run.first + (skipped + self.interval - 1) / self.interval * self.interval;
            if first > last {
                continue;
            }
            let value = run.course.value(first - run.first);
            let (is_constant, course) = match run.course {
                Course::Constant(_) => (true, Course::Constant(value)),
                Course::FollowsTime(_) => (false, Course::FollowsTime(value)),
            };
            each(Stretch {
                first,
                last: first + (last - first) / self.interval * self.interval,
                is_constant,
                value,
                course,
            });
        }
    }

    fn end_of(&self, run: &Run) -> i64 {
        let still = || self.last[run.target].unwrap_or(run.first).max(run.first);
        run.last.unwrap_or_else(still)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sample, in seconds.
    fn samples(database: &Database, id: Id, window: (i64, i64), thin: bool) -> Vec<(i64, f64)> {
        let mut found = Vec::new();
        database.samples(id, (window.0 * 1000, window.1 * 1000), thin, |at, value| {
            found.push((at / 1000, value));
        });
        found
    }

    fn scrape(database: &mut Database, id: Id, second: i64, value: f64) {
        database.observe(id, 0, second * 1000, Course::Constant(value));
        database.scraped(0, second * 1000);
    }

    #[test]
    fn a_value_that_stays_is_one_run_and_every_scrape_has_its_sample() {
        let mut database = Database::new(10_000);
        database.add_target();
        let id = database.id("a", Vec::new());
        for (second, value) in [(0, 1.0), (10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)] {
            scrape(&mut database, id, second, value);
        }
        assert_eq!(database.series(id).runs.len(), 2);
        let all = [(0, 1.0), (10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)];
        assert_eq!(samples(&database, id, (-1, 100), false), all);
        assert_eq!(samples(&database, id, (0, 39), false), &all[1..4]);
        assert_eq!(
            samples(&database, id, (-1, 100), true),
            [all[0], all[2], all[3], all[4]]
        );
        assert_eq!(database.latest(id, 0, 29_999), Some((20_000, 1.0)));
        assert_eq!(
            database.latest(id, 40_000, 90_000),
            None,
            "a window is open at its left"
        );
        assert_eq!(database.latest(id, 0, -5), None);
    }

    #[test]
    fn a_series_that_vanishes_is_marked_and_may_come_back() {
        let mut database = Database::new(10_000);
        database.add_target();
        let id = database.id("a", Vec::new());
        scrape(&mut database, id, 0, 1.0);
        database.vanish(id, 0, 10_000);
        database.scraped(0, 10_000);
        assert!(
            database
                .latest(id, 0, 60_000)
                .is_some_and(|(at, value)| at == 10_000 && is_stale(value))
        );
        database.vanish(id, 0, 20_000);
        assert_eq!(database.series(id).runs.len(), 2, "it vanishes once");
        scrape(&mut database, id, 30, 1.0);
        assert_eq!(database.latest(id, 0, 60_000), Some((30_000, 1.0)));
    }

    #[test]
    fn a_gap_between_scrapes_has_no_samples() {
        let mut database = Database::new(10_000);
        database.add_target();
        let id = database.id("a", Vec::new());
        scrape(&mut database, id, 0, 1.0);
        scrape(&mut database, id, 10, 1.0);
        scrape(&mut database, id, 47, 1.0);
        let found = samples(&database, id, (-1, 100), false);
        assert_eq!(found, [(0, 1.0), (10, 1.0), (47, 1.0)]);
    }

    #[test]
    fn a_value_may_follow_the_time() {
        let mut database = Database::new(10_000);
        database.add_target();
        let id = database.id("a", Vec::new());
        database.observe(id, 0, 0, Course::FollowsTime(100.0));
        database.scraped(0, 0);
        database.scraped(0, 10_000);
        database.observe(id, 0, 20_000, Course::FollowsTime(120.0));
        database.scraped(0, 20_000);
        assert_eq!(database.series(id).runs.len(), 1);
        let found = samples(&database, id, (-1, 100), true);
        assert_eq!(found, [(0, 100.0), (10, 110.0), (20, 120.0)]);
    }
}
