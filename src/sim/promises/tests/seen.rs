//! What opens a fault was seen, lately, and of the machine that is there.

use super::*;

#[test]
fn promise_1_what_was_seen_long_ago_opens_nothing() {
    let mut h = History::new();
    h.asked("lost == 1", Answer::Sound(vec![series()]));
    h.wait(1000);
    h.lease(US);
    h.put(US, GPU_FAULTS, fault("f", "a", json!({})));
    assert_eq!(h.broken(), [1]);
}

#[test]
fn promise_1_a_fault_returns_only_on_a_sound_answer() {
    let again = || {
        let mut again = pending();
        again["occurrence"] = json!(2);
        fault("f", "a", again)
    };
    let ended = |h: &mut History| {
        h.opened();
        h.put(US, GPU_FAULTS, fault("f", "a", pending()));
        h.wait(1000);
        h.lease(US);
    };
    let mut h = History::new();
    ended(&mut h);
    h.asked("lost == 1", Answer::Unsound);
    let elsewhere = [("node".to_owned(), "b".to_owned())].into();
    h.asked("lost == 1", Answer::Sound(vec![elsewhere]));
    h.put(US, GPU_FAULTS, again());
    assert_eq!(h.broken(), [1]);
    let mut h = History::new();
    ended(&mut h);
    h.asked("lost == 1", Answer::Sound(vec![series()]));
    h.put(US, GPU_FAULTS, again());
    assert!(h.broken().is_empty(), "{:?}", h.promises.violations());
}

#[test]
fn promise_1_what_was_seen_of_an_earlier_machine_opens_nothing() {
    let mut h = History::new();
    h.asked("lost == 1", Answer::Sound(vec![series()]));
    h.write("person", NODES, Verb::Delete, "a", None, None);
    h.wait(30);
    let mut another = node("a", false, None);
    another["metadata"]["uid"] = json!("uid-another");
    h.put("kubelet", NODES, another);
    h.put(US, GPU_FAULTS, fault("f", "a", json!({})));
    assert_eq!(h.broken(), [1]);
    let mut h = History::new();
    h.opened();
    assert!(h.broken().is_empty(), "{:?}", h.promises.violations());
}
