//! GPUs that are missing, a driver that was let go, and a log full of nonsense.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::tests::{DEADLINE, at, collectors, healthy, identity, is_up, sample};
use super::*;
use crate::nvml::BusDevices;
use crate::xid::Parser;

fn pci(text: &str) -> PciAddress {
    text.parse().unwrap()
}

#[test]
fn a_gpu_that_the_driver_no_longer_has_is_missing_once_the_others_have_told_who_they_are() {
    let (mut state, now) = healthy();
    let missing = |state: &State| {
        let all = state.gpus.values().filter(|gpu| state.is_missing(gpu));
        all.map(|gpu| gpu.identity.uuid.clone()).collect::<Vec<_>>()
    };
    assert!(missing(&state).is_empty());
    state.session_began();
    state.driver_answered("570.1".to_owned(), 1);
    assert!(missing(&state).is_empty(), "nobody has told yet");
    state.gpu_identified(identity(0, "GPU-b", "0000:5e:00"));
    state.gpu_answered(0, Ok(sample(Some(0))), now, at(2));
    assert_eq!(missing(&state), ["GPU-a"]);
    assert!(!is_up(&state, "GPU-a", now), "what it last said is no news");
    assert!(state.any_missing());
    assert_eq!(state.presence.expected(), Some(2));
    state.session_began();
    state.driver_answered("570.1".to_owned(), 2);
    state.gpu_identified(identity(0, "GPU-a", "0000:3b:00"));
    state.gpu_identified(identity(1, "GPU-b", "0000:5e:00"));
    assert!(missing(&state).is_empty() && !state.any_missing());
}

#[test]
fn a_gpu_that_only_the_kernel_sees() {
    let (mut state, now) = healthy();
    state.presence.kernel_sees(bus(&[A.1, B.1, C.1], &[]));
    assert_eq!(state.unlisted(now), [pci("0000:af:00")]);
    state.driver_failed(&DriverError::GpuLost);
    assert_eq!(state.unlisted(now), [pci("0000:af:00")]);
    // Before the driver was asked it is not known what it has.
    let mut fresh = State::new(collectors(), DEADLINE);
    fresh.presence.kernel_sees(bus(&[A.1, B.1, C.1], &[]));
    assert!(fresh.unlisted(now).is_empty());
    fresh.driver_asked(now);
    assert!(fresh.unlisted(now + DEADLINE).is_empty());
    assert_eq!(fresh.unlisted(now + 2 * DEADLINE).len(), 3, "it hangs");
    fresh.driver_failed(&DriverError::Load("none".to_owned()));
    assert_eq!(fresh.unlisted(now).len(), 3);
}

fn bus(ours: &[&str], others: &[&str]) -> Option<BusDevices> {
    let places = |addresses: &[&str]| addresses.iter().copied().map(pci).collect();
    Some(BusDevices {
        ours: places(ours),
        others: places(others),
        ..BusDevices::default()
    })
}

/// A state in which the driver has two of three GPUs: one has gone from its list, or was never on it.
fn two_of_three(third_was_there: bool) -> (State, Instant) {
    let (mut state, now) = healthy();
    state.presence.kernel_sees(bus(&[A.1, B.1, C.1], &[]));
    if third_was_there {
        state.session_began();
        state.driver_answered("570.1".to_owned(), 3);
        tell(&mut state, &[(0, A), (1, B), (2, C)], now);
        state.session_began();
        state.driver_answered("570.1".to_owned(), 2);
        tell(&mut state, &[(0, A), (1, B)], now);
    }
    (state, now)
}

const A: (&str, &str) = ("GPU-a", "0000:3b:00");
const B: (&str, &str) = ("GPU-b", "0000:5e:00");
const C: (&str, &str) = ("GPU-c", "0000:af:00");

fn tell(state: &mut State, gpus: &[(u32, (&str, &str))], now: Instant) {
    for (index, (uuid, pci)) in gpus {
        state.gpu_asked(*index, now);
        state.gpu_identified(identity(*index, uuid, pci));
        state.gpu_answered(*index, Ok(sample(Some(0))), now, at(1));
    }
}

fn is_missing(state: &State, (uuid, _): (&str, &str)) -> bool {
    let mut gpus = state.gpus.values();
    let gpu = gpus.find(|gpu| gpu.identity.uuid == uuid).unwrap();
    state.is_missing(gpu)
}

#[test]
fn a_missing_gpu_stays_missing_while_another_cannot_tell_who_it_is() {
    let (mut state, now) = two_of_three(true);
    assert!(is_missing(&state, C) && !is_missing(&state, B));
    for _ in 0..2 {
        // The second is lost, and is looked for in a new session, where it cannot be asked who it is.
        state.gpu_answered(1, Err(DriverError::GpuLost), now, at(2));
        state.session_began();
        state.driver_answered("570.1".to_owned(), 2);
        tell(&mut state, &[(0, A)], now);
        state.gpu_answered(1, Err(DriverError::GpuLost), now, at(3));
        assert!(is_missing(&state, C) && !is_missing(&state, B));
    }
    state.driver_failed(&DriverError::GpuLost);
    assert!(is_missing(&state, C), "no driver is no sign of it");
    state.session_began();
    state.driver_answered("570.1".to_owned(), 3);
    tell(&mut state, &[(0, A), (2, C)], now);
    assert!(!is_missing(&state, C));
    assert!(is_up(&state, "GPU-c", now));
}

