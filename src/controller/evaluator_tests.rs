#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Mutex as StdMutex;

use kube::runtime::reflector;
use kube::runtime::watcher::Event;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use wiremock::matchers::{body_string_contains, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::controller::opening::{Judgement, OpenError, Opened, Opening};
use crate::controller::rule_metrics::RuleMetrics;
use crate::prometheus::client::{Client as Prometheus, Options};

#[derive(Default)]
struct Recorder(StdMutex<Vec<Opening>>);

impl FaultOpener for Recorder {
    async fn open(&self, opening: Opening) -> Result<Opened, OpenError> {
        self.0.lock().unwrap().push(opening);
        Ok(Opened::Created)
    }

    fn node_uid(&self, _: &str) -> Option<String> {
        None
    }

    fn in_vain(&self, _: &crate::api::fault::RuleRef, _: &str, _: &str) {}

    async fn judged(&self, _: Judgement) {}
}

fn object(generation: i64, expr: &str) -> GpuFaultRule {
    serde_json::from_value(json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1", "kind": "GpuFaultRule",
        "metadata": {"name": "r", "uid": "u1", "generation": generation},
        "spec": {"groups": [{"name": "g", "interval": "50ms", "rules": [
            {"alert": "A", "expr": expr, "remediation": {"policy": "p"}},
        ]}]},
    }))
    .unwrap()
}

/// Waits until the question has an answer; the test fails after ten seconds without one.
async fn eventually<T>(mut question: impl AsyncFnMut() -> Option<T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("it did not happen")
}

async fn statuses(api_server: &MockServer) -> Vec<Value> {
    let requests = api_server.received_requests().await.unwrap();
    requests
        .iter()
        .map(|request| serde_json::from_slice::<Value>(&request.body).unwrap())
        .collect()
}

#[tokio::test]
async fn follows_the_objects_and_writes_their_status() {
    let prometheus = MockServer::start().await;
    let answer = |node: &str| {
        ResponseTemplate::new(200).set_body_string(format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{"node":"{node}"}},"value":[1700000000,"1"]}}]}}}}"#
        ))
    };
    Mock::given(body_string_contains("query=first"))
        .respond_with(answer("a"))
        .mount(&prometheus)
        .await;
    Mock::given(body_string_contains("query=second"))
        .respond_with(answer("b"))
        .mount(&prometheus)
        .await;
    let api_server = MockServer::start().await;
    Mock::given(method("PATCH"))
        .and(path(
            "/apis/gpu-remediator.dev/v1alpha1/gpufaultrules/r/status",
        ))
        .and(query_param("fieldManager", "gpu-remediator-rules"))
        .respond_with(ResponseTemplate::new(200).set_body_json(object(1, "first")))
        .mount(&api_server)
        .await;
    let (rules, mut writer) = reflector::store();
    writer.apply_watcher_event(&Event::Apply(object(1, "first")));
    let opener = Arc::new(Recorder::default());
    // The provider must be there before the client is made.
    let prometheus = Prometheus::new(Options::new(prometheus.uri())).unwrap();
    let client =
        kube::Client::try_from(kube::Config::new(api_server.uri().parse().unwrap())).unwrap();
    let changed = Arc::new(tokio::sync::Notify::new());
    let evaluator = Evaluator {
        rules,
        changed: Arc::clone(&changed),
        client,
        surroundings: Arc::new(Surroundings {
            clock: crate::clock::Clock::system(),
            prometheus,
            opener: Arc::clone(&opener),
            policy_exists: Arc::new(|_| true),
            metrics: RuleMetrics::register(&mut Registry::default()),
        }),
        default_interval: Duration::from_secs(15),
    };
    let cancel = CancellationToken::new();
    let task = tokio::spawn(evaluator.run(cancel.clone()));
    let opened = async |count: usize| {
        eventually(async || Some(opener.0.lock().unwrap().clone()).filter(|all| all.len() == count))
            .await
    };
    assert_eq!(opened(1).await[0].subject.node, "a");
    let status = eventually(async || {
        statuses(&api_server)
            .await
            .into_iter()
            .find(|patch| patch["status"]["rules"][0]["state"] == "Firing")
    })
    .await;
    assert_eq!(status["status"]["conditions"][0]["status"], "True");
    assert_eq!(
        status["status"]["rules"][0]["active"][0]["labels"]["node"],
        "a"
    );

    writer.apply_watcher_event(&Event::Apply(object(2, "second")));
    changed.notify_one();
    assert_eq!(opened(2).await[1].subject.node, "b");
    eventually(async || {
        statuses(&api_server)
            .await
            .into_iter()
            .find(|patch| patch["status"]["observedGeneration"] == 2)
    })
    .await;

    writer.apply_watcher_event(&Event::Delete(object(2, "second")));
    cancel.cancel();
    tokio::time::timeout(Duration::from_secs(10), task)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_status_is_written_only_when_it_says_something_new() {
    let api_server = MockServer::start().await;
    Mock::given(method("PATCH"))
        .respond_with(ResponseTemplate::new(200).set_body_json(object(1, "x")))
        .mount(&api_server)
        .await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client =
        kube::Client::try_from(kube::Config::new(api_server.uri().parse().unwrap())).unwrap();
    let mut writer = StatusWriter::new(client, &object(1, "x"));
    let at = |seconds: i64| Timestamp::from_second(1_700_000_000 + seconds).unwrap();
    let state = |seconds: i64, pending: bool| -> Vec<RuleStatus> {
        let seen = at(seconds).to_string();
        let active = if pending {
            json!([{"labels": {"node": "a"}, "state": "Pending", "activeAt": at(0).to_string(), "lastSeen": seen}])
        } else {
            json!([])
        };
        vec![
            serde_json::from_value(json!({
                "group": "g", "alert": "A", "state": if pending { "Pending" } else { "Inactive" },
                "seriesSeen": seconds, "lastEvaluation": seen, "active": active,
            }))
            .unwrap(),
        ]
    };
    let mut writes = Vec::new();
    for (seconds, pending) in [
        (1, false),
        (2, false),
        (60, false),
        (61, false),
        (62, true),
        (63, true),
        (72, true),
    ] {
        writer
            .write(state(seconds, pending), at(seconds))
            .await
            .unwrap();
        writes.push(statuses(&api_server).await.len());
    }
    assert_eq!(writes, [1, 1, 1, 2, 3, 3, 4]);
}
