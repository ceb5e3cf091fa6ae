//! Scraping: pages become samples, and what vanishes is marked.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use tsink::Label;

use super::database::{Course, Database, Id};
use super::exposition;

/// The metric that counts series which the scrape before did not find.
const SERIES_ADDED: &str = "scrape_series_added";

/// What is scraped.
pub trait Page: Send + Sync {
    /// While this is the same number, a scrape would find the same page, and is spared. `None` where that is not known.
    fn version(&self) -> Option<u64> {
        None
    }

    /// The page, in the text format 0.0.4.
    ///
    /// # Errors
    ///
    /// Nobody answers.
    fn scrape(&self, now: Timestamp) -> Result<String, String>;

    /// Whether this value of a metric grows by 1 each second while the version stays, as a time that is always now does.
    fn follows_time(&self, _metric: &str, _value: f64, _now: Timestamp) -> bool {
        false
    }
}

/// What happens to a label of the page that the target has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HonorLabels {
    /// The label of the page wins, as for `honor_labels: true`.
    Yes,
    /// It gets `exported_` before its name.
    No,
}

/// One target.
pub(super) struct Target {
    number: usize,
    job: String,
    instance: String,
    honor: HonorLabels,
    page: Arc<dyn Page>,
    version: Option<u64>,
    /// The series of the last scrape.
    series: BTreeSet<Id>,
    /// Those that the scraper adds, for a target that is there.
    own: Vec<Id>,
    /// Whether the last scrape found series that the one before did not.
    added: bool,
    /// What the last scrape ended with; `None` before the first.
    pub(super) health: Option<Result<(), String>>,
}

impl Target {
    pub(super) fn new(
        database: &mut Database,
        (job, instance): (&str, &str),
        honor: HonorLabels,
        page: Arc<dyn Page>,
    ) -> Self {
        Self {
            number: database.add_target(),
            job: job.to_owned(),
            instance: instance.to_owned(),
            honor,
            page,
            version: None,
            series: BTreeSet::new(),
            own: Vec::new(),
            added: false,
            health: None,
        }
    }

    /// Job and instance.
    pub(super) fn name(&self) -> (&str, &str) {
        (&self.job, &self.instance)
    }

    /// Scrapes at a time, in milliseconds.
    pub(super) fn scrape(&mut self, database: &RwLock<Database>, now: Timestamp, interval: i64) {
        let write = || database.write().unwrap_or_else(PoisonError::into_inner);
        let at = now.as_millisecond();
        let last = write().last_scrape(self.number);
        if last.is_some_and(|last| last >= at) {
            // The clock was set back. Samples that are older than the last one are refused.
            return;
        }
        let version = self.page.version();
        let follows = last.is_some_and(|last| at - last == interval);
        if follows && version.is_some() && version == self.version && self.health.is_some() {
            let mut database = write();
            if std::mem::take(&mut self.added) {
                let id = database.id(SERIES_ADDED, self.labels(Vec::new()));
                database.observe(id, self.number, at, Course::Constant(0.0));
            }
            database.scraped(self.number, at);
            return;
        }
        let lines = self
            .page
            .scrape(now)
            .and_then(|page| exposition::read(&page));
        self.version = version;
        let mut database = write();
        let mut found = BTreeSet::new();
        let count = lines.as_ref().map_or(0, Vec::len);
        self.health = Some(match lines {
            Ok(lines) => {
                for line in lines {
                    let id = database.id(&line.name, self.labels(line.labels));
                    let course = if self.page.follows_time(&line.name, line.value, now) {
                        Course::FollowsTime(line.value)
                    } else {
                        Course::Constant(line.value)
                    };
                    // Of two lines for one series, the first counts.
                    if found.insert(id) {
                        database.observe(id, self.number, at, course);
                    }
                }
                Ok(())
            }
            Err(error) => Err(error),
        });
        for gone in self.series.difference(&found) {
            database.vanish(*gone, self.number, at);
        }
        let added = found.difference(&self.series).count();
        self.added = added > 0;
        self.series = found;
        let up = matches!(self.health, Some(Ok(())));
        #[allow(clippy::cast_precision_loss)]
        let own = [
            ("up", f64::from(u8::from(up))),
            // No scrape takes any time here; a fixed number keeps the history of a run the same.
            ("scrape_duration_seconds", 0.001),
            ("scrape_samples_scraped", count as f64),
            ("scrape_samples_post_metric_relabeling", count as f64),
            (SERIES_ADDED, added as f64),
        ];
        self.own.clear();
        for (name, value) in own {
            let id = database.id(name, self.labels(Vec::new()));
            database.observe(id, self.number, at, Course::Constant(value));
            self.own.push(id);
        }
        database.scraped(self.number, at);
    }

    /// The target is no longer scraped: all its series end.
    pub(super) fn end(&mut self, database: &RwLock<Database>, now: Timestamp) {
        let mut database = database.write().unwrap_or_else(PoisonError::into_inner);
        let last = database.last_scrape(self.number).unwrap_or(i64::MIN);
        let at = now.as_millisecond().max(last.saturating_add(1));
        for id in self.series.iter().chain(&self.own) {
            database.vanish(*id, self.number, at);
        }
    }

    /// The labels of a series of this target, in order.
    fn labels(&self, page: Vec<(String, String)>) -> Vec<Label> {
        let own = [("instance", &self.instance), ("job", &self.job)];
        let mut labels: Vec<Label> = Vec::with_capacity(page.len() + own.len());
        for (mut name, value) in page {
            let clashes = own.iter().any(|(own, _)| *own == name);
            if clashes && self.honor == HonorLabels::No {
                name.insert_str(0, "exported_");
            }
            labels.push(Label::new(name, value));
        }
        for (name, value) in own {
            if !labels.iter().any(|label| label.name == name) {
                labels.push(Label::new(name, value.as_str()));
            }
        }
        labels.sort();
        labels
    }
}
