#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::nvml::Usage;
use crate::xid::RecoveryAction;

pub(in crate::exporter) const A: &str = "0000:3b:00";
pub(in crate::exporter) const B: &str = "0000:5e:00";
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
pub(in crate::exporter) const DEADLINE: Duration = Duration::from_secs(5);

pub(in crate::exporter) fn collectors() -> Collectors {
    Collectors::default().every(Collector::Nvml, INTERVAL)
}

pub(in crate::exporter) fn identity(index: u32, uuid: &str, pci: &str) -> Identity {
    Identity {
        index,
        uuid: uuid.to_owned(),
        pci: pci.parse().unwrap(),
        minor: index,
        model: "Test GPU".to_owned(),
        serial: None,
        vbios: None,
    }
}

pub(in crate::exporter) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(in crate::exporter) fn sample(action: Option<u32>) -> Sample {
    Sample {
        recovery_action: action.map(RecoveryAction),
        ..Sample::default()
    }
}

/// A state with two healthy GPUs, and the moment at which it is so.
pub(in crate::exporter) fn healthy() -> (State, Instant) {
    let now = Instant::now();
    let mut state = State::new(collectors(), DEADLINE);
    state.driver_answered("570.1".to_owned(), 2);
    for (index, uuid, pci) in [(0, "GPU-a", A), (1, "GPU-b", B)] {
        state.gpu_asked(index, now);
        state.gpu_identified(identity(index, uuid, pci));
        state.gpu_answered(index, Ok(sample(Some(0))), now, at(0));
    }
    (state, now)
}

fn up(state: &State, now: Instant) -> Vec<(String, bool)> {
    state
        .gpus
        .values()
        .map(|gpu| (gpu.identity.uuid.clone(), state.current(gpu, now).is_some()))
        .collect()
}

pub(super) fn is_up(state: &State, uuid: &str, now: Instant) -> bool {
    up(state, now)
        .iter()
        .any(|(other, up)| other == uuid && *up)
}

#[test]
fn a_lost_gpu_keeps_who_it_is() {
    let (mut state, now) = healthy();
    state.gpu_answered(0, Err(DriverError::GpuLost), now, at(1));
    assert_eq!(
        up(&state, now),
        [("GPU-a".to_owned(), false), ("GPU-b".to_owned(), true)]
    );
    assert!(state.any_lost());
    state.gpu_answered(0, Ok(sample(Some(0))), now, at(2));
    assert!(is_up(&state, "GPU-a", now) && !state.any_lost());
}

#[test]
fn a_lost_gpu_is_still_itself_when_a_new_session_cannot_ask_it() {
    let (mut state, now) = healthy();
    state.session_began();
    state.gpu_answered(0, Err(DriverError::GpuLost), now, at(1));
    assert!(!is_up(&state, "GPU-a", now));
    assert!(state.nameless(now).is_empty());
}

#[test]
fn when_the_others_move_up_an_index_the_lost_one_stays_lost() {
    let (mut state, now) = healthy();
    state.gpu_answered(0, Err(DriverError::GpuLost), now, at(1));
    state.session_began();
    state.driver_answered("570.1".to_owned(), 1);
    state.gpu_identified(identity(0, "GPU-b", "0000:5e:00"));
    state.gpu_answered(0, Ok(sample(Some(0))), now, at(2));
    assert_eq!(
        up(&state, now),
        [("GPU-a".to_owned(), false), ("GPU-b".to_owned(), true)]
    );
}

#[test]
fn what_an_index_cannot_tell_is_not_held_against_a_gpu_that_answered() {
    let (mut state, now) = healthy();
    state.gpu_answered(0, Err(DriverError::GpuLost), now, at(1));
    state.session_began();
    state.gpu_identified(identity(0, "GPU-b", "0000:5e:00"));
    state.gpu_answered(0, Ok(sample(Some(0))), now, at(2));
    // In the next session the lost one may have its index back, and still not answer.
    state.session_began();
    state.gpu_answered(0, Err(DriverError::GpuLost), now, at(3));
    assert_eq!(
        up(&state, now),
        [("GPU-a".to_owned(), false), ("GPU-b".to_owned(), true)]
    );
}

