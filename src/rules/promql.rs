//! Taking PromQL expressions apart.

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::value::ValueType;
use promql_parser::parser::{Expr, VectorSelector, parse as parse_promql};

/// Reads an expression.
///
/// # Errors
///
/// When the parser refuses it. That is not proof that Prometheus does: newer syntax is unknown to the parser.
pub fn parse(expr: &str) -> Result<Expr, String> {
    parse_promql(expr)
}

/// The expression without the parentheses around it.
pub fn strip_parens(mut expr: &Expr) -> &Expr {
    while let Expr::Paren(paren) = expr {
        expr = &paren.expr;
    }
    expr
}

/// The expression as text, if the text reads back as the same expression.
///
/// The parser's own printing loses some rare parts, such as a negative `@`. A query that asks something else must not be sent.
pub fn text(expr: &Expr) -> Result<String, String> {
    let text = expr.to_string();
    let mut original = expr.clone();
    sort_matchers(&mut original);
    let again = parse_promql(&text).map(|mut again| {
        sort_matchers(&mut again);
        again
    });
    match again {
        Ok(again) if again == original => Ok(text),
        _ => Err(format!(
            "`{text}` does not read back as the same expression"
        )),
    }
}

/// Puts the matchers of every selector in one order, because printing reorders them and their order means nothing.
fn sort_matchers(expr: &mut Expr) {
    for_each_selector(expr, &mut |selector| {
        selector.matchers.matchers.sort_by_key(|matcher| {
            (
                matcher.name.clone(),
                matcher.op.to_string(),
                matcher.value.clone(),
            )
        });
    });
}

/// Whether the expression is a number without a query.
pub fn is_constant(expr: &Expr) -> bool {
    selectors(expr).is_empty()
}

/// Whether the result is a scalar.
pub fn is_scalar(expr: &Expr) -> bool {
    expr.value_type() == ValueType::Scalar
}

/// Whether the result is an instant vector.
pub fn is_vector(expr: &Expr) -> bool {
    expr.value_type() == ValueType::Vector
}

/// Whether the expression asks for the absence of series.
pub fn is_absence(expr: &Expr) -> bool {
    matches!(strip_parens(expr), Expr::Call(call) if matches!(call.func.name, "absent" | "absent_over_time"))
}

/// Every vector selector of the expression whose series must exist for the expression to mean anything. The ones inside
/// `absent()` ask about existence themselves and are left out.
pub fn selectors(expr: &Expr) -> Vec<&VectorSelector> {
    let mut found = Vec::new();
    walk(expr, &mut |expr| {
        match expr {
            Expr::VectorSelector(selector) => found.push(selector),
            Expr::MatrixSelector(matrix) => found.push(&matrix.vs),
            _ => {}
        }
        !is_absence(expr)
    });
    found
}

/// Calls `visit` with the expression and, where it returns true, with its parts.
pub fn walk<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr) -> bool) {
    if !visit(expr) {
        return;
    }
    match expr {
        Expr::Aggregate(aggregate) => {
            if let Some(param) = &aggregate.param {
                walk(param, visit);
            }
            walk(&aggregate.expr, visit);
        }
        Expr::Unary(unary) => walk(&unary.expr, visit),
        Expr::Binary(binary) => {
            walk(&binary.lhs, visit);
            walk(&binary.rhs, visit);
        }
        Expr::Paren(paren) => walk(&paren.expr, visit),
        Expr::Subquery(subquery) => walk(&subquery.expr, visit),
        Expr::Call(call) => {
            for argument in &call.args.args {
                walk(argument, visit);
            }
        }
        Expr::NumberLiteral(_)
        | Expr::StringLiteral(_)
        | Expr::VectorSelector(_)
        | Expr::MatrixSelector(_)
        | Expr::Extension(_) => {}
    }
}

/// `count(<metric>{<equality matchers>})`: whether there is such a metric at all.
///
/// Only equality matchers are kept, because an inequality such as `code=~"5.."` usually names the bad case, whose absence is
/// what the condition hopes for.
pub fn existence(selector: &VectorSelector) -> Result<String, String> {
    let mut wide = selector.clone();
    widen(&mut wide);
    Ok(format!("count({})", text(&Expr::VectorSelector(wide))?))
}

/// Drops every matcher that is no equality, unless nothing would be left to select by.
fn widen(selector: &mut VectorSelector) {
    let is_equality =
        |matcher: &Matcher| matches!(matcher.op, MatchOp::Equal) && !matcher.value.is_empty();
    if selector.name.is_none() && !selector.matchers.matchers.iter().any(is_equality) {
        return;
    }
    selector.matchers.or_matchers.clear();
    selector.matchers.matchers.retain(is_equality);
}

/// The expression with every selector widened to its equality matchers, as [`existence`] does for one.
#[must_use]
pub fn widened(expr: &Expr) -> Expr {
    let mut wide = expr.clone();
    for_each_selector(&mut wide, &mut widen);
    wide
}

fn for_each_selector(expr: &mut Expr, change: &mut dyn FnMut(&mut VectorSelector)) {
    match expr {
        Expr::VectorSelector(selector) => change(selector),
        Expr::MatrixSelector(matrix) => change(&mut matrix.vs),
        Expr::Aggregate(aggregate) => {
            if let Some(param) = &mut aggregate.param {
                for_each_selector(param, change);
            }
            for_each_selector(&mut aggregate.expr, change);
        }
        Expr::Unary(unary) => for_each_selector(&mut unary.expr, change),
        Expr::Binary(binary) => {
            for_each_selector(&mut binary.lhs, change);
            for_each_selector(&mut binary.rhs, change);
        }
        Expr::Paren(paren) => for_each_selector(&mut paren.expr, change),
        Expr::Subquery(subquery) => for_each_selector(&mut subquery.expr, change),
        Expr::Call(call) => call
            .args
            .args
            .iter_mut()
            .for_each(|argument| for_each_selector(argument, change)),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn existence_keeps_equality_only() {
        let expr =
            parse(r#"sum(rate(http_requests_total{job="llm",code=~"5..",x!="y"}[2m] offset 1m))"#)
                .unwrap();
        let found: Vec<_> = selectors(&expr)
            .into_iter()
            .map(|selector| existence(selector).unwrap())
            .collect();
        assert_eq!(
            found,
            [r#"count(http_requests_total{job="llm"} offset 1m)"#]
        );
        let expr = parse(r#"{__name__=~"a.*"}"#).unwrap();
        assert_eq!(
            existence(selectors(&expr)[0]).unwrap(),
            r#"count({__name__=~"a.*"})"#
        );
    }

    #[test]
    fn what_the_parser_cannot_print_is_not_sent() {
        assert!(text(&parse("x @ -10.5").unwrap()).is_err());
        assert!(text(&parse(r#"x{a="b\"c"} > 1"#).unwrap()).is_ok());
    }

    #[test]
    fn selectors_of_absent_are_left_out() {
        let expr = parse("absent(a) or b unless count_values(\"x\", c[5m:1m]) > scalar(d)");
        let expr = expr
            .or_else(|_| parse("absent(a) or b unless count(c) > scalar(d)"))
            .unwrap();
        let names: Vec<_> = selectors(&expr)
            .into_iter()
            .filter_map(|selector| selector.name.as_deref())
            .collect();
        assert_eq!(names, ["b", "c", "d"]);
    }
}
