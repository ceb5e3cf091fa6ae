//! Results that need not be evaluated again.
//!
//! Most questions are asked again and again while nothing changes. What an expression evaluates to depends on its samples and
//! their distance from the time of the question; where these are the same, so is the result. Expressions that know what
//! time it is are left out.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use promql_parser::parser::Expr;

use super::database::{Database, is_stale};
use super::evaluate::Value;
use super::plan::{Selector, Wants};
use crate::rules::promql;

/// As many results of an expression are kept: questions come at several distances from the last scrape.
const KEPT: usize = 8;

/// Functions whose result depends on the time of the question or of a sample.
const KNOW_TIME: [&str; 11] = [
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "hour",
    "minute",
    "month",
    "predict_linear",
    "time",
    "timestamp",
    "year",
];

/// Ends what belongs to one selector or one series. No series has this number, and nothing that begins a value is it.
const END: u64 = u64::MAX;

/// All samples of an expression, seen from the time of the question.
type Sight = Vec<u64>;

/// The last results of one expression.
#[derive(Debug)]
pub(super) struct Remembered {
    results: Option<Mutex<VecDeque<(Sight, Value)>>>,
}

impl Remembered {
    /// Keeps nothing unless the expression allows it.
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            results: allowed.then(Mutex::default),
        }
    }

    /// Whether nothing but samples decides about the result, and every selector names its metric.
    pub(super) fn depends_on_samples_alone(expr: &Expr) -> bool {
        let mut alone = true;
        promql::walk(expr, &mut |part| {
            alone &= match part {
                Expr::Call(call) => !KNOW_TIME.contains(&call.func.name),
                Expr::VectorSelector(selector) => selector.name.is_some(),
                Expr::MatrixSelector(matrix) => matrix.vs.name.is_some(),
                Expr::Subquery(_) | Expr::Extension(_) => false,
                _ => true,
            };
            true
        });
        alone
    }

    fn results(&self) -> Option<MutexGuard<'_, VecDeque<(Sight, Value)>>> {
        let results = self.results.as_ref()?;
        Some(results.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the selectors see at a time; `None` where nothing is remembered.
    pub(super) fn sight(
        &self,
        selectors: &[Selector],
        database: &Database,
        at: i64,
    ) -> Option<Sight> {
        self.results.as_ref()?;
        let mut sight = Sight::new();
        for selector in selectors {
            sight.push(END);
            let window = selector.window(at);
            selector.each(database, |id| {
                look(selector, database, id, window, &mut sight)
            });
        }
        Some(sight)
    }

    /// The result of the same sight, at another time.
    pub(super) fn recall(&self, sight: &Sight, at: i64) -> Option<Value> {
        let results = self.results()?;
        let (_, value) = results.iter().find(|(known, _)| known == sight)?;
        Some(value.at(at))
    }

    /// Keeps a result.
    pub(super) fn keep(&self, sight: Sight, value: &Value) {
        let Some(mut results) = self.results() else {
            return;
        };
        if results.len() == KEPT {
            results.pop_back();
        }
        results.push_front((sight, value.clone()));
    }
}

fn look(
    selector: &Selector,
    database: &Database,
    id: usize,
    (after, until): (i64, i64),
    sight: &mut Sight,
) {
    let distance = |at: i64| until.abs_diff(at);
    if selector.wants == Wants::Latest {
        // How old it is within the lookback does not matter.
        let latest = database.latest(id, after, until);
        if let Some((_, value)) = latest.filter(|(_, value)| !is_stale(*value)) {
            sight.extend([id as u64, value.to_bits()]);
        }
        return;
    }
    sight.push(id as u64);
    let mut before = None;
    database.stretches(id, (after, until), |stretch| {
        let value = stretch.value.to_bits();
        if selector.wants == Wants::Changes && stretch.is_constant {
            // Neither how often a value stands in a row nor when matters.
            if before != Some(value) {
                sight.extend([1, value]);
            }
            before = Some(value);
        } else {
            before = None;
            let constant = u64::from(stretch.is_constant);
            let times = [stretch.first, stretch.last].map(distance);
            sight.extend([2 + constant, value, times[0], times[1]]);
        }
    });
    sight.push(END);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss)]
#[path = "remembered_tests.rs"]
mod tests;
