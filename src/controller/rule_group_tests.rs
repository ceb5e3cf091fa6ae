#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::registry::Registry;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::super::opening::{Judgement, Opening};
use super::*;
use crate::controller::opening::Opened;
use crate::prometheus::client::Options;

#[derive(Default)]
pub(super) struct Recorder {
    opened: Mutex<Vec<Opening>>,
    pub(super) judged: Mutex<Vec<Judgement>>,
    in_vain: Mutex<Vec<String>>,
    down: AtomicBool,
}

impl FaultOpener for Recorder {
    async fn open(&self, opening: Opening) -> Result<Opened, OpenError> {
        if self.down.load(Ordering::SeqCst) {
            return Err(OpenError {
                node: opening.subject.node,
                source: "the API server is down".into(),
            });
        }
        self.opened.lock().unwrap().push(opening);
        Ok(Opened::Created)
    }

    fn node_uid(&self, _: &str) -> Option<String> {
        None
    }

    fn in_vain(&self, _: &RuleRef, reason: &str, _: &str) {
        self.in_vain.lock().unwrap().push(reason.to_owned());
    }

    async fn judged(&self, judgement: Judgement) {
        self.judged.lock().unwrap().push(judgement);
    }
}

pub(super) struct Bench {
    server: MockServer,
    pub(super) surroundings: Surroundings<Recorder>,
    policy: Arc<AtomicBool>,
    registry: Registry,
    pub(super) group: GroupRun,
    pub(super) seconds: i64,
}

pub(super) fn group(expr_labels: &str) -> RuleGroup {
    serde_json::from_value(serde_json::json!({
        "name": "g",
        "rules": [{
            "alert": "GpuDown", "expr": format!("gpu_up{expr_labels} == 0"),
            "annotations": {"summary": "GPU {{ $labels.gpu }} on {{ $labels.node }} is down"},
            "remediation": {"policy": "drain-node"},
        }],
    }))
    .unwrap()
}

pub(super) const INTERVAL: SignedDuration = SignedDuration::from_secs(5);

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

impl Bench {
    pub(super) async fn new() -> Self {
        let server = MockServer::start().await;
        let policy = Arc::new(AtomicBool::new(true));
        let exists = Arc::clone(&policy);
        let mut registry = Registry::default();
        let metrics = RuleMetrics::register(&mut registry);
        let group = GroupRun::new("rule", &group(""), INTERVAL, &[], at(0));
        group
            .metric_labels()
            .for_each(|labels| metrics.start(labels));
        Self {
            surroundings: Surroundings {
                clock: crate::clock::Clock::starting_at(at(0)),
                prometheus: Client::new(Options::new(server.uri())).unwrap(),
                opener: Arc::default(),
                policy_exists: Arc::new(move |name| {
                    name == "drain-node" && exists.load(Ordering::SeqCst)
                }),
                metrics,
            },
            server,
            policy,
            registry,
            group,
            seconds: 0,
        }
    }

    /// One evaluation, five seconds after the one before, with this answer of Prometheus.
    pub(super) async fn evaluate(&mut self, answer: ResponseTemplate) {
        self.server.reset().await;
        Mock::given(path("/api/v1/query"))
            .respond_with(answer)
            .mount(&self.server)
            .await;
        self.seconds += 5;
        self.group
            .evaluate(at(self.seconds), &self.surroundings, &|| true)
            .await;
    }

    pub(super) fn opened(&self) -> Vec<Opening> {
        self.surroundings.opener.opened.lock().unwrap().clone()
    }

    pub(super) fn status(&self) -> RuleStatus {
        self.group.statuses(at(self.seconds)).remove(0)
    }

