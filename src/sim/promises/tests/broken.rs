//! For each promise a history that breaks it, and one that does not.

use super::*;

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
    h.promises.hardware(h.now, "a", &[("0".to_owned(), false)]);
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

#[test]
fn promise_5_a_fault_whose_node_a_person_uncordoned_comes_to_an_end() {
    let mut h = History::new();
    h.cordoned();
    h.put("person", NODES, node("a", false, None));
    assert_eq!(h.promises.settled(h.now), []);
    h.wait(20);
    let rests = h.promises.settled(h.now);
    assert_eq!(rests.iter().map(|v| v.promise).collect::<Vec<_>>(), [5]);
    let mut ended = status("Cancelled", "UncordonedByPerson", done());
    ended["conditions"] = json!([condition("Succeeded", "False", "UncordonedByPerson")]);
    h.put(US, GPU_FAULTS, fault("f", "a", ended));
    assert_eq!(h.promises.settled(h.now), []);
}

#[test]
fn promise_9_a_hold_without_its_event() {
    let mut h = History::new();
    h.promises = Promises::new(PromisesConfig {
        events_arrive: true,
        ..PromisesConfig::default()
    });
    h.opened();
    let mut held = pending();
    held["reason"] = json!("PausedByGuard");
    held["conditions"] = json!([condition("Admitted", "False", "PausedByGuard")]);
    h.put(US, GPU_FAULTS, fault("f", "a", held));
    h.wait(20);
    let rests = h.promises.settled(h.now);
    assert_eq!(rests.iter().map(|v| v.promise).collect::<Vec<_>>(), [9]);
    h.put(
        US,
        EVENTS,
        json!({"metadata": {"name": "e", "namespace": "default"}, "reason": "PausedByGuard",
            "regarding": {"name": "f"}}),
    );
    assert_eq!(h.promises.settled(h.now), []);
}
