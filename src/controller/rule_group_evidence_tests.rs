//! What is too old, or of a rule that cannot be evaluated, is no evidence.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use wiremock::ResponseTemplate;

use super::tests::{Bench, GPU, INTERVAL, at, group, series};
use super::*;

/// Prometheus was away for longer than alerts are kept firing, and has another view now.
#[tokio::test]
async fn promise_1_a_stale_alert_opens_nothing_and_nothing_is_known_of_it() {
    let mut bench = Bench::new().await;
    let mut group = group("");
    group.rules[0].keep_firing_for = Some("1m".parse().unwrap());
    let run = |before: &[RuleStatus], now| GroupRun::new("rule", &group, INTERVAL, before, now);
    bench.group = run(&[], at(0));
    bench.evaluate(series(&[GPU])).await;
    assert_eq!(bench.opened().len(), 1);
    bench.seconds = 600;
    bench
        .evaluate(ResponseTemplate::new(503).set_body_string("starting"))
        .await;
    // Somebody may have deleted the fault meanwhile, and another process does not know what was opened.
    bench.group = run(&[bench.status()], at(bench.seconds));
    bench.evaluate(series(&[])).await;
    assert_eq!(bench.opened().len(), 1);
    assert_eq!(bench.status().state, RulePhase::Firing);
    let last = |bench: &Bench| {
        bench
            .surroundings
            .opener
            .judged
            .lock()
            .unwrap()
            .last()
            .cloned()
    };
    let judged = last(&bench).unwrap();
    assert!(judged.known && judged.firing.is_empty(), "{judged:?}");
    assert_eq!(judged.stale.len(), 1, "it neither fires nor is silent");
    // The exporter is back under another address: the same GPU, seen now.
    bench
        .evaluate(series(&[&GPU.replace("{", r#"{"instance":"b","#)]))
        .await;
    let opened = bench.opened();
    assert_eq!(opened.len(), 2);
    assert_eq!(opened[0].alert.active_at, opened[1].alert.active_at);
    let judged = last(&bench).unwrap();
    assert!(
        judged.unclear.is_empty() && judged.firing.len() == 1,
        "{judged:?}"
    );
}

/// A template that cannot be expanded is in no schema.
#[tokio::test]
async fn promise_1_of_a_rule_that_was_edited_into_a_mistake_nothing_is_known() {
    let mut bench = Bench::new().await;
    bench.evaluate(series(&[GPU])).await;
    let mut group = group("");
    group.rules[0]
        .annotations
        .insert("summary".into(), "{{ $labels.gpu".into());
    bench.group = GroupRun::new("rule", &group, INTERVAL, &[bench.status()], at(8));
    bench.evaluate(series(&[GPU])).await;
    let judged = bench.surroundings.opener.judged.lock().unwrap().clone();
    let known: Vec<_> = judged.iter().map(|one| one.known).collect();
    assert_eq!(known, [true, false]);
}
