//! What must have data: guards that compare nothing, and proofs in which a GPU is missing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::tests::{judge, unknown, vector};
use super::*;
use crate::guards::truth::Truth;

#[test]
fn the_example_of_an_error_rate_needs_traffic_but_no_errors() {
    let expr = r#"sum(rate(http_requests_total{job="llm",code=~"5.."}[2m])) / sum(rate(http_requests_total{job="llm"}[2m])) > 0.05"#;
    let guard = Condition::guard(expr);
    let queries = guard.queries();
    assert_eq!(queries.len(), 4, "{queries:#?}");
    let exists = r#"count(http_requests_total{job="llm"})"#;
    let traffic = r#"count(sum(rate(http_requests_total{job="llm"}[2m])) / sum(rate(http_requests_total{job="llm"}[2m])))"#;
    assert!(queries.contains(&exists) && queries.contains(&traffic));
    let operand = queries
        .into_iter()
        .find(|query| ![expr, exists, traffic].contains(query))
        .unwrap();
    for (ratio, compared, expected) in [
        // No 5xx yet.
        (vector(&[]), vector(&[1.0]), Truth::False),
        (vector(&[0.01]), vector(&[1.0]), Truth::False),
        (vector(&[f64::NAN]), vector(&[1.0]), Truth::Unknown),
        // The range holds fewer than two scrapes.
        (vector(&[]), vector(&[]), Truth::Unknown),
    ] {
        let verdict = judge(
            &guard,
            &[
                (expr, vector(&[])),
                (operand, ratio),
                (traffic, compared),
                (exists, vector(&[9.0])),
            ],
        );
        assert_eq!(verdict.truth, expected, "{verdict:?}");
    }
}

#[test]
fn labels_that_never_match_are_no_false() {
    for (expr, join) in [
        (
            "available / on (namespace, deployment) spec < 0.5",
            "available / on (namespace, deployment) spec",
        ),
        (
            "available < on (namespace, deployment) spec * 0.5",
            "count(available < bool on (namespace, deployment) spec * 0.5)",
        ),
        (
            "available < 3 and on (namespace) busy > 0",
            "count(available and on (namespace) busy)",
        ),
    ] {
        let guard = Condition::guard(expr);
        for (matches, expected) in [(&[4.0][..], Truth::False), (&[], Truth::Unknown)] {
            let answers: Answers = guard
                .queries()
                .into_iter()
                .map(|query| {
                    let values = if query == expr {
                        &[]
                    } else if query == join || query == format!("count({join})") {
                        matches
                    } else {
                        &[4.0][..]
                    };
                    (query.to_owned(), vector(values))
                })
                .collect();
            let verdict = guard.judge(&answers);
            assert_eq!(verdict.truth, expected, "{expr}: {:#?}", guard.queries());
        }
    }
}

#[test]
fn data_are_enough_where_the_wide_question_fails() {
    let expr = r#"a{phase!="Running"} / on (pod) b > 2"#;
    let guard = Condition::guard(expr);
    let wide = "count(a / on (pod) b)";
    assert!(guard.queries().contains(&wide), "{:#?}", guard.queries());
    for (compared, expected) in [(&[1.0][..], Truth::False), (&[], Truth::Unknown)] {
        let answers: Answers = guard
            .queries()
            .into_iter()
            .map(|query| {
                let answer = match query {
                    query if query == wide => unknown(UnknownReason::ExecutionFailed),
                    query if query == expr => vector(&[]),
                    query if query.contains("/ on") => vector(compared),
                    _ => vector(&[1.0]),
                };
                (query.to_owned(), answer)
            })
            .collect();
        assert_eq!(guard.judge(&answers).truth, expected);
    }
}

#[test]
fn a_guard_of_many_comparisons_stays_within_the_queries() {
    let expr = (0..7)
        .map(|n| format!(r#"rate(m{n}{{code=~"5.."}}[2m]) > 1"#))
        .collect::<Vec<_>>();
    let guard = Condition::guard(&expr[..5].join(" or "));
    assert_eq!(guard.not_understood(), None, "{:#?}", guard.queries());
}

#[test]
fn the_shipped_proofs_count_the_gpus() {
    use crate::api::RemediationPolicy;
    use crate::api::policy::Step;
    use crate::rules::template::{Dialect, PolicyVariables, Template};

    let policy: RemediationPolicy =
        serde_saphyr::from_str(include_str!("../../rules/policies/drain-node.yaml")).unwrap();
    let verify = policy.spec.steps.iter().find_map(|step| match step {
        Step::Verify(verify) => Some(verify.expr.clone()),
        _ => None,
    });
    for expr in [verify.unwrap(), policy.spec.recovery.healthy.expr] {
        let variables = PolicyVariables {
            node: "a".into(),
            ..PolicyVariables::default()
        };
        let expr = Template::parse(&expr, Dialect::Policy).unwrap();
        let proof = Condition::proof(&expr.expand_query(&variables).unwrap());
        let judge = |listed: usize, most: usize, exists: bool| {
            let answers: Answers = proof
                .queries()
                .into_iter()
                .enumerate()
                .map(|(index, query)| {
                    let complete = listed >= most;
                    let passing = if query.starts_with("count(") {
                        usize::from(exists)
                    } else if query.contains("gpu_xid_errors_total") && !query.contains("gpu_up") {
                        // No fatal Xid lately, on each GPU that is listed.
                        listed
                    } else if query.contains("max_over_time") && !query.starts_with("max by") {
                        // The whole, and the comparison of the numbers alone.
                        let series = if query.starts_with("min by") {
                            1
                        } else {
                            listed
                        };
                        if complete { series } else { 0 }
                    } else if query.starts_with("min by") || query.starts_with("max by") {
                        1
                    } else {
                        assert!(
                            index > 0 && query.contains("gpu_up") || query.contains("recovery")
                        );
                        listed
                    };
                    (query.to_owned(), vector(&vec![1.0; passing]))
                })
                .collect();
            proof.judge(&answers).truth
        };
        assert_eq!(judge(8, 8, true), Truth::True);
        assert_eq!(judge(7, 8, true), Truth::False);
        assert_eq!(judge(8, 8, false), Truth::Unknown);
    }
}
