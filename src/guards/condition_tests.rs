#![allow(clippy::unwrap_used, clippy::expect_used)]

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::guards::truth::Truth;
use crate::rules::answer::{ResultType, Sample, SampleValue};

pub(super) fn vector(values: &[f64]) -> Result<Answer, Unknown> {
    Ok(Answer {
        result_type: ResultType::Vector,
        samples: values
            .iter()
            .enumerate()
            .map(|(index, value)| Sample {
                labels: [("gpu".to_owned(), index.to_string())].into(),
                value: SampleValue::Float(*value),
                at: Timestamp::UNIX_EPOCH,
            })
            .collect(),
        infos: Vec::new(),
    })
}

pub(super) fn unknown(reason: UnknownReason) -> Result<Answer, Unknown> {
    Err(Unknown::new(reason, "in a test"))
}

/// Every query of the plan must be answered by the test, and nothing else may be.
pub(super) fn judge(condition: &Condition, answers: &[(&str, Result<Answer, Unknown>)]) -> Verdict {
    let answers: Answers = answers
        .iter()
        .map(|(query, answer)| ((*query).to_owned(), answer.clone()))
        .collect();
    let asked: BTreeSet<_> = condition.queries().into_iter().collect();
    assert_eq!(asked, answers.keys().map(String::as_str).collect());
    condition.judge(&answers)
}

const FLOOR: &str = r#"kube_deployment_status_replicas_available{deployment="llm"} < 1"#;
const FLOOR_OPERAND: &str = r#"kube_deployment_status_replicas_available{deployment="llm"}"#;
const FLOOR_EXISTS: &str = r#"count(kube_deployment_status_replicas_available{deployment="llm"})"#;

#[test]
fn a_guard_with_value_0_is_true() {
    let guard = Condition::guard(FLOOR);
    let verdict = judge(
        &guard,
        &[
            (FLOOR, vector(&[0.0])),
            (FLOOR_OPERAND, vector(&[0.0])),
            (FLOOR_EXISTS, vector(&[1.0])),
        ],
    );
    assert_eq!((verdict.truth, verdict.value), (Truth::True, Some(0.0)));
}

#[test]
fn a_guard_is_false_only_when_its_metric_exists() {
    let guard = Condition::guard(FLOOR);
    let verdict = judge(
        &guard,
        &[
            (FLOOR, vector(&[])),
            (FLOOR_OPERAND, vector(&[4.0])),
            (FLOOR_EXISTS, vector(&[1.0])),
        ],
    );
    assert_eq!(verdict.truth, Truth::False);
    let verdict = judge(
        &guard,
        &[
            (FLOOR, vector(&[])),
            (FLOOR_OPERAND, vector(&[])),
            (FLOOR_EXISTS, vector(&[])),
        ],
    );
    assert_eq!(
        (verdict.truth, verdict.reason),
        (Truth::Unknown, Some(UnknownReason::NoData))
    );
}

#[test]
fn a_guard_over_nan_is_unknown() {
    let guard = Condition::guard(FLOOR);
    let verdict = judge(
        &guard,
        &[
            (FLOOR, vector(&[])),
            (FLOOR_OPERAND, vector(&[f64::NAN])),
            (FLOOR_EXISTS, vector(&[1.0])),
        ],
    );
    assert_eq!(verdict.reason, Some(UnknownReason::NotANumber));
}

#[test]
fn bool_and_scalar_results_are_true_when_not_0() {
    for expr in [
        "x > bool 1",
        "scalar(x)",
        "(x > bool 1)",
        "x > bool 1 and y > bool 2",
    ] {
        let guard = Condition::guard(expr);
        for (value, expected) in [(0.0, Truth::False), (1.0, Truth::True)] {
            let answers: Answers = guard
                .queries()
                .into_iter()
                .map(|query| {
                    (
                        query.to_owned(),
                        vector(&[if query == expr { value } else { 3.0 }]),
                    )
                })
                .collect();
            assert_eq!(guard.judge(&answers).truth, expected, "{expr} = {value}");
        }
    }
    let guard = Condition::guard("scalar(x)");
    let verdict = judge(
        &guard,
        &[
            ("scalar(x)", vector(&[f64::NAN])),
            ("count(x)", vector(&[1.0])),
        ],
    );
    assert_eq!(verdict.truth, Truth::Unknown);
}

