//! How a condition's expression is taken apart: what its result means, what it compares, and of what a proof is made.

use std::collections::BTreeSet;

use promql_parser::parser::{BinaryExpr, Expr, VectorMatchCardinality};

use crate::rules::promql::{is_absence, is_constant, is_scalar, strip_parens, text};

/// Which values of the result count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The expression filters: a series in the result passed, whatever its value.
    Filter,
    /// The expression says 0 or 1: values other than 0 count.
    Value,
}

/// A part of a proof: every series of `operand` must be in the result of `result`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) result: String,
    pub(super) operand: Option<String>,
    pub(super) reading: Reading,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Guard(Reading),
    Proof(Vec<Term>),
}

pub(super) fn is_comparison(binary: &BinaryExpr) -> bool {
    binary.op.is_comparison_operator()
}

pub(super) fn returns_bool(binary: &BinaryExpr) -> bool {
    binary
        .modifier
        .as_ref()
        .is_some_and(|modifier| modifier.return_bool)
}

pub(super) fn reading(expr: &Expr) -> Reading {
    match strip_parens(expr) {
        expr if is_scalar(expr) => Reading::Value,
        Expr::Binary(binary) if is_comparison(binary) && returns_bool(binary) => Reading::Value,
        // The values of a set operation are those of its sides.
        Expr::Binary(binary) if binary.op.is_set_operator() => {
            let left = reading(&binary.lhs);
            if binary.op.to_string() == "or" && left != reading(&binary.rhs) {
                Reading::Filter
            } else {
                left
            }
        }
        _ => Reading::Filter,
    }
}

/// The sides of every comparison, outside subqueries, that read series.
pub(super) fn collect_operands(expr: &Expr, operands: &mut BTreeSet<String>) -> Result<(), String> {
    match expr {
        Expr::Paren(paren) => collect_operands(&paren.expr, operands),
        Expr::Unary(unary) => collect_operands(&unary.expr, operands),
        Expr::Aggregate(aggregate) => collect_operands(&aggregate.expr, operands),
        Expr::Call(call) => call
            .args
            .args
            .iter()
            .try_for_each(|argument| collect_operands(argument, operands)),
        Expr::Binary(binary) => {
            for side in [&binary.lhs, &binary.rhs] {
                if is_comparison(binary) && !is_constant(side) {
                    operands.insert(text(strip_parens(side))?);
                }
                collect_operands(side, operands)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn collect_terms(expr: &Expr, terms: &mut Vec<Term>) -> Result<(), String> {
    let expr = strip_parens(expr);
    if is_absence(expr) {
        return Err("the absence of a series is no proof".to_owned());
    }
    if is_constant(expr) {
        return Err("a constant is no proof".to_owned());
    }
    let result = text(expr)?;
    match expr {
        Expr::Binary(binary) if is_comparison(binary) => {
            if returns_bool(binary) || is_scalar(expr) {
                terms.push(Term {
                    result,
                    operand: None,
                    reading: Reading::Value,
                });
            } else {
                terms.push(Term {
                    result,
                    operand: Some(text(compared_side(binary))?),
                    reading: Reading::Filter,
                });
            }
        }
        Expr::Binary(binary) if binary.op.is_set_operator() => {
            let operator = binary.op.to_string();
            if operator == "or" {
                let sides = [&binary.lhs, &binary.rhs].map(|side| match strip_parens(side) {
                    Expr::Binary(side) if is_comparison(side) && !returns_bool(side) => {
                        text(compared_side(side))
                    }
                    _ => Err("a proof with `or` needs a comparison on both sides".to_owned()),
                });
                let [left, right] = sides;
                terms.push(Term {
                    result,
                    operand: Some(format!("({}) or ({})", left?, right?)),
                    reading: Reading::Filter,
                });
            } else {
                collect_terms(&binary.lhs, terms)?;
                // A right side that only asks for absence, or for the time of day, narrows the proof and adds none.
                let right = strip_parens(&binary.rhs);
                if operator == "and" && !is_absence(right) && !is_constant(right) {
                    collect_terms(right, terms)?;
                }
                terms.push(Term {
                    result,
                    operand: Some(text(strip_parens(&binary.lhs))?),
                    reading: Reading::Filter,
                });
            }
        }
        _ => terms.push(Term {
            result,
            operand: None,
            reading: Reading::Value,
        }),
    }
    Ok(())
}

/// The side of a comparison whose series the result consists of.
pub(super) fn compared_side(binary: &BinaryExpr) -> &Expr {
    let one_to_many = binary
        .modifier
        .as_ref()
        .is_some_and(|modifier| matches!(modifier.card, VectorMatchCardinality::OneToMany(_)));
    let side = if is_scalar(&binary.lhs) || one_to_many {
        &binary.rhs
    } else {
        &binary.lhs
    };
    strip_parens(side)
}
