//! Evaluating expressions at one time, and at each step of a range.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use promql_parser::parser::value::ValueType;
use tsink::TimestampPrecision;
use tsink::promql::{Engine, PromqlValue};

use super::database::{Database, is_stale};
use super::plan::Plan;
use super::times::Times;
use super::view::View;

/// As many expressions as are kept ready; those of one controller are far fewer.
const MOST_PLANS: usize = 4096;
/// As many steps as a range may have; the limit of Prometheus.
const MOST_STEPS: i64 = 11_000;

/// The labels of a series, with `__name__`.
pub type Labels = BTreeMap<String, String>;

/// One sample of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Milliseconds since 1970.
    pub at: i64,
    /// The value.
    pub value: f64,
}

/// What an expression evaluates to.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number without labels.
    Scalar(Point),
    /// A text, and when it was asked for.
    String(i64, String),
    /// Series with one sample each.
    Vector(Vec<(Labels, Point)>),
    /// Series with several.
    Matrix(Vec<(Labels, Vec<Point>)>),
}

impl Value {
    /// The same at another time. The points of a matrix keep theirs.
    pub(super) fn at(&self, at: i64) -> Self {
        let moved = |point: &Point| Point { at, ..*point };
        match self {
            Self::Scalar(point) => Self::Scalar(moved(point)),
            Self::Vector(series) => {
                let moved = series
                    .iter()
                    .map(|(labels, point)| (labels.clone(), moved(point)));
                Self::Vector(moved.collect())
            }
            Self::String(..) | Self::Matrix(_) => self.clone(),
        }
    }
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The question makes no sense.
    #[error("{0}")]
    BadData(String),
    /// It could not be evaluated.
    #[error("{0}")]
    Execution(String),
}

/// Evaluates expressions over a database.
#[derive(Clone)]
pub(super) struct Evaluator {
    database: Arc<RwLock<Database>>,
    plans: Arc<Mutex<HashMap<String, Arc<Plan>>>>,
}

impl Evaluator {
    pub(super) fn new(database: Arc<RwLock<Database>>) -> Self {
        Self {
            database,
            plans: Arc::default(),
        }
    }

    /// Reads an expression, or finds it read.
    pub(super) fn plan(&self, query: &str) -> Result<Arc<Plan>, Failure> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(query) {
            return Ok(Arc::clone(plan));
        }
        let plan = Plan::new(query).map_err(|error| {
            Failure::BadData(format!("invalid parameter \"query\": parse error: {error}"))
        })?;
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        let plan = Arc::new(plan);
        plans.insert(query.to_owned(), Arc::clone(&plan));
        Ok(plan)
    }

    /// The value at one time.
    pub(super) fn instant(&self, query: &str, at: i64) -> Result<Value, Failure> {
        let plan = self.plan(query)?;
        self.at(
            &plan,
            Times {
                at,
                start: at,
                end: at,
            },
        )
    }

    fn at(&self, plan: &Arc<Plan>, times: Times) -> Result<Value, Failure> {
        let mut sight = None;
        if plan.value_type == ValueType::Vector {
            let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
            if plan.is_plainly_empty(&database, times.at) {
                return Ok(Value::Vector(Vec::new()));
            }
            sight = plan.remembered.sight(&plan.selectors, &database, times.at);
        }
        if let Some(known) = &sight
            && let Some(value) = plan.remembered.recall(known, times.at)
        {
            return Ok(value);
        }
        let value = self.anew(plan, times)?;
        if let Some(sight) = sight {
            plan.remembered.keep(sight, &value);
        }
        Ok(value)
    }

    fn anew(&self, plan: &Arc<Plan>, times: Times) -> Result<Value, Failure> {
        let text = plan.text(times).map_err(Failure::Execution)?;
        let view = View {
            database: Arc::clone(&self.database),
            plan: Arc::clone(plan),
            loaded: AtomicUsize::new(0),
        };
        let engine = Engine::with_precision(Arc::new(view), TimestampPrecision::Milliseconds);
        let value = engine
            .instant_query(&text, times.at)
            .map_err(|error| Failure::Execution(plan.without_marks(&error.to_string())))?;
        let mut value = read(plan, value, times.at);
        let mut seen = BTreeSet::new();
        let unique = match &value {
            Value::Vector(series) => series.iter().all(|(labels, _)| seen.insert(labels)),
            Value::Matrix(series) => series.iter().all(|(labels, _)| seen.insert(labels)),
            _ => true,
        };
        if !unique {
            return Err(Failure::Execution(
                "vector cannot contain metrics with the same labelset".to_owned(),
            ));
        }
        match &mut value {
            Value::Vector(series) if !plan.ordered => series.sort_by(|a, b| a.0.cmp(&b.0)),
            Value::Matrix(series) => series.sort_by(|a, b| a.0.cmp(&b.0)),
            _ => {}
        }
        Ok(value)
    }

    /// The values at each step.
    pub(super) fn range(
        &self,
        query: &str,
        (start, end): (i64, i64),
        step: i64,
    ) -> Result<Value, Failure> {
        let bad = |text: &str| Err(Failure::BadData(text.to_owned()));
        if end < start {
            return bad("invalid parameter \"end\": end timestamp must not be before start time");
        }
        if step <= 0 {
            return bad(
                "invalid parameter \"step\": zero or negative query resolution step widths are not accepted. \
                 Try a positive integer",
            );
        }
        if (end - start) / step > MOST_STEPS {
            return bad(
                "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution \
                 (?step=XX)",
            );
        }
        let plan = self.plan(query)?;
        if !matches!(plan.value_type, ValueType::Scalar | ValueType::Vector) {
            return bad(
                "invalid parameter \"query\": invalid expression type for range query, must be Scalar or instant Vector",
            );
        }
        let mut series: BTreeMap<Labels, Vec<Point>> = BTreeMap::new();
        let mut at = start;
        while at <= end {
            match self.at(&plan, Times { at, start, end })? {
                Value::Scalar(point) => series.entry(Labels::new()).or_default().push(point),
                Value::Vector(samples) => {
                    for (labels, point) in samples {
                        series.entry(labels).or_default().push(point);
                    }
                }
                Value::String(..) | Value::Matrix(_) => {}
            }
            at += step;
        }
        Ok(Value::Matrix(series.into_iter().collect()))
    }
}

fn read(plan: &Plan, value: PromqlValue, at: i64) -> Value {
    let labels = |metric: &str, labels: Vec<tsink::Label>| -> Labels {
        let mut read: Labels = (labels.into_iter())
            // An empty label is none.
            .filter(|label| !label.value.is_empty())
            .map(|label| (label.name, label.value))
            .collect();
        if let Some(name) = plan.name_of(metric) {
            read.insert("__name__".to_owned(), name);
        }
        read
    };
    match value {
        PromqlValue::Scalar(value, _) => Value::Scalar(Point { at, value }),
        PromqlValue::String(text, _) => Value::String(at, text),
        PromqlValue::InstantVector(samples) => Value::Vector(
            samples
                .into_iter()
                .map(|sample| {
                    let point = Point {
                        at,
                        value: sample.value,
                    };
                    (labels(&sample.metric, sample.labels), point)
                })
                .collect(),
        ),
        PromqlValue::RangeVector(series) => Value::Matrix(
            series
                .into_iter()
                .map(|series| {
                    let points = (series.samples.into_iter())
                        .filter(|(_, value)| !is_stale(*value))
                        .map(|(at, value)| Point { at, value });
                    (labels(&series.metric, series.labels), points.collect())
                })
                .collect(),
        ),
    }
}
