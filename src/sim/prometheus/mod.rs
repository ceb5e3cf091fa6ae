//! A Prometheus that lives in the process: it scrapes pages on the simulated clock and answers the query API.
//!
//! Expressions are evaluated by `tsink`, over a storage of our own: a series is kept as runs of equal values, so that time in
//! which nothing happens costs nothing, and samples are made at the times of the scrapes when somebody asks for them.
//!
//! All targets are scraped at the same moments. A page that says that it has not changed is not read again. A page with a
//! line that has a time of its own is refused, and retention, rules, alerts, histograms and exemplars are not simulated.
//!
//! What the evaluator does otherwise than Prometheus 3 (found by `tests/real/promql.rs`, which asks both):
//!
//! * mended: names stay with the results of functions and of unary minus; subqueries count their steps from the closed start of
//!   the range; a selector of equalities leaves out series that have more labels; the lookback is closed at its left; equal
//!   label sets in a result are no error;
//! * refused with an `execution` error: a subquery in a subquery, or shorter than its step; `rate`, `increase`, `delta`,
//!   `idelta`, `deriv` and `predict_linear` of a subquery; `__name__` as a label outside of a selector; letters beyond
//!   ASCII in an expression that selects anything; an `@` before 1970; and what the evaluator has no function for;
//! * left: a counter that begins near 0 within the range of `rate` or `increase` is extrapolated back to 0 by up to 1.1
//!   intervals, as earlier releases of Prometheus did; 3.16 stops at half an interval. Whether it is above 0 is the same.
//!   Of values that are equal, `topk` may name another, and the order of series is that of their labels.

mod answer;
mod api;
mod database;
mod evaluate;
mod exchange;
mod exporter_page;
mod exposition;
mod kube_state_page;
mod plan;
mod remembered;
mod scrape;
mod serve;
mod times;
mod view;

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};

use crate::clock::Clock;
use database::Database;
use evaluate::Evaluator;
use scrape::Target;

pub use api::QueryRequest;
pub use evaluate::{Failure, Labels, Point, Value};
pub use exporter_page::{ExporterPage, NodeHardware};
pub use kube_state_page::{Cluster, KubeStatePage};
pub use scrape::{HonorLabels, Page};

/// The simulated Prometheus. Clones are the same one.
#[derive(Clone)]
pub struct Prometheus {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    interval: Duration,
    database: Arc<RwLock<Database>>,
    evaluator: Evaluator,
    targets: Mutex<Vec<Target>>,
}

impl Shared {
    fn interval(&self) -> i64 {
        i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX)
    }

    fn scrape(&self, now: Timestamp) {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        for target in targets.iter_mut() {
            target.scrape(&self.database, now, self.interval());
        }
    }
}

impl Prometheus {
    /// Starts one, which scrapes for the first time after one interval, and as long as it is kept.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(clock: Clock, scrape_interval: Duration) -> Self {
        let prometheus = Self::unscraped(clock, scrape_interval);
        tokio::spawn(keep_scraping(
            Arc::downgrade(&prometheus.shared),
            prometheus.shared.interval,
        ));
        prometheus
    }

    /// One that scrapes only when it is told to.
    #[must_use]
    pub fn unscraped(clock: Clock, scrape_interval: Duration) -> Self {
        let interval = scrape_interval.max(Duration::from_millis(1));
        let milliseconds = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        let database = Arc::new(RwLock::new(Database::new(milliseconds)));
        let evaluator = Evaluator::new(Arc::clone(&database));
        let shared = Shared {
            clock,
            interval,
            database,
            evaluator,
            targets: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// One more page to scrape.
    pub fn add_target(&self, job: &str, instance: &str, page: Arc<dyn Page>) {
        self.add_target_with(job, instance, HonorLabels::No, page);
    }

    /// One more page to scrape, which may have labels that the target has too.
    pub fn add_target_with(
        &self,
        job: &str,
        instance: &str,
        honor: HonorLabels,
        page: Arc<dyn Page>,
    ) {
        let mut database = self
            .shared
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let target = Target::new(&mut database, (job, instance), honor, page);
        drop(database);
        let mut targets = self
            .shared
            .targets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        targets.push(target);
    }

    /// A page is no longer scraped; its series end now.
    pub fn remove_target(&self, job: &str, instance: &str) {
        let mut targets = self
            .shared
            .targets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = self.shared.clock.now();
        targets.retain_mut(|target| {
            let goes = target.name() == (job, instance);
            if goes {
                target.end(&self.shared.database, now);
            }
            !goes
        });
    }

    /// Scrapes every target now.
    pub fn scrape_now(&self) {
        self.shared.scrape(self.shared.clock.now());
    }

    /// Evaluates an expression now.
    ///
    /// # Errors
    ///
    /// As the query API.
    pub fn instant(&self, expr: &str) -> Result<Value, Failure> {
        self.instant_at(expr, self.shared.clock.now())
    }

    /// Evaluates an expression at a time.
    ///
    /// # Errors
    ///
    /// As the query API.
    pub fn instant_at(&self, expr: &str, at: Timestamp) -> Result<Value, Failure> {
        self.shared.evaluator.instant(expr, at.as_millisecond())
    }

    /// Evaluates an expression at each step from one time to another.
    ///
    /// # Errors
    ///
    /// As the query API.
    pub fn range(
        &self,
        expr: &str,
        start: Timestamp,
        end: Timestamp,
        step: Duration,
    ) -> Result<Value, Failure> {
        let step = i64::try_from(step.as_millis()).unwrap_or(i64::MAX);
        let window = (start.as_millisecond(), end.as_millisecond());
        self.shared.evaluator.range(expr, window, step)
    }
}

async fn keep_scraping(shared: Weak<Shared>, interval: Duration) {
    let mut next = Instant::now();
    loop {
        // Counted from the last due time, so that no lateness adds up.
        next += interval;
        sleep_until(next).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.scrape(shared.clock.now());
    }
}

#[cfg(test)]
mod tests;
