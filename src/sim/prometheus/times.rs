//! Times within an expression: what `start()`, `end()` and subqueries stand for when it is evaluated.

use std::time::{Duration, SystemTime};

use promql_parser::parser::{AtModifier, Expr, Offset, SubqueryExpr};

/// The step of a subquery without one, in milliseconds; the default evaluation interval of Prometheus.
const DEFAULT_STEP: i64 = 60 * 1000;
/// Functions whose result depends on where a range begins and ends.
const BOUND: [&str; 6] = [
    "delta",
    "deriv",
    "idelta",
    "increase",
    "predict_linear",
    "rate",
];

/// The times that `start()`, `end()` and subqueries stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// When the expression is evaluated.
    pub(super) at: i64,
    /// Of the whole question.
    pub(super) start: i64,
    /// Of the whole question.
    pub(super) end: i64,
}

/// Puts numbers for `start()` and `end()`, and makes each subquery one whose steps are where Prometheus has them: at
/// multiples of the step, in a range that is open at its left. The evaluator counts steps from the closed start of the range.
pub(super) fn fix_times(
    expr: &mut Expr,
    times: Times,
    function: Option<&str>,
    nested: bool,
) -> Result<(), String> {
    let each = |part: &mut Expr| fix_times(part, times, None, nested);
    match expr {
        Expr::VectorSelector(selector) => fix_at(&mut selector.at, times),
        Expr::MatrixSelector(matrix) => fix_at(&mut matrix.vs.at, times),
        Expr::Subquery(_) if nested => Err("a subquery in a subquery is not supported".to_owned()),
        Expr::Subquery(subquery) => {
            if function.is_some_and(|name| BOUND.contains(&name)) {
                let name = function.unwrap_or_default();
                return Err(format!("{name}() of a subquery is not supported"));
            }
            fix_subquery(subquery, times)?;
            fix_times(&mut subquery.expr, times, None, true)
        }
        Expr::Aggregate(aggregate) => {
            if let Some(param) = &mut aggregate.param {
                each(param)?;
            }
            each(&mut aggregate.expr)
        }
        Expr::Unary(unary) => each(&mut unary.expr),
        Expr::Binary(binary) => {
            each(&mut binary.lhs)?;
            each(&mut binary.rhs)
        }
        Expr::Paren(paren) => fix_times(&mut paren.expr, times, function, nested),
        Expr::Call(call) => {
            let name = call.func.name;
            let mut parts = call.args.args.iter_mut();
            parts.try_for_each(|part| fix_times(part, times, Some(name), nested))
        }
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => Ok(()),
    }
}

fn fix_at(at: &mut Option<AtModifier>, times: Times) -> Result<(), String> {
    let milliseconds = match at {
        None => return Ok(()),
        Some(AtModifier::Start) => times.start,
        Some(AtModifier::End) => times.end,
        Some(AtModifier::At(time)) => instant(*time)?,
    };
    *at = Some(fixed(milliseconds)?);
    Ok(())
}

fn instant(time: SystemTime) -> Result<i64, String> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since
        .map(milliseconds)
        .map_err(|_| "a time before 1970 is not supported".to_owned())
}

fn fixed(milliseconds: i64) -> Result<AtModifier, String> {
    let since = u64::try_from(milliseconds).map_err(|_| "a time before 1970 is not supported")?;
    Ok(AtModifier::At(
        SystemTime::UNIX_EPOCH + Duration::from_millis(since),
    ))
}

fn fix_subquery(subquery: &mut SubqueryExpr, times: Times) -> Result<(), String> {
    fix_at(&mut subquery.at, times)?;
    let at = match &subquery.at {
        Some(AtModifier::At(time)) => instant(*time)?,
        _ => times.at,
    };
    let until = at - offset(subquery.offset.take().as_ref());
    let step = subquery.step.map_or(DEFAULT_STEP, milliseconds).max(1);
    let last = until.div_euclid(step) * step;
    let first = ((until - milliseconds(subquery.range)).div_euclid(step) + 1) * step;
    let range = u64::try_from(last - first)
        .map_err(|_| "a subquery whose range is shorter than its step is not supported")?;
    subquery.at = Some(fixed(last)?);
    subquery.range = Duration::from_millis(range);
    subquery.step = u64::try_from(step).ok().map(Duration::from_millis);
    Ok(())
}

/// Whole milliseconds.
pub(super) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How far back an offset looks, in milliseconds.
pub(super) fn offset(offset: Option<&Offset>) -> i64 {
    match offset {
        None => 0,
        Some(Offset::Pos(by)) => milliseconds(*by),
        Some(Offset::Neg(by)) => -milliseconds(*by),
    }
}