    /// The reasons for which the rule is shown as degraded.
    fn degraded(&self) -> Vec<String> {
        self.metrics()
            .lines()
            .filter(|line| line.starts_with("gpu_remediator_rule_degraded{"))
            .filter_map(|line| {
                Some(
                    line.split_once("reason=\"")?
                        .1
                        .split_once("\"} 1")?
                        .0
                        .to_owned(),
                )
            })
            .collect()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

pub(super) fn series(metrics: &[&str]) -> ResponseTemplate {
    let result: Vec<_> = metrics
        .iter()
        .map(|metric| format!(r#"{{"metric":{metric},"value":[1700000000,"0"]}}"#))
        .collect();
    ResponseTemplate::new(200).set_body_string(format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#,
        result.join(",")
    ))
}

pub(super) const GPU: &str =
    r#"{"__name__":"gpu_up","node":"a","UUID":"GPU-1","gpu":"3","pci_bus_id":"00000000:3B:00.0"}"#;

#[tokio::test]
async fn a_fault_is_opened_once_for_each_activation() {
    let mut bench = Bench::new().await;
    for _ in 0..3 {
        bench.evaluate(series(&[GPU])).await;
    }
    let opened = bench.opened();
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0].subject.node, "a");
    assert_eq!(opened[0].subject.uuid.as_deref(), Some("GPU-1"));
    assert_eq!(opened[0].message, "GPU 3 on a is down");
    assert_eq!(opened[0].alert.active_at, at(5));
    bench.evaluate(series(&[])).await;
    bench.evaluate(series(&[GPU])).await;
    let opened = bench.opened();
    assert_eq!(opened.len(), 2);
    assert_eq!(opened[1].alert.active_at, at(25));
}

#[tokio::test]
async fn promise_1_no_answer_opens_nothing_and_closes_nothing() {
    let mut bench = Bench::new().await;
    bench
        .evaluate(ResponseTemplate::new(503).set_body_string("starting"))
        .await;
    assert!(bench.opened().is_empty());
    assert_eq!(bench.status().state, RulePhase::Degraded);
    assert_eq!(
        bench.status().reason.as_deref(),
        Some("PrometheusUnavailable")
    );
    assert!(
        bench.metrics().contains("gpu_remediator_prometheus_up 0"),
        "{}",
        bench.metrics()
    );
    bench.evaluate(series(&[GPU])).await;
    bench
        .evaluate(ResponseTemplate::new(200).set_body_string("<html>"))
        .await;
    assert!(
        bench.metrics().contains("gpu_remediator_prometheus_up 0"),
        "a page in HTML is no answer of Prometheus: {}",
        bench.metrics()
    );
    let judged = bench.surroundings.opener.judged.lock().unwrap().clone();
    assert_eq!(
        judged
            .iter()
            .map(|one| (one.known, one.firing.len()))
            .collect::<Vec<_>>(),
        [(false, 0), (true, 1), (false, 1)]
    );
    let metrics = bench.metrics();
    let labels = r#"rule="rule",group="g",alert="GpuDown""#;
    assert!(
        metrics.contains(&format!(
            "gpu_remediator_rule_evaluations_total{{{labels}}} 3"
        )),
        "{metrics}"
    );
    assert!(
        metrics.contains(&format!(
            r#"gpu_remediator_rule_evaluation_failures_total{{{labels},reason="BadAnswer"}} 1"#
        )),
        "{metrics}"
    );
}

#[tokio::test]
async fn an_opening_that_fails_is_tried_again() {
    let mut bench = Bench::new().await;
    bench.surroundings.opener.down.store(true, Ordering::SeqCst);
    bench.evaluate(series(&[GPU])).await;
    assert_eq!(bench.status().reason.as_deref(), Some("OpenFailed"));
    assert_eq!(bench.degraded(), ["OpenFailed"]);
    bench
        .surroundings
        .opener
        .down
        .store(false, Ordering::SeqCst);
    bench.evaluate(series(&[GPU])).await;
    assert_eq!(bench.opened().len(), 1);
    assert_eq!(bench.status().state, RulePhase::Firing);
    assert!(bench.degraded().is_empty());
}

#[tokio::test]
async fn a_missing_policy_opens_nothing_until_it_is_there() {
    let mut bench = Bench::new().await;
    bench.policy.store(false, Ordering::SeqCst);
    bench.evaluate(series(&[GPU])).await;
    assert!(bench.opened().is_empty());
    assert_eq!(bench.status().reason.as_deref(), Some("PolicyNotFound"));
    bench.evaluate(series(&[GPU])).await;
    assert_eq!(bench.degraded(), ["PolicyNotFound"]);
    // Told once, when it begins.
    let told = bench.surroundings.opener.in_vain.lock().unwrap().clone();
    assert_eq!(told, ["PolicyNotFound"]);
    bench.policy.store(true, Ordering::SeqCst);
    bench.evaluate(series(&[GPU])).await;
    assert_eq!(bench.opened().len(), 1);
}

#[tokio::test]
async fn an_alert_without_a_node_acts_on_nobody_and_does_not_hide_the_others() {
    let mut bench = Bench::new().await;
    bench.evaluate(series(&[r#"{"gpu":"1"}"#, GPU])).await;
    assert_eq!(bench.opened().len(), 1);
    assert_eq!(bench.status().reason.as_deref(), Some("NoNodeLabel"));
    assert_eq!(bench.degraded(), ["NoNodeLabel"]);
    for labels in bench.group.metric_labels() {
        bench.surroundings.metrics.stop(labels);
    }
    assert!(bench.degraded().is_empty());
}

/// An exporter that is upgraded names its labels differently from one scrape to the next.
#[tokio::test]
async fn a9_a_renamed_node_label_is_told_and_acts_on_nobody() {
    let mut bench = Bench::new().await;
    bench.evaluate(series(&[])).await;
    assert!(bench.degraded().is_empty());
    for renamed in [
        r#"{"Node":"a","UUID":"GPU-1"}"#,
        r#"{"hostname":"a","gpu":"1"}"#,
        r#"{"node":"","UUID":"GPU-1"}"#,
    ] {
        bench.evaluate(series(&[renamed])).await;
        assert!(bench.opened().is_empty(), "{renamed}");
        assert_eq!(bench.status().state, RulePhase::Degraded, "{renamed}");
        assert_eq!(bench.status().reason.as_deref(), Some("NoNodeLabel"));
        // What the shipped alert GpuRemediatorRuleDegraded looks at.
        assert_eq!(bench.degraded(), ["NoNodeLabel"], "{renamed}");
    }
    let told = bench.surroundings.opener.in_vain.lock().unwrap().clone();
    assert_eq!(told, ["NoNodeLabel"], "an Event, once");
    bench.evaluate(series(&[GPU])).await;
    assert_eq!(bench.opened().len(), 1);
    assert!(bench.degraded().is_empty());
}

#[tokio::test]
async fn promise_6_nothing_is_opened_once_leadership_has_ended() {
    let mut bench = Bench::new().await;
    Mock::given(path("/api/v1/query"))
        .respond_with(series(&[GPU]))
        .mount(&bench.server)
        .await;
    bench
        .group
        .evaluate(at(5), &bench.surroundings, &|| false)
        .await;
    assert!(bench.opened().is_empty());
    bench
        .group
        .evaluate(at(10), &bench.surroundings, &|| true)
        .await;
    assert_eq!(bench.opened().len(), 1);
}

#[tokio::test]
async fn promise_3_another_process_takes_up_the_alerts() {
    let mut bench = Bench::new().await;
    bench.evaluate(series(&[GPU])).await;
    bench.group = GroupRun::new("rule", &group(""), INTERVAL, &[bench.status()], at(8));
    bench.evaluate(series(&[GPU])).await;
    let opened = bench.opened();
    // The new process cannot know whether the fault was opened, and asks again, for the same activation.
    assert_eq!(opened.len(), 2);
    assert_eq!(opened[0].alert.active_at, opened[1].alert.active_at);
}

#[tokio::test]
async fn an_evaluation_that_is_too_old_degrades_the_rule() {
    let mut bench = Bench::new().await;
    bench.evaluate(series(&[])).await;
    let status = bench.group.statuses(at(5 + 31)).remove(0);
    assert_eq!(status.reason.as_deref(), Some("EvaluationTooOld"));
}
