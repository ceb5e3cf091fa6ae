#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::rules::answer::ResultType;

const INTERVAL: SignedDuration = SignedDuration::from_secs(10);

fn rule(hold: &str, keep: &str) -> Rule {
    serde_json::from_value(serde_json::json!({
        "alert": "A", "expr": "x", "for": hold, "keep_firing_for": keep,
        "labels": {"severity": "critical"}, "remediation": {"policy": "p"},
    }))
    .unwrap()
}

fn state_with(hold: &str, keep: &str, limit: Option<u32>) -> RuleState {
    let group = RuleGroup {
        name: "g".into(),
        limit,
        ..RuleGroup::default()
    };
    RuleState::new(&group, &rule(hold, keep), INTERVAL).unwrap()
}

fn state(hold: &str, keep: &str) -> RuleState {
    state_with(hold, keep, None)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn answer(values: &[(&str, f64)]) -> Result<Answer, Unknown> {
    Ok(Answer {
        result_type: ResultType::Vector,
        samples: values
            .iter()
            .map(|(node, value)| Sample {
                labels: [
                    ("node".to_owned(), (*node).to_owned()),
                    ("__name__".to_owned(), "x".to_owned()),
                ]
                .into(),
                value: SampleValue::Float(*value),
                at: at(0),
            })
            .collect(),
        infos: Vec::new(),
    })
}

fn error() -> Result<Answer, Unknown> {
    Err(Unknown::new(UnknownReason::TimedOut, "after 10 s"))
}

fn nodes(alerts: &[Alert]) -> Vec<&str> {
    alerts
        .iter()
        .map(|alert| alert.labels["node"].as_str())
        .collect()
}

#[test]
fn fires_at_once_without_for_and_is_identified_by_its_labels() {
    let mut state = state("0s", "0s");
    let evaluation = state.evaluate(at(0), &answer(&[("a", 1.0)]));
    let labels = &evaluation.newly_firing[0].labels;
    assert_eq!(
        labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect::<Vec<_>>(),
        ["alertname=A", "node=a", "severity=critical"]
    );
    let again = state.evaluate(at(10), &answer(&[("a", 2.0)]));
    assert!(again.newly_firing.is_empty());
    assert_eq!(again.firing[0].active_at, at(0));
    assert_eq!(again.firing[0].value, 2.0);
    let gone = state.evaluate(at(20), &answer(&[]));
    assert_eq!(nodes(&gone.resolved), ["a"]);
    assert_eq!(state.status().state, RulePhase::Inactive);
}

#[test]
fn for_counts_on_evaluation_timestamps_and_one_missing_sample_resets_it() {
    let mut state = state("20s", "0s");
    assert!(
        state
            .evaluate(at(0), &answer(&[("a", 1.0)]))
            .firing
            .is_empty()
    );
    assert!(
        state
            .evaluate(at(10), &answer(&[("a", 1.0)]))
            .firing
            .is_empty()
    );
    state.evaluate(at(15), &answer(&[]));
    assert!(
        state
            .evaluate(at(20), &answer(&[("a", 1.0)]))
            .firing
            .is_empty()
    );
    assert!(
        state
            .evaluate(at(30), &answer(&[("a", 1.0)]))
            .firing
            .is_empty()
    );
    assert_eq!(
        nodes(&state.evaluate(at(40), &answer(&[("a", 1.0)])).newly_firing),
        ["a"]
    );
}

#[test]
fn promise_1_an_error_neither_advances_nor_resolves() {
    let mut state = state("20s", "0s");
    state.evaluate(at(0), &answer(&[("a", 1.0)]));
    let during = state.evaluate(at(20), &error());
    assert!(during.newly_firing.is_empty() && during.resolved.is_empty());
    assert_eq!(state.status().state, RulePhase::Degraded);
    assert_eq!(state.status().reason.as_deref(), Some("QueryTimedOut"));
    let after = state.evaluate(at(25), &answer(&[("a", 1.0)]));
    assert_eq!(nodes(&after.newly_firing), ["a"]);
    let firing = state.evaluate(at(30), &error());
    assert_eq!(nodes(&firing.firing), ["a"]);
    assert!(firing.resolved.is_empty() && firing.error.is_some());
}

#[test]
fn promise_1_a_long_outage_is_no_evidence_for_a_pending_alert() {
    let mut state = state("60s", "0s");
    state.evaluate(at(0), &answer(&[("a", 1.0)]));
    for seconds in (10..300).step_by(10) {
        state.evaluate(at(seconds), &error());
    }
    assert!(
        state
            .evaluate(at(300), &answer(&[("a", 1.0)]))
            .firing
            .is_empty()
    );
    assert_eq!(state.status().active[0].active_at, Some(MicroTime(at(300))));
}

#[test]
fn promise_1_nan_and_histograms_neither_open_nor_close() {
    let mut state = state("0s", "0s");
    let evaluation = state.evaluate(at(0), &answer(&[("a", f64::NAN)]));
    assert!(evaluation.firing.is_empty());
    assert_eq!(evaluation.unclear.len(), 1);
    state.evaluate(at(10), &answer(&[("a", 1.0)]));
    let evaluation = state.evaluate(at(20), &answer(&[("a", f64::NAN)]));
    assert_eq!(nodes(&evaluation.firing), ["a"]);
    let mut histogram = answer(&[("a", 1.0)]).unwrap();
    histogram.samples[0].value = SampleValue::Histogram;
    let evaluation = state.evaluate(at(30), &Ok(histogram));
    assert_eq!(nodes(&evaluation.firing), ["a"]);
    assert_eq!(evaluation.unclear.len(), 1);
}

#[test]
fn keep_firing_for_starts_when_the_series_is_first_missing() {
    let mut state = state("0s", "30s");
    state.evaluate(at(0), &answer(&[("a", 1.0)]));
    assert_eq!(nodes(&state.evaluate(at(100), &answer(&[])).firing), ["a"]);
    assert_eq!(nodes(&state.evaluate(at(120), &answer(&[])).firing), ["a"]);
    assert_eq!(
        nodes(&state.evaluate(at(125), &answer(&[("a", 1.0)])).firing),
        ["a"]
    );
    assert_eq!(nodes(&state.evaluate(at(130), &answer(&[])).firing), ["a"]);
    assert_eq!(
        nodes(&state.evaluate(at(160), &answer(&[])).resolved),
        ["a"]
    );
}

#[test]
fn duplicate_label_sets_are_an_error_that_changes_nothing() {
    let mut state = state("0s", "0s");
    state.evaluate(at(0), &answer(&[("b", 1.0)]));
    let evaluation = state.evaluate(at(10), &answer(&[("a", 1.0), ("a", 2.0)]));
    assert_eq!(
        evaluation.error.unwrap().reason,
        UnknownReason::DuplicateLabelSet
    );
    assert_eq!(nodes(&evaluation.firing), ["b"]);
}

#[test]
fn exceeding_the_limit_freezes_the_new_and_keeps_the_old() {
    let mut state = state_with("0s", "0s", Some(2));
    state.evaluate(at(0), &answer(&[("a", 1.0)]));
    let evaluation = state.evaluate(at(10), &answer(&[("b", 1.0), ("c", 1.0), ("d", 1.0)]));
    assert_eq!(
        evaluation.error.unwrap().reason,
        UnknownReason::LimitExceeded
    );
    assert!(evaluation.newly_firing.is_empty() && evaluation.resolved.is_empty());
    assert_eq!(nodes(&evaluation.firing), ["a"]);
    let evaluation = state.evaluate(at(20), &answer(&[("a", 1.0), ("b", 1.0)]));
    assert_eq!(nodes(&evaluation.newly_firing), ["b"]);
}

#[test]
fn a_restart_keeps_for_and_keep_firing_for() {
    let mut first = state("60s", "60s");
    first.evaluate(at(0), &answer(&[("a", 1.0)]));
    first.evaluate(at(30), &answer(&[("a", 1.0)]));
    let mut second = state("60s", "60s").restored(&first.status(), at(55));
    let evaluation = second.evaluate(at(60), &answer(&[("a", 1.0)]));
    assert_eq!(nodes(&evaluation.newly_firing), ["a"]);
    assert_eq!(evaluation.newly_firing[0].active_at, at(0));
    second.evaluate(at(70), &answer(&[]));
    let mut third = state("60s", "60s").restored(&second.status(), at(5000));
    assert_eq!(
        third.evaluate(at(100), &answer(&[])).firing[0].active_at,
        at(0)
    );
    assert_eq!(
        nodes(&third.evaluate(at(130), &answer(&[])).resolved),
        ["a"]
    );
}

#[test]
fn a_pending_alert_that_was_not_seen_recently_begins_anew_after_a_restart() {
    let mut first = state("60s", "0s");
    first.evaluate(at(0), &answer(&[("a", 1.0)]));
    let mut second = state("60s", "0s").restored(&first.status(), at(31));
    assert!(
        second
            .evaluate(at(70), &answer(&[("a", 1.0)]))
            .firing
            .is_empty()
    );
}

#[test]
fn a_rule_whose_labels_changed_does_not_take_up_the_old_alerts() {
    let mut first = state("0s", "0s");
    first.evaluate(at(0), &answer(&[("a", 1.0)]));
    let mut changed = rule("0s", "0s");
    changed.labels.insert("severity".into(), "warning".into());
    let group = RuleGroup {
        name: "g".into(),
        ..RuleGroup::default()
    };
    let second = RuleState::new(&group, &changed, INTERVAL)
        .unwrap()
        .restored(&first.status(), at(1));
    assert!(second.firing(at(0)).is_empty());
}

#[test]
fn a_clock_that_was_set_back_a_little_does_not_undo_what_was_counted() {
    let mut state = state("20s", "0s");
    state.evaluate(at(100), &answer(&[("a", 1.0)]));
    state.evaluate(at(70), &answer(&[("a", 1.0)]));
    assert_eq!(
        nodes(&state.evaluate(at(120), &answer(&[("a", 1.0)])).newly_firing),
        ["a"]
    );
}

#[test]
fn an_earlier_process_whose_clock_was_ahead_does_not_stop_the_counting() {
    let mut first = state("20s", "0s");
    first.evaluate(at(10_000), &answer(&[("a", 1.0)]));
    let mut second = state("20s", "0s").restored(&first.status(), at(0));
    second.evaluate(at(10), &answer(&[("a", 1.0)]));
    let evaluation = second.evaluate(at(20), &answer(&[("a", 1.0)]));
    assert_eq!(nodes(&evaluation.newly_firing), ["a"]);
}

#[test]
fn what_was_seen_longer_ago_than_it_is_kept_is_stale_until_it_is_seen_again() {
    let seen = || answer(&[("a", 1.0)]);
    let stale = |evaluation: &Evaluation| {
        let firing = evaluation.firing.iter();
        firing.map(|alert| alert.stale).collect::<Vec<_>>()
    };
    // Kept for a minute, and three intervals are no gap.
    let mut long_ago = state("0s", "60s");
    assert_eq!(stale(&long_ago.evaluate(at(0), &seen())), [false]);
    assert_eq!(stale(&long_ago.evaluate(at(90), &error())), [false]);
    assert_eq!(stale(&long_ago.evaluate(at(600), &error())), [true]);
    let mut another = state("0s", "60s").restored(&long_ago.status(), at(605));
    for state in [&mut long_ago, &mut another] {
        assert_eq!(stale(&state.evaluate(at(610), &answer(&[]))), [true]);
        assert_eq!(stale(&state.evaluate(at(669), &answer(&[]))), [true]);
        assert_eq!(stale(&state.evaluate(at(669), &seen())), [false]);
        assert_eq!(stale(&state.evaluate(at(680), &answer(&[]))), [false]);
    }
    // A value that is no number is no news either.
    let nan = || answer(&[("a", f64::NAN)]);
    assert_eq!(stale(&long_ago.evaluate(at(690), &nan())), [false]);
    assert_eq!(stale(&long_ago.evaluate(at(760), &nan())), [true]);
}

#[test]
fn a_clock_that_was_hours_ahead_does_not_stop_the_counting() {
    let mut state = state("20s", "60s");
    state.evaluate(at(7200), &answer(&[("a", 1.0), ("b", 1.0)]));
    state.evaluate(at(7220), &answer(&[("a", 1.0)]));
    assert_eq!(nodes(&state.evaluate(at(0), &error()).firing), ["a"]);
    state.evaluate(at(10), &answer(&[("a", 1.0), ("b", 1.0)]));
    let both = state.evaluate(at(30), &answer(&[("b", 1.0)]));
    assert_eq!(nodes(&both.newly_firing), ["b"]);
    assert_eq!(nodes(&both.firing), ["a", "b"]);
    assert!(
        both.firing.iter().all(|alert| !alert.stale),
        "both were seen since"
    );
    let ended = state.evaluate(at(90), &answer(&[("b", 1.0)]));
    assert_eq!(nodes(&ended.resolved), ["a"]);
}

/// Its clock was two hours ahead when the series was seen, and right when there was an answer again.
#[test]
fn what_was_seen_in_a_time_to_come_is_stale() {
    let mut state = state("0s", "60s");
    state.evaluate(at(7200), &answer(&[("a", 1.0)]));
    let missing = state.evaluate(at(6500), &answer(&[]));
    assert!(missing.firing[0].stale && missing.firing[0].sample_time < at(6500));
    let seen = state.evaluate(at(6510), &answer(&[("a", 1.0)]));
    assert!(!seen.firing[0].stale);
}

#[test]
fn no_time_of_an_earlier_process_is_one_to_come() {
    let mut first = state("0s", "60s");
    first.evaluate(at(10_000), &answer(&[("a", 1.0)]));
    first.evaluate(at(10_010), &answer(&[]));
    let mut second = state("0s", "60s").restored(&first.status(), at(0));
    let taken_up = second.firing(at(0));
    assert!(taken_up[0].stale, "nobody knows how long ago it was seen");
    let ended = second.evaluate(at(60), &answer(&[]));
    assert_eq!(nodes(&ended.resolved), ["a"]);
}

proptest! {
    /// Whatever the answers: an alert fires only after it was seen, with a number, for the whole of `for`; errors change
    /// nothing; and going through the status form at any evaluation makes no difference.
    #[test]
    fn for_is_honoured_and_a_restart_is_invisible(
        answers in proptest::collection::vec(0_u8..4, 1..40), restart in 0_usize..40
    ) {
        let mut plain = state("30s", "20s");
        let mut restarted = state("30s", "20s");
        let mut present_since: Option<Timestamp> = None;
        let mut last_present: Option<Timestamp> = None;
        for (tick, kind) in answers.iter().enumerate() {
            let now = at(i64::try_from(tick).unwrap() * 10);
            let answer = match kind {
                0 | 1 => answer(&[("a", 1.0)]),
                2 => answer(&[]),
                _ => error(),
            };
            match kind {
                0 | 1 => { present_since.get_or_insert(now); }
                2 => present_since = None,
                _ => {}
            }
            if matches!(kind, 0 | 1) {
                last_present = Some(now);
            }
            if tick == restart {
                restarted = state("30s", "20s").restored(&restarted.status(), now);
            }
            let before = plain.firing(now).len();
            let evaluation = plain.evaluate(now, &answer);
            if *kind == 3 {
                prop_assert_eq!(evaluation.firing.len(), before);
                prop_assert!(evaluation.newly_firing.is_empty() && evaluation.resolved.is_empty());
            }
            for alert in &evaluation.newly_firing {
                let since = present_since.unwrap();
                prop_assert!(now.duration_since(since) >= SignedDuration::from_secs(30));
                prop_assert!(alert.active_at >= since);
            }
            let other = restarted.evaluate(now, &answer);
            for alert in &evaluation.firing {
                let kept = SignedDuration::from_secs(20 + 30);
                prop_assert_eq!(alert.stale, now.duration_since(last_present.unwrap()) > kept);
            }
            let times = |alerts: &[Alert]| alerts.iter().map(|alert| alert.active_at).collect::<Vec<_>>();
            prop_assert_eq!(times(&other.firing), times(&evaluation.firing));
            let stale = |alerts: &[Alert]| alerts.iter().map(|alert| alert.stale).collect::<Vec<_>>();
            prop_assert_eq!(stale(&other.firing), stale(&evaluation.firing));
        }
    }
}