#[test]
fn a_gpu_that_the_driver_never_had_stays_unlisted_while_another_cannot_tell_who_it_is() {
    let (mut state, now) = two_of_three(false);
    assert_eq!(state.unlisted(now), [pci("0000:af:00")]);
    state.session_began();
    state.driver_answered("570.1".to_owned(), 2);
    tell(&mut state, &[(0, A)], now);
    state.gpu_answered(1, Err(DriverError::GpuLost), now, at(3));
    assert_eq!(state.unlisted(now), [pci("0000:af:00")]);
    tell(&mut state, &[(1, C)], now);
    assert!(state.unlisted(now).is_empty());
}

#[test]
fn the_log_waits_for_the_driver_to_tell_who_its_gpus_are() {
    let now = Instant::now();
    let mut state = State::new(collectors(), DEADLINE);
    assert!(!state.knows_its_gpus(now), "it was not asked yet");
    state.driver_asked(now);
    assert!(!state.knows_its_gpus(now + DEADLINE));
    assert!(state.knows_its_gpus(now + 2 * DEADLINE), "it hangs");
    state.driver_answered("570.1".to_owned(), 2);
    tell(&mut state, &[(0, A)], now);
    assert!(!state.knows_its_gpus(now), "one has not told yet");
    state.gpu_answered(1, Err(DriverError::GpuLost), now, at(1));
    assert!(state.knows_its_gpus(now), "it cannot tell");
    state.session_began();
    assert!(state.knows_its_gpus(now), "a new session changes nothing");
    let mut failing = State::new(collectors(), DEADLINE);
    failing.driver_failed(&DriverError::GpuLost);
    assert!(failing.knows_its_gpus(now), "there is no driver");
    let without = State::new(Collectors::new([(Collector::KernelLog, None)]), DEADLINE);
    assert!(without.knows_its_gpus(now), "nobody asks it");
}

#[test]
fn a_gpu_that_has_left_the_bus_is_not_forgotten() {
    let (mut state, now) = two_of_three(false);
    for seen in [bus(&[A.1, B.1], &[]), None] {
        state.presence.kernel_sees(seen);
        assert_eq!(state.unlisted(now), [pci(C.1)]);
        assert_eq!(state.presence.expected(), Some(3));
        assert!(state.any_missing());
    }
}

#[test]
fn a_gpu_that_was_handed_to_another_driver_does_not_count_until_it_is_back() {
    let (mut state, now) = two_of_three(true);
    let shown = |state: &State| {
        let gpus = state.gpus.values().filter(|gpu| !state.is_handed_over(gpu));
        gpus.count()
    };
    state.presence.kernel_sees(bus(&[A.1, B.1], &[C.1]));
    assert_eq!(shown(&state), 2);
    assert_eq!(state.presence.expected(), Some(2));
    assert!(!state.any_missing() && state.unlisted(now).is_empty());
    state.gpu_answered(1, Err(DriverError::GpuLost), now, at(2));
    state.presence.kernel_sees(bus(&[A.1], &[B.1, C.1]));
    assert!(!state.any_lost(), "no new session would find it");
    state.session_began();
    state.driver_answered("570.1".to_owned(), 3);
    tell(&mut state, &[(0, A), (1, B), (2, C)], now);
    assert_eq!(shown(&state), 3, "the driver says it before the bus does");
    assert!(is_up(&state, "GPU-c", now));
    assert_eq!(state.presence.expected(), Some(3));
}

#[test]
fn a_driver_that_was_let_go_is_neither_up_nor_at_fault() {
    let (mut state, now) = healthy();
    state.driver_let_go(false);
    assert!(state.is_left_alone() && !state.is_released());
    state.driver_let_go(true);
    assert!(state.is_left_alone() && state.is_released());
    assert!(!is_up(&state, "GPU-a", now));
    assert!(!state.any_missing());
    state.driver_answered("570.1".to_owned(), 2);
    assert!(!state.is_left_alone() && !state.is_released());
    state.driver_let_go(true);
    state.driver_failed(&DriverError::Load("none".to_owned()));
    assert!(!state.is_left_alone() && !state.is_released());
}

#[test]
fn a_log_full_of_nonsense_fills_no_memory() {
    let mut state = State::new(collectors(), DEADLINE);
    let mut parser = Parser::default();
    for domain in 0..2000 {
        let lines = [
            format!("NVRM: GPU at PCI:{domain:04x}:3b:00: GPU-1"),
            format!("NVRM: GPU {domain:04x}:3b:00.0: RmInitAdapter failed! (0x1)"),
            format!(
                "NVRM: Xid (PCI:{domain:04x}:3b:00): 154, GPU recovery action changed from 0x0 (a) to 0x2 (b)"
            ),
        ];
        for message in lines
            .iter()
            .flat_map(|line| parser.parse(line).collect::<Vec<_>>())
        {
            state.observe(message, Some(at(1)));
        }
    }
    assert!(state.logged_uuids.len() < 1000);
    assert!(state.init_failures.len() < 1000);
    assert!(state.verdicts.len() < 1000);
}