#[test]
fn absent_as_a_guard_needs_no_series() {
    let guard = Condition::guard("absent(x)");
    assert_eq!(
        judge(&guard, &[("absent(x)", vector(&[1.0]))]).truth,
        Truth::True
    );
    assert_eq!(
        judge(&guard, &[("absent(x)", vector(&[]))]).truth,
        Truth::False
    );
}

#[test]
fn what_the_parser_refuses_can_hold_but_never_be_false_nor_prove() {
    let expr = "rate(x[5m+1m]) > 1";
    let guard = Condition::guard(expr);
    assert_eq!(judge(&guard, &[(expr, vector(&[2.0]))]).truth, Truth::True);
    assert_eq!(
        judge(&guard, &[(expr, vector(&[]))]).reason,
        Some(UnknownReason::NotUnderstood)
    );
    assert_eq!(
        judge(&Condition::proof(expr), &[(expr, vector(&[2.0]))]).truth,
        Truth::Unknown
    );
}

const UP: &str = r#"gpu_up{node="a"} == 1"#;
const UP_OPERAND: &str = r#"gpu_up{node="a"}"#;
const UP_EXISTS: &str = r#"count(gpu_up{node="a"})"#;

#[test]
fn a_proof_needs_every_series() {
    let proof = Condition::proof(UP);
    let ones = |count: usize| vector(&vec![1.0; count]);
    for (passing, all, expected) in [
        (8, 8, Truth::True),
        (7, 8, Truth::False),
        (0, 8, Truth::False),
    ] {
        let verdict = judge(
            &proof,
            &[
                (UP, ones(passing)),
                (UP_OPERAND, ones(all)),
                (UP_EXISTS, ones(1)),
            ],
        );
        assert_eq!(
            verdict.truth, expected,
            "{passing} of {all}: {}",
            verdict.detail
        );
    }
    let verdict = judge(
        &proof,
        &[(UP, ones(0)), (UP_OPERAND, ones(0)), (UP_EXISTS, ones(0))],
    );
    assert_eq!(verdict.reason, Some(UnknownReason::NoData));
    let verdict = judge(
        &proof,
        &[
            (UP, ones(1)),
            (UP_OPERAND, vector(&[1.0, f64::NAN])),
            (UP_EXISTS, ones(1)),
        ],
    );
    assert_eq!(verdict.reason, Some(UnknownReason::NotANumber));
}

#[test]
fn a_proof_with_and_needs_both_sides_for_every_series() {
    let expr = "up == 1 and on (gpu) temp < 80";
    let proof = Condition::proof(expr);
    let all = |values: &[(&str, usize)]| -> Answers {
        proof
            .queries()
            .into_iter()
            .map(|query| {
                let count = values
                    .iter()
                    .find(|(name, _)| *name == query)
                    .map_or(8, |(_, count)| *count);
                (query.to_owned(), vector(&vec![1.0; count]))
            })
            .collect()
    };
    assert_eq!(proof.judge(&all(&[])).truth, Truth::True);
    let whole = proof.queries()[0];
    assert_eq!(
        proof.judge(&all(&[(whole, 7)])).truth,
        Truth::False,
        "{:?}",
        proof.queries()
    );
    assert_eq!(
        proof.judge(&all(&[("temp < 80", 7), (whole, 7)])).truth,
        Truth::False
    );
    assert_eq!(
        proof.judge(&all(&[("up == 1", 7), (whole, 7)])).truth,
        Truth::False
    );
}

