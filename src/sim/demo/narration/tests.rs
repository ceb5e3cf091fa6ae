#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::sim::api_server::Resource;
use crate::sim::demo::history::Event;
use crate::sim::demo::teller::line;

/// The server's account of a fixed history.
struct Account {
    at: Timestamp,
    text: String,
}

impl Account {
    fn new() -> Self {
        Self {
            at: start(),
            text: String::new(),
        }
    }

    fn tell(&mut self, happenings: impl IntoIterator<Item = Happening>) {
        for happening in happenings {
            let event = Event {
                at: self.at,
                happening,
            };
            let line = line(&event, Some(start()));
            self.text
                .push_str(&anstream::adapter::strip_str(&line).to_string());
        }
    }

    fn write(
        &mut self,
        millis: i64,
        resource: &'static Resource,
        (namespace, name): (Option<&str>, &str),
        before: Option<Value>,
        after: Option<Value>,
    ) {
        self.at = start() + jiff::SignedDuration::from_millis(millis);
        let write = Write {
            at: self.at,
            revision: 1,
            actor: Arc::from("gpu-remediator-a"),
            verb: Verb::Update,
            resource,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            subresource: None,
            before: before.map(Arc::new),
            after: after.map(Arc::new),
        };
        self.tell(of_write(&write));
    }