#[test]
fn a_call_hangs_after_the_deadline_and_only_for_its_own_gpu() {
    let (mut state, now) = healthy();
    state.gpu_asked(0, now);
    assert!(is_up(&state, "GPU-a", now + DEADLINE));
    let late = now + DEADLINE + Duration::from_millis(1);
    let hung: Vec<bool> = state
        .gpus
        .values()
        .map(|gpu| state.is_hung(gpu, late))
        .collect();
    assert_eq!(hung, [true, false]);
    assert_eq!(
        up(&state, late),
        [("GPU-a".to_owned(), false), ("GPU-b".to_owned(), true)]
    );
    state.gpu_answered(0, Ok(sample(None)), late, at(6));
    assert!(is_up(&state, "GPU-a", late));
}

#[test]
fn the_deadline_is_for_each_group_of_calls_and_so_is_the_duration() {
    let (mut state, now) = healthy();
    state.gpu_asked(0, now);
    state.gpu_asked_on(0, now + DEADLINE);
    let late = now + DEADLINE + DEADLINE / 2;
    assert!(!state.any_hung(late));
    assert!(state.any_hung(late + DEADLINE));
    state.gpu_answered(0, Ok(sample(None)), late, at(6));
    assert!(!state.any_hung(late + DEADLINE * 9));
    let usage = (Collector::Usage, DEADLINE / 2, true);
    state.groups_answered(0, &[usage], late, at(6));
    let gpu = state.gpus.values().next().unwrap();
    assert_eq!(gpu.asked.unwrap().took, DEADLINE);
    assert_eq!(gpu.groups[&Collector::Usage].took, DEADLINE / 2);
    // What an earlier session answers is nobody's.
    state.session_began();
    state.groups_answered(0, &[(Collector::Mig, DEADLINE, true)], late, at(7));
    let gpu = state.gpus.values().next().unwrap();
    assert!(!gpu.groups.contains_key(&Collector::Mig));
}

#[test]
fn a_lost_gpu_does_not_hang_with_the_one_that_took_its_index() {
    let (mut state, now) = healthy();
    state.gpu_answered(0, Err(DriverError::GpuLost), now, at(1));
    state.session_began();
    state.gpu_identified(identity(0, "GPU-b", "0000:5e:00"));
    state.gpu_asked(0, now);
    let late = now + DEADLINE * 2;
    let hung: Vec<bool> = state
        .gpus
        .values()
        .map(|gpu| state.is_hung(gpu, late))
        .collect();
    assert_eq!(hung, [false, true]);
}

#[test]
fn a_call_that_hangs_in_a_new_session_is_the_known_gpus() {
    let (mut state, now) = healthy();
    state.session_began();
    state.gpu_asked(0, now);
    let late = now + DEADLINE * 2;
    let hung: Vec<bool> = state
        .gpus
        .values()
        .map(|gpu| state.is_hung(gpu, late))
        .collect();
    assert_eq!(hung, [true, false]);
}

#[test]
fn an_old_sample_says_nothing() {
    let (state, now) = healthy();
    assert!(is_up(&state, "GPU-a", now + INTERVAL * 2 + DEADLINE));
    assert!(!is_up(
        &state,
        "GPU-a",
        now + INTERVAL * 2 + DEADLINE + Duration::from_millis(1)
    ));
}

#[test]
fn without_a_driver_nothing_is_up_and_everything_is_still_known() {
    let (mut state, now) = healthy();
    state.driver_failed(&DriverError::Gone {
        call: "nvmlDeviceGetCount_v2",
        code: "driver_not_loaded",
    });
    assert_eq!(state.driver_error(now), Some("driver_not_loaded"));
    assert_eq!(state.driver.version.as_deref(), Some("570.1"));
    assert_eq!(
        up(&state, now),
        [("GPU-a".to_owned(), false), ("GPU-b".to_owned(), false)]
    );
}

