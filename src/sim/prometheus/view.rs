//! What one question sees of the database, in the form in which the evaluator asks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tsink::{
    DataPoint, Label, MetricSeries, QueryOptions, Result, Row, SeriesSelection, Storage, TsinkError,
};

use super::database::{Database, is_stale};
use super::plan::{Plan, Wants};

/// More samples than one question may read; the default of Prometheus.
const MOST_SAMPLES: usize = 50_000_000;

/// The database, for one question.
pub(super) struct View {
    pub(super) database: Arc<RwLock<Database>>,
    pub(super) plan: Arc<Plan>,
    pub(super) loaded: AtomicUsize,
}

impl View {
    fn count(&self, samples: usize) -> Result<()> {
        let before = self.loaded.fetch_add(samples, Ordering::Relaxed);
        if before.saturating_add(samples) <= MOST_SAMPLES {
            return Ok(());
        }
        Err(TsinkError::Other(
            "query processing would load too many samples into memory in query execution"
                .to_owned(),
        ))
    }
}

fn refuse<T>(operation: &'static str) -> Result<T> {
    let reason = "the simulated Prometheus is filled by scraping only".to_owned();
    Err(TsinkError::UnsupportedOperation { operation, reason })
}

fn point(at: i64, value: f64) -> DataPoint {
    // The mark of a stale series is known by its bits, which a conversion could change.
    DataPoint::new(at, tsink::Value::F64(value))
}

impl Storage for View {
    fn insert_rows(&self, _: &[Row]) -> Result<()> {
        refuse("insert_rows")
    }

    fn select(&self, _: &str, _: &[Label], _: i64, _: i64) -> Result<Vec<DataPoint>> {
        // Only asked for series that `select_series` has named.
        refuse("select")
    }

    fn select_with_options(&self, _: &str, _: QueryOptions) -> Result<Vec<DataPoint>> {
        refuse("select_with_options")
    }

    /// The evaluator asks from the start of a window, which no sample may have that it takes, to one after its end.
    fn select_all(
        &self,
        metric: &str,
        start: i64,
        end: i64,
    ) -> Result<Vec<(Vec<Label>, Vec<DataPoint>)>> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let window = (start, end.saturating_sub(1));
        let mut found = Vec::new();
        let mut samples = 0;
        let mut take = |id, wants| {
            let mut points = Vec::new();
            if wants == Wants::Latest {
                let latest = database.latest(id, window.0, window.1);
                points.extend(
                    latest
                        .filter(|(_, value)| !is_stale(*value))
                        .map(|(at, value)| point(at, value)),
                );
            } else {
                let thin = wants == Wants::Changes;
                database.samples(id, window, thin, |at, value| points.push(point(at, value)));
            }
            if !points.is_empty() {
                samples += points.len();
                found.push((database.series(id).labels.clone(), points));
            }
        };
        match self.plan.selector(metric) {
            Some(selector) => selector.each(&database, |id| take(id, selector.wants)),
            None => {
                let ids = database.ids_of(metric).iter();
                ids.for_each(|id| take(*id, Wants::All));
            }
        }
        self.count(samples)?;
        Ok(found)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }

    /// All series, for selectors without a metric's name: the evaluator only looks which metrics there are, and matches
    /// again. With a name it looks for a series that has exactly the labels of the matchers, and would then leave out those
    /// that have more.
    fn select_series(&self, selection: &SeriesSelection) -> Result<Vec<MetricSeries>> {
        if selection.metric.is_some() {
            return Ok(Vec::new());
        }
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let all = database.all().map(|(_, series)| MetricSeries {
            name: series.name.to_string(),
            labels: series.labels.clone(),
        });
        Ok(all.collect())
    }
}
