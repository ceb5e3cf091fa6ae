//! What can be said of a rule's expression without asking Prometheus.

use promql_parser::label::MatchOp;
use promql_parser::parser::value::ValueType;
use promql_parser::parser::{
    AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorMatchCardinality,
};

use super::promql::{is_scalar, parse, strip_parens};

/// A finding about an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The parser refuses it, with its message.
    Refused(String),
    /// The result is a range vector or a string.
    ResultType(&'static str),
    /// The result lacks a label that names the node.
    LosesLabel(String),
    /// A comparison with `bool` returns every series, also those for which it is false.
    TopLevelBool,
}

/// Looks at an expression whose alerts need `labels` to find the node.
pub fn expression(expr: &str, labels: &[String]) -> Vec<Finding> {
    let expr = match parse(expr) {
        Ok(expr) => expr,
        Err(message) => return vec![Finding::Refused(message)],
    };
    match expr.value_type() {
        ValueType::Matrix => return vec![Finding::ResultType("range vector")],
        ValueType::String => return vec![Finding::ResultType("string")],
        ValueType::Scalar | ValueType::Vector => {}
    }
    let mut findings: Vec<_> = labels
        .iter()
        .filter(|label| !keeps(&expr, label))
        .map(|label| Finding::LosesLabel(label.clone()))
        .collect();
    if let Expr::Binary(binary) = strip_parens(&expr)
        && binary.op.is_comparison_operator()
        && binary
            .modifier
            .as_ref()
            .is_some_and(|modifier| modifier.return_bool)
    {
        findings.push(Finding::TopLevelBool);
    }
    findings
}

/// Whether the series of the result can have the label. A selector is trusted to: its labels are known to the server only.
fn keeps(expr: &Expr, label: &str) -> bool {
    match expr {
        expr if is_scalar(expr) => false,
        Expr::Paren(paren) => keeps(&paren.expr, label),
        Expr::Unary(unary) => keeps(&unary.expr, label),
        Expr::Subquery(subquery) => keeps(&subquery.expr, label),
        Expr::VectorSelector(_) | Expr::MatrixSelector(_) => true,
        Expr::Aggregate(aggregate) => aggregate_keeps(aggregate, label),
        Expr::Binary(binary) => binary_keeps(binary, label),
        Expr::Call(call) => call_keeps(call, label),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => false,
    }
}

fn aggregate_keeps(aggregate: &AggregateExpr, label: &str) -> bool {
    // These choose series instead of merging them.
    if matches!(
        aggregate.op.to_string().as_str(),
        "topk" | "bottomk" | "limitk" | "limit_ratio"
    ) {
        return keeps(&aggregate.expr, label);
    }
    match &aggregate.modifier {
        Some(LabelModifier::Include(by)) => by.labels.iter().any(|name| name == label),
        Some(LabelModifier::Exclude(without)) => {
            !without.labels.iter().any(|name| name == label) && keeps(&aggregate.expr, label)
        }
        None => false,
    }
}

fn binary_keeps(binary: &BinaryExpr, label: &str) -> bool {
    let (left, right) = (&binary.lhs, &binary.rhs);
    if binary.op.is_set_operator() {
        return match binary.op.to_string().as_str() {
            "or" => keeps(left, label) && keeps(right, label),
            _ => keeps(left, label),
        };
    }
    if is_scalar(left) {
        return keeps(right, label);
    }
    if is_scalar(right) {
        return keeps(left, label);
    }
    let modifier = binary.modifier.as_ref();
    match modifier.map(|modifier| &modifier.card) {
        Some(VectorMatchCardinality::ManyToOne(added)) => {
            added.labels.iter().any(|name| name == label) || keeps(left, label)
        }
        Some(VectorMatchCardinality::OneToMany(added)) => {
            added.labels.iter().any(|name| name == label) || keeps(right, label)
        }
        _ => match modifier.and_then(|modifier| modifier.matching.as_ref()) {
            // A filter keeps its left side whole; arithmetic keeps what it matched on.
            Some(LabelModifier::Include(on)) if !binary.op.is_comparison_operator() => {
                on.labels.iter().any(|name| name == label)
            }
            Some(LabelModifier::Exclude(ignoring)) if !binary.op.is_comparison_operator() => {
                !ignoring.labels.iter().any(|name| name == label) && keeps(left, label)
            }
            _ => keeps(left, label),
        },
    }
}

fn call_keeps(call: &Call, label: &str) -> bool {
    let arguments = &call.args.args;
    match call.func.name {
        "label_replace" | "label_join" => {
            let sets = matches!(arguments.get(1).map(|argument| &**argument), Some(Expr::StringLiteral(name)) if name.val == label);
            sets || arguments
                .first()
                .is_some_and(|argument| keeps(argument, label))
        }
        // The only labels of an absence are those that the selector asks for by equality.
        "absent" | "absent_over_time" => arguments.first().is_some_and(|argument| {
            let selector = match strip_parens(argument) {
                Expr::VectorSelector(selector) => selector,
                Expr::MatrixSelector(matrix) => &matrix.vs,
                _ => return false,
            };
            selector
                .matchers
                .matchers
                .iter()
                .any(|matcher| matcher.name == label && matches!(matcher.op, MatchOp::Equal))
        }),
        _ => arguments
            .iter()
            .find(|argument| matches!(argument.value_type(), ValueType::Vector | ValueType::Matrix))
            .is_some_and(|argument| keeps(argument, label)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(expr: &str) -> Vec<Finding> {
        expression(expr, &["node".to_owned()])
    }

    #[test]
    fn tells_which_expressions_lose_the_node() {
        for expr in [
            "gpu_up == 0",
            "time() - gpu_xid_last_timestamp_seconds{xid=\"79\"} < 300",
            "sum by (node) (rate(x[5m])) > 1",
            "sum without (gpu) (x) > 1",
            "topk(3, x) > 1",
            "max_over_time(x[5m]) > 1 and on (node) y",
            "x * on (UUID) group_left (pod) gpu_pod_info > 1",
            "x * on (UUID) group_right () y > 1",
            "label_replace(sum by (host) (x), \"node\", \"$1\", \"host\", \"(.*)\")",
            "absent(gpu_up{node=\"a\"})",
            "-x",
        ] {
            assert_eq!(findings(expr), [], "{expr}");
        }
        for expr in [
            "sum(x) > 1",
            "sum by (gpu) (x) > 1",
            "sum without (node) (x) > 1",
            "count(x) * on (UUID) y > 1",
            "absent(gpu_up)",
            "vector(1)",
            "x and y or sum(x)",
            "scalar(x)",
        ] {
            assert_eq!(
                findings(expr),
                [Finding::LosesLabel("node".into())],
                "{expr}"
            );
        }
    }

    #[test]
    fn tells_what_no_rule_can_be() {
        assert_eq!(findings("x[5m]"), [Finding::ResultType("range vector")]);
        assert_eq!(findings("\"a\""), [Finding::ResultType("string")]);
        assert!(matches!(findings("x >").as_slice(), [Finding::Refused(_)]));
        assert_eq!(findings("x > bool 1"), [Finding::TopLevelBool]);
    }
}
