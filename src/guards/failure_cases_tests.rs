//! Cases that happened to others, named after their ids in `docs/failure-cases.md`: budgets and guards.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;

use super::budget::{Usage, ask, limit};
use super::condition::{Answers, Condition};
use super::truth::Truth;
use crate::api::policy::Budget;
use crate::rules::answer::{Answer, ResultType, Sample, SampleValue, Unknown, UnknownReason};

proptest! {
    /// A pool of three with a share of 20 % may lose one: a share that rounds to nothing is one node, and no more.
    #[test]
    fn b10_a_small_pool_may_always_lose_one_node_and_not_two(nodes in 1usize..60, percent in 1usize..=100) {
        let budget = Budget {
            max_unavailable: Some(IntOrString::String(format!("{percent}%"))),
            max_concurrent: Some(9),
        };
        let usage = |out| Usage { nodes, unavailable_others: out, node_is_out: false, processing_others: 0 };
        prop_assert!(ask(&budget, &usage(0)).is_ok());
        if nodes * percent < 200 {
            prop_assert_eq!(limit(&budget, nodes), 1);
            prop_assert!(ask(&budget, &usage(1)).is_err());
        }
    }
}

fn samples(values: &[f64]) -> Result<Answer, Unknown> {
    let sample = |(index, value): (usize, &f64)| Sample {
        labels: [("alertname".to_owned(), index.to_string())].into(),
        value: SampleValue::Float(*value),
        at: Timestamp::UNIX_EPOCH,
    };
    Ok(Answer {
        result_type: ResultType::Vector,
        samples: values.iter().enumerate().map(sample).collect(),
        infos: Vec::new(),
    })
}

/// Judges a guard whose own result, and whose every other question, have these answers.
fn judge(
    expr: &str,
    result: Result<Answer, Unknown>,
    others: impl Fn(&str) -> Result<Answer, Unknown>,
) -> Truth {
    let guard = Condition::guard(expr);
    let answers: Answers = guard
        .queries()
        .into_iter()
        .map(|query| {
            let answer = if query == expr {
                result.clone()
            } else {
                others(query)
            };
            (query.to_owned(), answer)
        })
        .collect();
    guard.judge(&answers).truth
}

const ALERT_FIRES: &str = r#"ALERTS{alertname="LatencyHigh",alertstate="firing"}"#;
const ERRORS: &str = "sum(rate(http_requests_total[2m])) > 5";
const RATIO: &str = "errors / requests > 0.05";

#[test]
fn b17_each_answer_to_a_guard_has_its_meaning_and_doubt_holds() {
    let there = |_: &str| samples(&[3.0]);
    let nothing = |_: &str| samples(&[]);
    for expr in [ALERT_FIRES, ERRORS, RATIO] {
        // It returns something: it holds, whatever the rest says.
        assert_eq!(judge(expr, samples(&[1.0]), nothing), Truth::True, "{expr}");
        // It returns nothing, and the metric is not there at all.
        assert_eq!(judge(expr, samples(&[]), nothing), Truth::Unknown, "{expr}");
        // No answer, whatever the cause, or no answer to one of the questions behind it.
        for reason in UnknownReason::ALL {
            let failed = || Err(Unknown::new(reason, "in a test"));
            assert_eq!(
                judge(expr, failed(), there),
                Truth::Unknown,
                "{expr}: {reason}"
            );
            assert_eq!(
                judge(expr, samples(&[]), |_| failed()),
                Truth::Unknown,
                "{expr}: {reason}"
            );
        }
        // What it compares, or what it returns, is no number.
        assert_eq!(
            judge(expr, samples(&[f64::NAN]), there),
            Truth::Unknown,
            "{expr}"
        );
    }
    for expr in [ERRORS, RATIO] {
        let nan = |_: &str| samples(&[f64::NAN]);
        assert_eq!(judge(expr, samples(&[]), nan), Truth::Unknown, "{expr}");
        // It returns nothing, and what it compares is there: only that is a no.
        assert_eq!(judge(expr, samples(&[]), there), Truth::False, "{expr}");
    }
}

/// A guard over alerts that fire, asked while the alert is only pending. With the state as an equality nobody can know that
/// an alert that fires would be found, and the guard holds; with a regular expression the pending one shows it.
#[test]
fn b17_an_alert_that_is_only_pending_is_a_no_where_the_state_may_be_any() {
    let any_state = r#"ALERTS{alertname="LatencyHigh",alertstate=~"firing"}"#;
    let pending = |query: &str| {
        samples(if query.contains("firing") {
            &[]
        } else {
            &[1.0]
        })
    };
    assert_eq!(judge(ALERT_FIRES, samples(&[]), pending), Truth::Unknown);
    assert_eq!(judge(any_state, samples(&[]), pending), Truth::False);
    let never_there = |_: &str| samples(&[]);
    assert_eq!(judge(any_state, samples(&[]), never_there), Truth::Unknown);
}
