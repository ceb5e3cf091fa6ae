//! What of a guard must have data before an empty result may count as false.
//!
//! That a metric exists now says nothing of a range that is too short for its scrape interval, nor of a join whose labels
//! never match: both are empty for ever, and so would be the guard. The expression is therefore asked once more without what
//! it filters by. Where even that is empty, there was nothing to compare.

use promql_parser::parser::{BinModifier, Expr};

use super::question::{compared_side, is_comparison};
use crate::rules::promql::{
    is_absence, is_constant, is_scalar, is_vector, strip_parens, text, walk, widened,
};

/// One question: of the two expressions, at least one must have a series.
///
/// The narrow one decides first, because the wide one may fail where a dropped matcher made a join unambiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    /// The expression without its comparisons.
    pub(super) narrow: String,
    /// `count(…)` of the same, with the equality matchers of its selectors alone.
    pub(super) wide: String,
}

/// What must have data in a guard: the whole without its comparisons, and each part that the whole does not need, which are
/// the sides of an `or` and the right side of an `unless`.
pub(super) fn collect_data(expr: &Expr, found: &mut Vec<Data>) -> Result<(), String> {
    let unfiltered = unfiltered(expr, found)?;
    push(&unfiltered, found)
}

fn push(unfiltered: &Expr, found: &mut Vec<Data>) -> Result<(), String> {
    // The absence of what a scalar reads is NaN, and noticed as such.
    if !is_vector(unfiltered) || is_constant(unfiltered) {
        return Ok(());
    }
    let unfiltered = strip_parens(unfiltered);
    // The sides of an `or` have been asked by themselves.
    if matches!(unfiltered, Expr::Binary(binary) if binary.op.to_string() == "or") {
        return Ok(());
    }
    let data = Data {
        narrow: text(unfiltered)?,
        wide: format!("count({})", text(&widened(unfiltered))?),
    };
    if !found.contains(&data) {
        found.push(data);
    }
    Ok(())
}

/// The expression as it would be if every comparison in it passed. Parts that it can do without go to `found`.
fn unfiltered(expr: &Expr, found: &mut Vec<Data>) -> Result<Expr, String> {
    let mut changed = expr.clone();
    match &mut changed {
        Expr::Paren(paren) => *paren.expr = unfiltered(&paren.expr, found)?,
        Expr::Unary(unary) => *unary.expr = unfiltered(&unary.expr, found)?,
        Expr::Subquery(subquery) => {
            *subquery.expr = unfiltered(&subquery.expr, found)?;
        }
        Expr::Aggregate(aggregate) => {
            *aggregate.expr = unfiltered(&aggregate.expr, found)?;
        }
        Expr::Call(call) => {
            for argument in &mut call.args.args {
                **argument = unfiltered(argument, found)?;
            }
        }
        Expr::Binary(binary) => {
            let (left, right) = (&binary.lhs, &binary.rhs);
            // What reads no series says nothing about data: a default such as `or vector(0)`, the time of day, an `absent()`.
            let idle = |side: &Expr| is_constant(side) && is_vector(side);
            let is_set = binary.op.is_set_operator();
            if idle(right) && !is_constant(left) && (is_set || asks_absence(right)) {
                return unfiltered(left, found);
            }
            if idle(left) && !is_constant(right) && (is_set || asks_absence(left)) {
                return unfiltered(right, found);
            }
            let operator = binary.op.to_string();
            if operator == "unless" {
                let right = unfiltered(right, found)?;
                push(&right, found)?;
                return unfiltered(left, found);
            }
            if is_comparison(binary) && (is_scalar(left) || is_scalar(right)) && !is_scalar(expr) {
                return unfiltered(compared_side(binary), found);
            }
            let (left, right) = (unfiltered(left, found)?, unfiltered(right, found)?);
            if operator == "or" {
                push(&left, found)?;
                push(&right, found)?;
            }
            if is_comparison(binary) {
                // With `bool` the result is what matches, whatever the values.
                let modifier = binary.modifier.take().unwrap_or_default();
                binary.modifier = Some(BinModifier {
                    return_bool: true,
                    ..modifier
                });
            }
            (*binary.lhs, *binary.rhs) = (left, right);
        }
        Expr::NumberLiteral(_)
        | Expr::StringLiteral(_)
        | Expr::VectorSelector(_)
        | Expr::MatrixSelector(_)
        | Expr::Extension(_) => {}
    }
    Ok(changed)
}

/// Whether `absent()` is asked anywhere inside.
fn asks_absence(expr: &Expr) -> bool {
    let mut asked = false;
    walk(expr, &mut |part| {
        asked |= is_absence(part);
        !asked
    });
    asked
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::rules::promql::parse;

    fn asked(expr: &str) -> Vec<String> {
        let mut found = Vec::new();
        collect_data(&parse(expr).unwrap(), &mut found).unwrap();
        found.into_iter().map(|data| data.wide).collect()
    }

    #[test]
    fn what_must_have_data() {
        for (expr, expected) in [
            ("x < 1", &["count(x)"][..]),
            ("1 > x", &["count(x)"]),
            ("x > bool 1", &["count(x)"]),
            (
                r#"rate(x{a="b",code=~"5.."}[1m]) > 0"#,
                &[r#"count(rate(x{a="b"}[1m]))"#],
            ),
            ("a / on (n) b < 0.5", &["count(a / on (n) b)"]),
            ("a < on (n) b * 0.5", &["count(a < bool on (n) b * 0.5)"]),
            ("a > 1 and on (n) b > 1", &["count(a and on (n) b)"]),
            (
                "count(up == 0) / count(up) > 0.5",
                &["count(count(up) / count(up))"],
            ),
            (
                "max_over_time((a > 5)[5m:1m]) > 0",
                &["count(max_over_time((a)[5m:1m]))"],
            ),
            ("a > 1 unless on (n) b == 1", &["count(b)", "count(a)"]),
            ("a > 1 or b > 1", &["count(a)", "count(b)"]),
            (
                "(a or b) / c > 1",
                &["count(a)", "count(b)", "count((a or b) / c)"],
            ),
            (
                "(sum(rate(x[1m])) or vector(0)) > 5",
                &["count((sum(rate(x[1m]))))"],
            ),
            (
                "sum(rate(x[1m]) or on () vector(0)) > 5",
                &["count(sum(rate(x[1m])))"],
            ),
            ("a > 1 and on () hour() > 8", &["count(a)"]),
            ("absent(x) or y > 5", &["count(y)"]),
            ("y * on () absent(x) > 5", &["count(y)"]),
            ("x * scalar(y) > 5", &["count(x * scalar(y))"]),
            ("absent(x)", &[]),
            ("scalar(x) > bool 1", &[]),
            ("vector(1)", &[]),
        ] {
            // The parentheses that the parser keeps mean nothing.
            let plain = |text: &str| text.replace("((", "(").replace("))", ")");
            let found: Vec<_> = asked(expr).iter().map(|text| plain(text)).collect();
            let expected: Vec<_> = expected.iter().map(|text| plain(text)).collect();
            assert_eq!(found, expected, "{expr}");
        }
    }
}
