//! Histories written by hand.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod broken;
mod seen;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Answer, Promises, PromisesConfig, Series};
use crate::api::names::CORDON_ANNOTATION;
use crate::guards::condition::Condition;
use crate::sim::api_server::resources::{
    EVENTS, GPU_FAULTS, LEASES, NODES, PODS, REMEDIATION_POLICIES, Resource,
};
use crate::sim::api_server::{Call, Observer, Verb, Write};

const US: &str = "controller-0";

struct History {
    promises: Promises,
    now: Timestamp,
    objects: std::collections::BTreeMap<(&'static str, String), Arc<Value>>,
}

impl History {
    /// A leader, a policy, two nodes, and a GPU pod on the first.
    fn new() -> Self {
        let config = PromisesConfig {
            evidence: true,
            ..PromisesConfig::default()
        };
        let mut history = Self {
            promises: Promises::new(config),
            now: Timestamp::from_second(1_000_000).unwrap(),
            objects: Default::default(),
        };
        history.lease(US);
        history.put("world", REMEDIATION_POLICIES, json!({"metadata": {"name": "p"}, "spec": {
            "guards": {"pauseIf": [{"name": "errors", "expr": "errors > 1"}]},
            "budget": {"maxUnavailable": 1, "maxConcurrent": 1},
            "steps": [{"cordon": {}}, {"evictPods": {}}],
            "recovery": {"healthy": {"expr": "gpu_up{node=\"{{ .node }}\"} == 1", "for": "10s"}, "retention": "1h"}}}));
        for n in ["a", "b"] {
            history.put("world", NODES, node(n, false, None));
        }
        history.put("world", PODS, pod("llm", true));
        history.wait(60);
        history.lease(US);
        history
    }

    fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn lease(&mut self, who: &str) {
        self.put(
            who,
            LEASES,
            json!({
            "metadata": {"name": "gpu-remediator", "namespace": "gpu-remediator"},
            "spec": {"holderIdentity": who, "leaseDurationSeconds": 30}}),
        );
    }

    fn write(
        &mut self,
        actor: &str,
        resource: &'static Resource,
        verb: Verb,
        name: &str,
        subresource: Option<&'static str>,
        after: Option<Value>,
    ) {
        let key = (resource.plural, name.to_owned());
        let after = after.map(Arc::new);
        let before = match &after {
            Some(after) => self.objects.insert(key, after.clone()),
            None => self.objects.remove(&key),
        };
        let namespace =
            [&after, &before].into_iter().flatten().next().unwrap()["metadata"]["namespace"]
                .as_str()
                .map(str::to_owned);
        self.promises.wrote(&Write {
            at: self.now,
            revision: 1,
            actor: actor.into(),
            verb,
            resource,
            namespace,
            name: name.into(),
            subresource,
            before,
            after,
        });
    }

    fn put(&mut self, actor: &str, resource: &'static Resource, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.write(actor, resource, Verb::Update, &name, None, Some(object));
    }

    fn asked(&mut self, query: &str, answer: Answer) {
        self.promises.evidence(self.now, US, query, answer);
    }

    fn guards_pass(&mut self) {
        self.asked("errors > 1", Answer::Sound(vec![]));
        let existing = Condition::guard("errors > 1");
        for query in existing.queries().into_iter().skip(1) {
            self.asked(query, Answer::Sound(vec![series()]));
        }
    }

    fn opened(&mut self) {
        self.asked("lost == 1", Answer::Sound(vec![series()]));
        self.put(US, GPU_FAULTS, fault("f", "a", json!({})));
    }

    /// Admitted, with the attempt of the first step.
    fn admitted(&mut self) {
        self.opened();
        self.put(US, GPU_FAULTS, fault("f", "a", pending()));
        self.guards_pass();
        self.put(
            US,
            GPU_FAULTS,
            fault(
                "f",
                "a",
                processing(json!([attempt(1, "Cordon", "Running")])),
            ),
        );
    }

    fn cordoned(&mut self) {
        self.admitted();
        self.put(US, NODES, node("a", true, Some(mark(true))));
    }

    fn draining(&mut self) {
        self.cordoned();
        let mut evict = attempt(2, "EvictPods", "Running");
        evict["pods"] = json!([{"namespace": "default", "name": "llm", "uid": "uid-llm"}]);
        self.put(
            US,
            GPU_FAULTS,
            fault(
                "f",
                "a",
                processing(json!([attempt(1, "Cordon", "Succeeded"), evict])),
            ),
        );
    }

