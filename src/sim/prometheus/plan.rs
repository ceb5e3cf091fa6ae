//! An expression, made ready for the evaluator.
//!
//! Each selector gets a metric name of its own, so that the storage knows which one asks: it then hands out only the series
//! that match, and only the samples that matter. What the evaluator does otherwise than Prometheus is mended here.

use std::sync::{Mutex, PoisonError};

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::value::ValueType;
use promql_parser::parser::{Expr, VectorSelector};

use super::database::{Database, Id, is_stale};
use super::remembered::Remembered;
use super::times::{Times, fix_times, milliseconds, offset};
use crate::rules::promql;

/// Between a metric's name and the number of the selector; no rule allows two colons in a name, but nobody uses them.
const MARK: &str = "::";
/// How old the newest sample of a series may be, in milliseconds; the default of Prometheus.
pub(super) const LOOKBACK: i64 = 5 * 60 * 1000;
/// Functions for which it does not matter how often a value stands in a row.
const THIN: [&str; 7] = [
    "absent_over_time",
    "changes",
    "last_over_time",
    "max_over_time",
    "min_over_time",
    "present_over_time",
    "resets",
];
/// Functions whose result keeps the metric's name.
const NAMED: [&str; 8] = [
    "first_over_time",
    "label_join",
    "label_replace",
    "last_over_time",
    "sort",
    "sort_by_label",
    "sort_by_label_desc",
    "sort_desc",
];

/// Which samples a selector asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// The newest within the lookback.
    Latest,
    /// All within its range.
    All,
    /// Those at which something changes.
    Changes,
}

/// One selector of an expression.
#[derive(Debug)]
pub(super) struct Selector {
    name: String,
    /// Whether its series have the metric's name in the result.
    named: bool,
    matchers: Vec<Matcher>,
    pub(super) wants: Wants,
    /// How far back it looks, and from how long ago, in milliseconds.
    range: i64,
    offset: i64,
    found: Mutex<Found>,
}

/// The series that match, of the first so many of the metric.
#[derive(Debug, Default)]
struct Found {
    looked_at: usize,
    ids: Vec<Id>,
}

impl Selector {
    /// Gives each series that matches to `each`.
    pub(super) fn each(&self, database: &Database, mut each: impl FnMut(Id)) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = database.ids_of(&self.name);
        for id in &ids[found.looked_at.min(ids.len())..] {
            if matches(database, *id, &self.matchers) {
                found.ids.push(*id);
            }
        }
        found.looked_at = ids.len();
        found.ids.iter().for_each(|id| each(*id));
    }

    /// After when and until when it looks for samples, asked at a time.
    pub(super) fn window(&self, at: i64) -> (i64, i64) {
        let until = at.saturating_sub(self.offset);
        (until.saturating_sub(self.range), until)
    }

    fn has_samples(&self, database: &Database, (after, until): (i64, i64)) -> bool {
        let mut any = false;
        self.each(database, |id| {
            let mut is_value = |_, value| any |= !is_stale(value);
            match self.wants {
                _ if self.wants == Wants::Latest => {
                    if let Some((at, value)) = database.latest(id, after, until) {
                        is_value(at, value);
                    }
                }
                _ => database.samples(id, (after, until), true, is_value),
            }
        });
        any
    }
}

/// Whether the labels of a series match.
pub(super) fn matches(database: &Database, id: Id, matchers: &[Matcher]) -> bool {
    let series = database.series(id);
    matchers.iter().all(|matcher| {
        let value = if matcher.name == "__name__" {
            &*series.name
        } else {
            let found = series
                .labels
                .iter()
                .find(|label| label.name == matcher.name);
            found.map_or("", |label| label.value.as_str())
        };
        matcher.is_match(value)
    })
}

/// An expression that was read, checked and prepared.
#[derive(Debug)]
pub(super) struct Plan {
    expr: Expr,
    /// What the evaluator reads, unless it depends on the time; or why it cannot answer as Prometheus does.
    text: Option<Result<String, String>>,
    /// Whether the outermost part keeps the name of a metric that was selected without one.
    named: bool,
    pub(super) selectors: Vec<Selector>,
    pub(super) value_type: ValueType,
    /// Whether the order of the result means something.
    pub(super) ordered: bool,
    /// Results that hold as long as the samples look the same.
    pub(super) remembered: Remembered,
}