    fn evict(&mut self, millis: i64, code: u16, dry_run: bool) {
        self.at = start() + jiff::SignedDuration::from_millis(millis);
        let call = Call {
            at: self.at,
            actor: Arc::from("gpu-remediator-a"),
            method: "POST".into(),
            path: "/api/v1/namespaces/inference/pods/llm-1/eviction".into(),
            verb: Verb::Create,
            resource: Some(PODS),
            namespace: Some("inference".into()),
            name: Some("llm-1".into()),
            subresource: Some("eviction".into()),
            dry_run,
            code,
            body: Some(Arc::new(
                json!({"deleteOptions": {"preconditions": {"uid": "u-1"}}}),
            )),
        };
        self.tell(of_call(&call));
    }
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn fault(phase: &str, reason: &str, message: &str) -> Value {
    json!({
        "metadata": {"name": "gpu-1-fell"},
        "spec": {"nodeName": "gpu-1", "policyRef": {"name": "drain-node"}, "message": "GPU 3 on gpu-1 fell off the bus"},
        "status": {"phase": phase, "reason": reason, "message": message, "occurrence": 1, "round": 1, "timeline": {}},
    })
}

fn attempt(number: u32, action: &str) -> Value {
    json!({"number": number, "round": 1, "action": action, "startedAt": "2026-01-01T00:00:01Z", "outcome": "Running",
           "pods": [{"namespace": "inference", "name": "llm-1", "uid": "u-1"}]})
}

fn pod(node: Option<&str>, ready: bool) -> Value {
    json!({
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

#[test]
fn a_fixed_history_is_told_in_these_words() {
    let mut account = Account::new();
    let in_inference = |name| (Some("inference"), name);
    account.tell([Happening::KernelLogged {
        node: "gpu-1".into(),
        line: "NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus.".into(),
    }]);
    let mut seen = fault("Pending", "", "");
    seen.as_object_mut().unwrap().remove("status");
    account.write(
        1_200,
        GPU_FAULTS,
        (None, "gpu-1-fell"),
        None,
        Some(seen.clone()),
    );
    let mut admitted = fault(
        "Processing",
        "Admitted",
        "Guards and budget allow it to act",
    );
    admitted["status"]["attempts"] = json!([attempt(1, "Cordon")]);
    account.write(
        1_200,
        GPU_FAULTS,
        (None, "gpu-1-fell"),
        Some(seen),
        Some(admitted.clone()),
    );
    account.write(
        1_210,
        NODES,
        (None, "gpu-1"),
        Some(json!({"spec": {}})),
        Some(json!({"spec": {"unschedulable": true}})),
    );
    let mut evicting = fault(
        "Processing",
        "Evicting",
        "1 GPU pods are left: inference/llm-1",
    );
    evicting["status"]["attempts"] = json!([attempt(1, "Cordon"), attempt(2, "EvictPods")]);
    account.write(
        1_220,
        GPU_FAULTS,
        (None, "gpu-1-fell"),
        Some(admitted),
        Some(evicting.clone()),
    );
    account.evict(1_230, 429, false);
    account.evict(6_230, 201, false);
    account.write(
        6_300,
        PODS,
        in_inference("llm-2"),
        None,
        Some(pod(None, false)),
    );
    account.write(
        6_310,
        PODS,
        in_inference("llm-2"),
        Some(pod(None, false)),
        Some(pod(Some("gpu-2"), false)),
    );
    account.write(
        20_000,
        PODS,
        in_inference("llm-2"),
        Some(pod(Some("gpu-2"), false)),
        Some(pod(Some("gpu-2"), true)),
    );
    account.write(
        36_230,
        PODS,
        in_inference("llm-1"),
        Some(pod(Some("gpu-1"), true)),
        None,
    );
    let mut moved = evicting.clone();
    moved["status"]["displacedPods"] = json!([{
        "pod": {"namespace": "inference", "name": "llm-1", "uid": "u-1"}, "outcome": "Rescheduled",
        "evictedAt": "2026-01-01T00:00:06Z",
        "replacement": {"name": "llm-2", "uid": "u-2", "node": "gpu-2", "readyAt": "2026-01-01T00:00:20Z"},
    }]);
    account.write(
        36_300,
        GPU_FAULTS,
        (None, "gpu-1-fell"),
        Some(evicting),
        Some(moved),
    );
    account.write(
        700_000,
        NODES,
        (None, "gpu-1"),
        Some(json!({"spec": {"unschedulable": true}})),
        Some(json!({"spec": {}})),
    );
    let recovering = fault(
        "Recovering",
        "HealthProven",
        "Health has been proven for 5m",
    );
    let recovered = fault(
        "Recovered",
        "Recovered",
        "Health is proven and the node is back",
    );
    account.write(
        700_010,
        GPU_FAULTS,
        (None, "gpu-1-fell"),
        Some(recovering),
        Some(recovered),
    );
    insta::assert_snapshot!(account.text);
}

#[test]
fn what_is_no_news_is_not_told() {
    let mut account = Account::new();
    account.evict(0, 201, true);
    let held = |detail: &str| fault("Pending", "PausedByGuard", detail);
    account.write(
        0,
        GPU_FAULTS,
        (None, "f"),
        Some(held("0.061 > 0.05")),
        Some(held("0.062 > 0.05")),
    );
    let cpu = json!({"spec": {"nodeName": "gpu-1", "containers": [{"resources": {"limits": {"cpu": "1"}}}]}});
    account.write(0, PODS, (Some("web"), "shop"), Some(cpu), None);
    account.write(
        0,
        PODS,
        (Some("inference"), "llm-3"),
        Some(pod(None, false)),
        None,
    );
    assert_eq!(account.text, "");
}

#[test]
fn a_proof_that_makes_progress_is_told() {
    let mut account = Account::new();
    let verifying = |message: &str| fault("Processing", "Verifying", message);
    account.write(
        0,
        GPU_FAULTS,
        (None, "f"),
        Some(verifying("does not hold")),
        Some(verifying("holds")),
    );
    assert_eq!(
        account.text,
        "   +0.00s  fault       Processing, Verifying: holds\n"
    );
}

#[test]
fn leaders_and_latches() {
    let lease = |holder: &str| json!({"spec": {"holderIdentity": holder}});
    let policy = |by: Option<&str>| json!({"status": {"stoppedBy": by}});
    let mut account = Account::new();
    account.write(
        0,
        LEASES,
        (Some("x"), "l"),
        Some(lease("a")),
        Some(lease("b")),
    );
    account.write(
        0,
        LEASES,
        (Some("x"), "l"),
        Some(lease("b")),
        Some(lease("b")),
    );
    account.write(
        0,
        LEASES,
        (Some("x"), "l"),
        Some(lease("b")),
        Some(lease("")),
    );
    account.write(
        0,
        REMEDIATION_POLICIES,
        (None, "p"),
        Some(policy(None)),
        Some(policy(Some("floor"))),
    );
    account.write(
        0,
        REMEDIATION_POLICIES,
        (None, "p"),
        Some(policy(Some("floor"))),
        Some(policy(None)),
    );
    let mut lines = String::new();
    for line in account.text.lines() {
        writeln!(lines, "{}", line.trim_start()).unwrap();
    }
    insta::assert_snapshot!(lines, @r#"
    +0.00s  leader      b holds the lease
    +0.00s  leader      nobody holds the lease
    +0.00s  policy      p is stopped by guard "floor" until a person resumes it
    +0.00s  policy      p is resumed
    "#);
}