    fn evict(&mut self, name: &str) {
        let mut after = (*self.objects[&("pods", name.to_owned())]).clone();
        let uid = after["metadata"]["uid"].clone();
        after["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
        let namespace = after["metadata"]["namespace"].as_str().map(str::to_owned);
        self.write(US, PODS, Verb::Create, name, Some("eviction"), Some(after));
        self.call(
            PODS,
            Verb::Create,
            namespace,
            name,
            Some("eviction"),
            201,
            Some(json!({"deleteOptions": {"preconditions": {"uid": uid}}})),
        );
    }

    #[allow(clippy::too_many_arguments)]
    fn call(
        &mut self,
        resource: &'static Resource,
        verb: Verb,
        namespace: Option<String>,
        name: &str,
        subresource: Option<&str>,
        code: u16,
        body: Option<Value>,
    ) {
        self.promises.called(&Call {
            at: self.now,
            actor: US.into(),
            method: String::new(),
            path: String::new(),
            verb,
            resource: Some(resource),
            namespace,
            name: Some(name.into()),
            subresource: subresource.map(str::to_owned),
            dry_run: false,
            code,
            body: body.map(Arc::new),
        });
    }

    fn drained(&mut self) {
        self.draining();
        self.evict("llm");
        self.write("kubelet", PODS, Verb::Delete, "llm", None, None);
        self.steps_done();
    }

    fn steps_done(&mut self) {
        self.put(
            US,
            GPU_FAULTS,
            fault("f", "a", status("Recovering", "ProvingHealth", done())),
        );
    }

    /// Health is asked each second, with this answer in the middle.
    fn proving(&mut self, middle: Answer) {
        for second in 0..=12 {
            self.wait(1);
            let answer = if second == 6 {
                middle.clone()
            } else {
                Answer::Sound(vec![series()])
            };
            self.asked(HEALTH, answer);
        }
        self.lease(US);
    }

    fn gives_back(&mut self) {
        let mut attempts = done();
        attempts
            .as_array_mut()
            .unwrap()
            .push(attempt(3, "Uncordon", "Running"));
        self.put(
            US,
            GPU_FAULTS,
            fault("f", "a", status("Recovering", "HealthProven", attempts)),
        );
        self.put(US, NODES, node("a", false, None));
    }

    /// Which promises were broken.
    fn broken(&self) -> Vec<u8> {
        let mut all: Vec<u8> = self
            .promises
            .violations()
            .iter()
            .map(|v| v.promise)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

const HEALTH: &str = "gpu_up{node=\"a\"} == 1";

fn series() -> Series {
    [("node".to_owned(), "a".to_owned())].into()
}

fn mark(owned: bool) -> Value {
    json!({"owned": owned, "faults": {"f": "uid-f"}})
}

fn node(name: &str, unschedulable: bool, mark: Option<Value>) -> Value {
    let mut node = json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    if unschedulable {
        node["spec"]["unschedulable"] = json!(true);
    }
    if let Some(mark) = mark {
        node["metadata"]["annotations"] = json!({CORDON_ANNOTATION: mark.to_string()});
    }
    node
}

fn pod(name: &str, gpu: bool) -> Value {
    let limits = if gpu {
        json!({"nvidia.com/gpu": "1"})
    } else {
        json!({"cpu": "1"})
    };
    json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"nodeName": "a", "containers": [{"resources": {"limits": limits}}]}})
}

fn fault(name: &str, node: &str, status: Value) -> Value {
    json!({"apiVersion": "gpu-remediator.dev/v1alpha1", "kind": "GpuFault",
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"nodeName": node, "nodeUid": format!("uid-{node}"), "fingerprint": format!("print-{node}"), "policyRef": {"name": "p"},
            "evidence": {"query": "lost == 1", "value": "1", "labels": {"node": "a"}, "sampleTime": "2001-01-01T00:00:00Z"}},
        "status": status})
}

fn attempt(number: u32, action: &str, outcome: &str) -> Value {
    json!({"number": number, "round": 1, "action": action, "step": number - 1, "startedAt": "2001-01-01T00:00:00Z", "outcome": outcome})
}

fn done() -> Value {
    json!([
        attempt(1, "Cordon", "Succeeded"),
        attempt(2, "EvictPods", "Succeeded")
    ])
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2001-01-01T00:00:00Z"})
}

fn status(phase: &str, reason: &str, attempts: Value) -> Value {
    json!({"phase": phase, "reason": reason, "occurrence": 1, "round": 1, "attempts": attempts,
        "isolation": {"cordonOwned": true, "cordonedAt": "2001-01-01T00:00:00Z"},
        "plan": [{"cordon": {}}, {"evictPods": {}}], "conditions": [condition("Admitted", "True", "Admitted")]})
}

fn pending() -> Value {
    json!({"phase": "Pending", "reason": "New", "occurrence": 1, "round": 1, "conditions": [condition("Admitted", "False", "New")]})
}

fn processing(attempts: Value) -> Value {
    let mut all = status("Processing", "Admitted", attempts);
    all.as_object_mut().unwrap().remove("isolation");
    all
}
