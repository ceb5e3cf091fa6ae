//! Histories written by hand: for each promise one that breaks it, and one that does not.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Answer, Promises, PromisesConfig, Series};
use crate::api::names::CORDON_ANNOTATION;
use crate::guards::condition::Condition;
use crate::sim::api_server::resources::{
    GPU_FAULTS, LEASES, NODES, PODS, REMEDIATION_POLICIES, Resource,
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

#[test]
fn a_whole_recovery_breaks_nothing() {
    let mut h = History::new();
    h.drained();
    h.proving(Answer::Sound(vec![series()]));
    h.gives_back();
    let mut ended = status("Recovered", "Recovered", done());
    ended["conditions"] = json!([condition("Succeeded", "True", "Recovered")]);
    h.put(US, GPU_FAULTS, fault("f", "a", ended));
    assert_eq!(h.promises.violations(), []);
    assert_eq!(h.promises.settled(h.now), []);
    assert!(h.promises.checked() > 30);
}

#[test]
fn promise_1_a_fault_needs_a_sound_answer() {
    let mut h = History::new();
    h.asked("lost == 1", Answer::Unsound);
    h.put(US, GPU_FAULTS, fault("f", "a", json!({})));
    assert_eq!(h.broken(), [1]);
}

#[test]
fn promise_1_an_unsound_answer_interrupts_a_proof() {
    for middle in [Answer::Unsound, Answer::Sound(vec![])] {
        let mut h = History::new();
        h.drained();
        h.proving(middle);
        h.gives_back();
        assert_eq!(h.broken(), [1]);
    }
}

#[test]
fn promise_1_what_is_broken_does_not_recover() {
    let mut h = History::new();
    h.promises.hardware(h.now, "a", "0", false);
    h.wait(60);
    h.lease(US);
    h.drained();
    h.proving(Answer::Sound(vec![series()]));
    h.gives_back();
    assert_eq!(h.broken(), [1]);
}

#[test]
fn promise_2_a_second_object_of_the_same_fault() {
    let mut h = History::new();
    h.opened();
    h.put(US, GPU_FAULTS, fault("g", "a", json!({})));
    assert_eq!(h.broken(), [2]);
}

#[test]
fn promise_3_the_same_pod_again_and_again() {
    let mut h = History::new();
    h.draining();
    for _ in 0..3 {
        h.evict("llm");
    }
    assert!(h.broken().is_empty(), "{:?}", h.promises.violations());
    h.evict("llm");
    assert_eq!(h.broken(), [3]);
}

#[test]
fn promise_3_a_mark_without_its_fault() {
    let mut h = History::new();
    h.cordoned();
    h.write(US, GPU_FAULTS, Verb::Patch, "f", None, None);
    assert_eq!(h.promises.settled(h.now)[0].promise, 3);
}

#[test]
fn promise_4_a_cordon_without_its_attempt() {
    let mut h = History::new();
    h.opened();
    h.guards_pass();
    h.put(US, NODES, node("a", true, Some(mark(true))));
    assert_eq!(h.broken(), [4]);
}

#[test]
fn promise_4_an_eviction_that_was_not_intended() {
    let mut h = History::new();
    h.draining();
    h.put("world", PODS, pod("new", true));
    h.evict("new");
    assert_eq!(h.broken(), [4]);
}

#[test]
fn promise_5_a_persons_cordon() {
    let mut h = History::new();
    h.put("person", NODES, node("a", true, None));
    h.admitted();
    h.put(US, NODES, node("a", true, Some(mark(true))));
    assert_eq!(h.broken(), [5]);
    let mut h = History::new();
    h.put("person", NODES, node("a", true, None));
    h.admitted();
    h.put(US, NODES, node("a", true, Some(mark(false))));
    assert!(h.broken().is_empty(), "{:?}", h.promises.violations());
    h.put(
        US,
        GPU_FAULTS,
        fault("f", "a", status("Recovering", "ProvingHealth", done())),
    );
    h.put(US, NODES, node("a", false, None));
    assert!(h.broken().contains(&5));
}

#[test]
fn promise_5_a_person_who_uncordons_is_obeyed() {
    let mut h = History::new();
    h.cordoned();
    h.put("person", NODES, node("a", false, None));
    assert!(h.broken().is_empty(), "{:?}", h.promises.violations());
    h.put(US, NODES, node("a", true, Some(mark(true))));
    assert_eq!(h.broken(), [5]);
}

#[test]
fn promise_6_who_is_not_the_leader() {
    let mut h = History::new();
    h.admitted();
    h.wait(31);
    h.guards_pass();
    h.lease("controller-1");
    assert!(h.broken().is_empty(), "{:?}", h.promises.violations());
    h.put(US, NODES, node("a", true, Some(mark(true))));
    assert_eq!(h.broken(), [6]);
    let mut h = History::new();
    h.admitted();
    h.wait(40);
    h.guards_pass();
    h.put(US, NODES, node("a", true, Some(mark(true))));
    assert_eq!(h.broken(), [6]);
}

#[test]
fn promise_7_one_node_too_many() {
    let mut h = History::new();
    h.put("person", NODES, node("b", true, None));
    h.wait(20);
    h.admitted();
    assert_eq!(h.broken(), [7]);
}

#[test]
fn promise_7_a_recovery_that_is_held() {
    let mut h = History::new();
    h.drained();
    h.put(
        US,
        GPU_FAULTS,
        fault("f", "a", status("Recovering", "PausedByGuard", done())),
    );
    assert_eq!(h.broken(), [7]);
}

#[test]
fn promise_8_a_guard_that_is_true() {
    let mut h = History::new();
    h.admitted();
    h.wait(20);
    h.asked("errors > 1", Answer::Sound(vec![series()]));
    h.put(US, NODES, node("a", true, Some(mark(true))));
    assert_eq!(h.broken(), [8]);
}

#[test]
fn promise_9_a_phase_without_a_reason() {
    let mut h = History::new();
    h.opened();
    h.put(
        US,
        GPU_FAULTS,
        fault(
            "f",
            "a",
            json!({"phase": "Failed", "occurrence": 1, "round": 1}),
        ),
    );
    assert_eq!(h.broken(), [9]);
}

#[test]
fn promise_10_a_pod_that_stayed() {
    let mut h = History::new();
    h.draining();
    h.steps_done();
    assert_eq!(h.broken(), [10]);
}

#[test]
fn promise_10_a_failed_step_is_not_handled() {
    let mut h = History::new();
    h.draining();
    let attempts = json!([
        attempt(1, "Cordon", "Succeeded"),
        attempt(2, "EvictPods", "Failed")
    ]);
    h.put(
        US,
        GPU_FAULTS,
        fault("f", "a", status("Handled", "StepsDone", attempts)),
    );
    assert_eq!(h.broken(), [10]);
}

#[test]
fn promise_11_nodes_and_evidence_are_kept() {
    let mut h = History::new();
    h.write(US, NODES, Verb::Delete, "a", None, None);
    assert_eq!(h.broken(), [11]);
    let mut h = History::new();
    h.opened();
    h.call(GPU_FAULTS, Verb::Delete, None, "f", None, 200, None);
    assert_eq!(h.broken(), [11]);
}

#[test]
fn promise_12_only_gpu_pods_and_only_by_eviction() {
    let mut h = History::new();
    h.put("world", PODS, pod("web", false));
    h.evict("web");
    assert!(h.broken().contains(&12));
    let mut h = History::new();
    h.call(
        PODS,
        Verb::Delete,
        Some("default".into()),
        "llm",
        None,
        200,
        None,
    );
    assert_eq!(h.broken(), [12]);
}

#[test]
fn promise_8_a_guard_over_a_metric_that_does_not_exist() {
    let mut h = History::new();
    h.opened();
    h.put(US, GPU_FAULTS, fault("f", "a", pending()));
    h.asked("errors > 1", Answer::Sound(vec![]));
    h.put(
        US,
        GPU_FAULTS,
        fault(
            "f",
            "a",
            processing(json!([attempt(1, "Cordon", "Running")])),
        ),
    );
    h.put(US, NODES, node("a", true, Some(mark(true))));
    assert_eq!(h.broken(), [8]);
}

#[test]
fn promise_5_no_eviction_after_a_person_uncordoned() {
    let mut h = History::new();
    h.draining();
    h.put("person", NODES, node("a", false, Some(mark(true))));
    h.guards_pass();
    h.evict("llm");
    assert!(h.broken().is_empty(), "{:?}", h.promises.violations());
    h.wait(20);
    h.guards_pass();
    h.evict("llm");
    assert_eq!(h.broken(), [5]);
}

#[test]
fn promise_10_a_refused_eviction_fails_the_fault() {
    let mut h = History::new();
    h.draining();
    let body = json!({"deleteOptions": {"preconditions": {"uid": "uid-llm"}}});
    h.call(
        PODS,
        Verb::Create,
        Some("default".into()),
        "llm",
        Some("eviction"),
        500,
        Some(body),
    );
    assert!(h.broken().is_empty(), "{:?}", h.promises.violations());
    let rests: Vec<u8> = h
        .promises
        .settled(h.now)
        .iter()
        .map(|v| v.promise)
        .collect();
    assert_eq!(rests, [10]);
}

#[test]
fn promise_6_a_lease_is_not_taken_before_its_time() {
    let mut h = History::new();
    h.wait(20);
    h.lease("controller-1");
    assert_eq!(h.broken(), [6]);
}