impl Plan {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// It is no PromQL.
    pub(super) fn new(query: &str) -> Result<Self, String> {
        let mut expr = promql::parse(query)?;
        let value_type = expr.value_type();
        let ordered = match promql::strip_parens(&expr) {
            Expr::Call(call) => call.func.name.starts_with("sort"),
            Expr::Aggregate(aggregate) => {
                matches!(aggregate.op.to_string().as_str(), "topk" | "bottomk")
            }
            _ => false,
        };
        let mut selectors = Vec::new();
        mark(&mut expr, None, true, &mut selectors)?;
        let mut timed = false;
        promql::walk(&expr, &mut |part| {
            timed |= match part {
                Expr::Subquery(_) => true,
                Expr::VectorSelector(selector) => selector.at.is_some(),
                Expr::MatrixSelector(matrix) => matrix.vs.at.is_some(),
                _ => false,
            };
            true
        });
        let text = if uses_name(&expr) {
            let what = "__name__ as a label, other than in a selector, is not supported";
            Some(Err(what.to_owned()))
        } else if timed {
            None
        } else {
            Some(promql::text(&expr).and_then(readable))
        };
        let named = match promql::strip_parens(&expr) {
            Expr::Call(call) => NAMED.contains(&call.func.name),
            expr => !matches!(expr, Expr::Unary(_)),
        };
        let knows_time = timed || !Remembered::depends_on_samples_alone(&expr);
        Ok(Self {
            remembered: Remembered::new(!knows_time),
            expr,
            text,
            named,
            selectors,
            value_type,
            ordered,
        })
    }

    /// The type of the outermost part, by the name that the query API gives it.
    pub(super) fn node_type(&self) -> &'static str {
        match &self.expr {
            Expr::Aggregate(_) => "aggregation",
            Expr::Unary(_) => "unaryExpr",
            Expr::Binary(_) => "binaryExpr",
            Expr::Paren(_) => "parenExpr",
            Expr::Subquery(_) => "subquery",
            Expr::NumberLiteral(_) => "numberLiteral",
            Expr::StringLiteral(_) => "stringLiteral",
            Expr::VectorSelector(_) => "vectorSelector",
            Expr::MatrixSelector(_) => "matrixSelector",
            Expr::Call(_) | Expr::Extension(_) => "call",
        }
    }

    /// The selector that a metric's name stands for.
    pub(super) fn selector(&self, name: &str) -> Option<&Selector> {
        let (_, number) = name.rsplit_once(MARK)?;
        self.selectors.get(number.parse::<usize>().ok()?)
    }

    /// What the evaluator is to read for these times.
    ///
    /// # Errors
    ///
    /// The evaluator cannot do it as Prometheus does.
    pub(super) fn text(&self, times: Times) -> Result<String, String> {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let mut expr = self.expr.clone();
        fix_times(&mut expr, times, None, false)?;
        readable(expr.to_string())
    }

    /// Whether the result has no series, seen without evaluating. `false` where that is not seen.
    pub(super) fn is_plainly_empty(&self, database: &Database, at: i64) -> bool {
        !self.selectors.is_empty() && self.is_empty(&self.expr, database, at)
    }

    fn is_empty(&self, expr: &Expr, database: &Database, at: i64) -> bool {
        let empty = |part: &Expr| self.is_empty(part, database, at);
        let selects_none = |selector: &VectorSelector| {
            let name = selector.name.as_deref().unwrap_or_default();
            selector.at.is_none()
                && self
                    .selector(name)
                    .is_some_and(|selector| !selector.has_samples(database, selector.window(at)))
        };
        match expr {
            Expr::VectorSelector(selector) => selects_none(selector),
            Expr::MatrixSelector(matrix) => selects_none(&matrix.vs),
            Expr::Paren(paren) => empty(&paren.expr),
            Expr::Unary(unary) => empty(&unary.expr),
            Expr::Aggregate(aggregate) => empty(&aggregate.expr),
            Expr::Binary(binary) => match binary.op.to_string().as_str() {
                "or" => empty(&binary.lhs) && empty(&binary.rhs),
                "unless" => empty(&binary.lhs),
                _ => empty(&binary.lhs) || empty(&binary.rhs),
            },
            Expr::Call(call) => {
                !matches!(
                    call.func.name,
                    "absent" | "absent_over_time" | "scalar" | "vector" | "time"
                ) && call.args.args.iter().any(|part| empty(part))
            }
            _ => false,
        }
    }
}