#[test]
fn a_driver_that_does_not_return_is_hung_and_then_is_not() {
    let (mut state, now) = healthy();
    state.driver_asked(now);
    assert_eq!(state.driver_error(now + DEADLINE), None);
    assert_eq!(state.driver_error(now + DEADLINE * 2), Some("hung"));
    state.driver_answered("570.1".to_owned(), 2);
    assert_eq!(state.driver_error(now + DEADLINE * 2), None);
}

#[test]
fn a_gpu_that_was_lost_from_the_start_has_an_index_only() {
    let now = Instant::now();
    let mut state = State::new(collectors(), DEADLINE);
    state.driver_answered("570.1".to_owned(), 2);
    state.gpu_answered(1, Err(DriverError::GpuLost), now, at(0));
    state.gpu_asked(0, now);
    assert_eq!(state.nameless(now), BTreeMap::from([(1, true)]));
    assert_eq!(
        state.nameless(now + DEADLINE * 2),
        BTreeMap::from([(0, false), (1, true)])
    );
    state.gpu_identified(identity(1, "GPU-b", "0000:5e:00"));
    assert!(state.nameless(now).is_empty());
}

#[test]
fn another_gpu_in_the_same_place_begins_anew() {
    let (mut state, _) = healthy();
    state
        .ledger
        .xid("0000:3b:00".parse().unwrap(), 79, Some(at(0)));
    state.gpu_identified(identity(0, "GPU-c", "0000:3b:00"));
    let uuids: Vec<_> = state
        .gpus
        .values()
        .map(|gpu| gpu.identity.uuid.as_str())
        .collect();
    assert_eq!(uuids, ["GPU-c", "GPU-b"]);
    assert_eq!(state.ledger.seen().count(), 0);
}

#[test]
fn a_gpu_in_another_place_is_not_two() {
    let (mut state, _) = healthy();
    state.gpu_identified(identity(0, "GPU-a", "0000:af:00"));
    let mut uuids: Vec<_> = state
        .gpus
        .values()
        .map(|gpu| gpu.identity.uuid.as_str())
        .collect();
    uuids.sort_unstable();
    assert_eq!(uuids, ["GPU-a", "GPU-b"]);
}

#[test]
fn what_was_not_asked_for_this_time_stays_as_it_was_until_the_gpu_is_lost() {
    let (mut state, now) = healthy();
    let power = |state: &State| {
        let gpu = state.gpus.values().next().unwrap();
        let usage = state.current(gpu, now)?.usage.as_deref()?;
        usage.power
    };
    let usage = Usage {
        power: Some(70.0),
        ..Usage::default()
    };
    let asked = Sample {
        usage: Some(std::sync::Arc::new(usage)),
        ..Sample::default()
    };
    state.gpu_answered(0, Ok(asked), now, at(1));
    state.gpu_answered(0, Ok(sample(Some(0))), now, at(2));
    assert_eq!(power(&state), Some(70.0));
    state.gpu_answered(0, Err(DriverError::GpuLost), now, at(3));
    state.gpu_answered(0, Ok(sample(Some(0))), now, at(4));
    assert_eq!(power(&state), None);
}

#[test]
fn failed_calls_are_counted_by_name() {
    let (mut state, now) = healthy();
    let failure = crate::nvml::CallFailure {
        call: "nvmlDeviceGetTemperature",
        code: "unknown",
    };
    for _ in 0..2 {
        let sample = Sample {
            failures: vec![failure.clone()],
            ..Sample::default()
        };
        state.gpu_answered(0, Ok(sample), now, at(1));
    }
    state.gpu_answered(
        0,
        Err(DriverError::Call {
            call: "nvmlDeviceGetUUID",
            code: "timeout",
        }),
        now,
        at(1),
    );
    let gpu = state.gpus.values().next().unwrap();
    let expected = BTreeMap::from([
        (("nvmlDeviceGetTemperature", "unknown"), 2),
        (("nvmlDeviceGetUUID", "timeout"), 1),
    ]);
    assert_eq!(gpu.failures, expected);
}