#[test]
fn absence_and_constants_prove_nothing() {
    for expr in [
        "absent(gpu_lost)",
        "vector(1)",
        "1 == bool 1",
        "hour() > 8",
        "gpu_up == 1 or absent(x)",
    ] {
        let proof = Condition::proof(expr);
        assert!(proof.not_understood().is_some(), "{expr}");
        let answers: Answers = proof
            .queries()
            .into_iter()
            .map(|query| (query.to_owned(), vector(&[1.0])))
            .collect();
        assert_eq!(proof.judge(&answers).truth, Truth::Unknown, "{expr}");
    }
}

#[test]
fn a_bare_value_proves_only_when_no_series_is_0() {
    let proof = Condition::proof("gpu_up");
    let exists = ("count(gpu_up)", vector(&[2.0]));
    assert_eq!(
        judge(&proof, &[("gpu_up", vector(&[1.0, 1.0])), exists.clone()]).truth,
        Truth::True
    );
    assert_eq!(
        judge(&proof, &[("gpu_up", vector(&[1.0, 0.0])), exists]).truth,
        Truth::False
    );
}

fn any_answer() -> impl Strategy<Value = Result<Answer, Unknown>> {
    prop_oneof![
        4 => proptest::collection::vec(
            prop_oneof![4 => Just(1.0), 2 => Just(0.0), 1 => Just(f64::NAN)], 0..4
        ).prop_map(|values| vector(&values)),
        1 => proptest::sample::select(UnknownReason::ALL.to_vec()).prop_map(unknown),
    ]
}

const EXPRESSIONS: [&str; 10] = [
    "x == 1",
    "x < 1",
    "x > bool 1",
    "a / b > 0.5",
    r#"rate(x{code=~"5.."}[1m]) > 1"#,
    "x == 1 and on (n) y == 1",
    "x == 1 unless y",
    "min by (node) (x) == 1",
    "x",
    "rate(x[5m+1m]) > 1",
];

proptest! {
    /// Promise 1 and 8: False and proven True are only ever said when every question has a complete answer with numbers.
    #[test]
    fn nothing_is_concluded_from_missing_knowledge(
        expr in proptest::sample::select(EXPRESSIONS.to_vec()),
        drawn in proptest::collection::vec(any_answer(), 24)
    ) {
        for condition in [Condition::guard(expr), Condition::proof(expr)] {
            let is_proof = matches!(condition.question, Question::Proof(_));
            let answers: Answers = condition
                .queries()
                .into_iter()
                .zip(drawn.iter().cloned())
                .map(|(query, answer)| (query.to_owned(), answer))
                .collect();
            let verdict = condition.judge(&answers);
            // The one question that may fail is the wide one about data, where the narrow one found some.
            let may_fail = |query: &String| {
                let other = condition.existence.iter().chain(&condition.operands);
                condition.data.iter().any(|data| data.wide == *query)
                    && !other.chain(condition.data.iter().map(|data| &data.narrow)).any(|other| other == query)
                    && answers[query].as_ref().is_err_and(|unknown| unknown.reason == UnknownReason::ExecutionFailed)
            };
            let complete = answers.iter().all(|(query, answer)| {
                may_fail(query) || answer.as_ref().is_ok_and(|answer| answer.samples.iter().all(|sample| sample.number().is_some()))
            });
            let exists = condition.existence.iter().all(|query| {
                answers[query].as_ref().is_ok_and(|answer| !answer.samples.is_empty())
            });
            if !complete || !exists || condition.not_understood.is_some() {
                prop_assert!(!verdict.is_false(), "{expr}: {verdict:?}");
                if is_proof {
                    prop_assert!(!verdict.is_true(), "{expr}: {verdict:?}");
                }
            } else if !is_proof && condition.data.iter().any(|data| {
                [&data.narrow, &data.wide].into_iter().all(|query| {
                    answers[query].as_ref().map_or(true, |answer| answer.samples.is_empty())
                })
            }) {
                prop_assert!(!verdict.is_false(), "{expr}: {verdict:?}");
            } else if !is_proof {
                prop_assert!(verdict.truth != Truth::Unknown, "{expr}: {verdict:?}, {answers:?}");
            }
            prop_assert_eq!(verdict.reason.is_some(), verdict.truth == Truth::Unknown);
        }
    }
}