/// Gives every selector a name of its own.
fn mark(
    expr: &mut Expr,
    function: Option<&str>,
    named: bool,
    found: &mut Vec<Selector>,
) -> Result<(), String> {
    let mut add = |selector: &mut VectorSelector, wants: Wants, range: i64| {
        if !selector.matchers.or_matchers.is_empty() {
            return Err("`or` between matchers is not PromQL".to_owned());
        }
        // The evaluator asks for the metrics that fit, one by one.
        let Some(name) = selector.name.take() else {
            return Ok(());
        };
        selector.name = Some(format!("{name}{MARK}{}", found.len()));
        let matchers = selector.matchers.matchers.clone();
        // The others have been heeded when the evaluator sees the series; equalities also name the labels of absent().
        (selector.matchers.matchers).retain(|matcher| matcher.op == MatchOp::Equal);
        let found_none = Mutex::default();
        found.push(Selector {
            name,
            named,
            matchers,
            wants,
            range,
            offset: offset(selector.offset.as_ref()),
            found: found_none,
        });
        Ok(())
    };
    match expr {
        Expr::VectorSelector(selector) => add(selector, Wants::Latest, LOOKBACK),
        Expr::MatrixSelector(matrix) => {
            let thin = function.is_some_and(|name| THIN.contains(&name));
            let wants = if thin { Wants::Changes } else { Wants::All };
            add(&mut matrix.vs, wants, milliseconds(matrix.range))
        }
        Expr::Aggregate(aggregate) => {
            if let Some(param) = &mut aggregate.param {
                mark(param, None, named, found)?;
            }
            mark(&mut aggregate.expr, None, named, found)
        }
        Expr::Unary(unary) => mark(&mut unary.expr, None, false, found),
        Expr::Binary(binary) => {
            mark(&mut binary.lhs, None, named, found)?;
            mark(&mut binary.rhs, None, named, found)
        }
        Expr::Paren(paren) => mark(&mut paren.expr, function, named, found),
        Expr::Subquery(subquery) => mark(&mut subquery.expr, None, named, found),
        Expr::Call(call) => {
            let name = call.func.name;
            let named = named && NAMED.contains(&name);
            (call.args.args.iter_mut()).try_for_each(|part| mark(part, Some(name), named, found))
        }
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => Ok(()),
    }
}

/// Whether a metric's name is used as a label, which the evaluator does not know it to be.
fn uses_name(expr: &Expr) -> bool {
    const NAME: &str = "__name__";
    let mut found = false;
    promql::walk(expr, &mut |part| {
        found |= match part {
            Expr::Call(call) => call.args.args.iter().any(
                |argument| matches!(&**argument, Expr::StringLiteral(label) if label.val == NAME),
            ),
            Expr::Aggregate(aggregate) => (aggregate.modifier.iter())
                .any(|modifier| modifier.labels().labels.iter().any(|label| label == NAME)),
            Expr::Binary(binary) => (binary.modifier.iter()).any(|modifier| {
                let labels = modifier.matching.iter().map(|matching| matching.labels());
                labels
                    .chain(modifier.card.labels())
                    .any(|labels| labels.labels.iter().any(|label| label == NAME))
            }),
            _ => false,
        };
        true
    });
    found
}

/// The evaluator reads its text byte by byte.
fn readable(text: String) -> Result<String, String> {
    if text.is_ascii() {
        Ok(text)
    } else {
        Err("letters beyond ASCII are not supported".to_owned())
    }
}

impl Plan {
    /// A metric's own name, unless the result has none. The evaluator leaves the name where Prometheus takes it away.
    pub(super) fn name_of(&self, metric: &str) -> Option<String> {
        match self.selector(metric) {
            Some(selector) => selector.named.then(|| selector.name.clone()),
            None => (self.named && !metric.is_empty()).then(|| metric.to_owned()),
        }
    }

    /// A text of the evaluator, with the metrics' own names.
    pub(super) fn without_marks(&self, text: &str) -> String {
        let mut plain = text.to_owned();
        for (number, selector) in self.selectors.iter().enumerate().rev() {
            let marked = format!("{}{MARK}{number}", selector.name);
            if plain.contains(&marked) {
                plain = plain.replace(&marked, &selector.name);
            }
        }
        plain
    }
}
