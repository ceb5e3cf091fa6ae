//! What a moment is made of.
#![allow(clippy::unwrap_used)]

use super::super::form::{Driver, Rise, Source, Time};
use super::super::state::{Curve, Presence};
use super::super::step::{Action, What, Xid};
use super::*;
use proptest::prelude::*;

const GPUS: usize = 2;
const WARM: u32 = 41;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn step(at: u64, action: Action) -> Step {
    Step {
        at: seconds(at),
        what: What::Gpu { slot: 0, action },
    }
}

fn rise(to: u64, over: u64) -> Rise {
    Rise {
        to,
        over: Time(seconds(over)),
    }
}

fn corrected(to: u64, over: u64) -> Action {
    Action::Ecc {
        corrected: Some(rise(to, over)),
        uncorrected: None,
    }
}

fn link_errors(to: u64, over: u64) -> Action {
    Action::LinkErrors {
        link: 3,
        kind: "crc",
        rise: rise(to, over),
    }
}

fn xid() -> Action {
    Action::Xid(Xid {
        code: 79,
        text: None,
        process: None,
        gpu_instance: None,
        compute_instance: None,
        source: Source::Both,
    })
}

fn timeline(steps: Vec<Step>, repeat: Option<u64>) -> Timeline {
    Timeline::new(vec![WARM; GPUS], steps, repeat.map(seconds))
}

#[test]
fn a_temperature_goes_evenly_and_turns_where_it_is() {
    let timeline = timeline(
        vec![
            step(10, Action::Temperature(rise(91, 100))),
            step(60, Action::Temperature(rise(16, 10))),
        ],
        None,
    );
    let temperatures = [0, 10, 12, 59, 60, 65, 70, 900].map(|at| {
        let moment = timeline.at(seconds(at));
        assert_eq!(moment.gpus[1].temperature, WARM, "the other stays as it is");
        moment.gpus[0].temperature
    });
    // On the way down it has gone 25 of 50 degrees after half the time.
    assert_eq!(temperatures, [41, 41, 42, 65, 66, 41, 16, 16]);
}

#[test]
fn who_is_back_is_healthy_and_the_board_keeps_what_it_counted() {
    let timeline = timeline(
        vec![
            step(1, corrected(100, 0)),
            step(2, Action::Lost),
            step(2, Action::Temperature(rise(95, 0))),
            step(2, Action::Throttle(0x40)),
            step(2, Action::LinkDown(3)),
            step(2, Action::MemoryTemperature(rise(105, 0))),
            step(2, Action::PcieReplays(rise(8, 0))),
            step(2, link_errors(8, 0)),
            step(5, Action::Back),
            step(6, corrected(10, 0)),
        ],
        None,
    );
    let lost = timeline.at(seconds(4));
    assert_eq!(lost.gpus[0].presence, Presence::Lost);
    assert!(lost.gpus[0].links_down.contains(&3));
    assert_eq!(lost.gpus[0].link_errors[&(3, "crc")], 8);
    assert_eq!(
        (lost.gpus[0].memory_temperature, lost.gpus[0].pcie_replays),
        (105, 8)
    );
    let back = timeline.at(seconds(5));
    let errors = back.gpus[0].corrected;
    assert_eq!((errors.volatile, errors.aggregate), (0, 100));
    let mut new = timeline.at(Duration::ZERO).gpus[0].clone();
    new.corrected = errors;
    assert_eq!(back.gpus[0], new);
    let errors = timeline.at(seconds(6)).gpus[0].corrected;
    assert_eq!((errors.volatile, errors.aggregate), (10, 110));
}

#[test]
fn a_driver_that_is_loaded_anew_counts_anew() {
    let driver = |at, driver| Step {
        at: seconds(at),
        what: What::Driver(driver),
    };
    let steps = vec![
        step(1, corrected(7, 0)),
        step(1, Action::PcieReplays(rise(5, 0))),
        step(1, link_errors(9, 0)),
        driver(2, Driver::Unloaded),
        driver(3, Driver::Loaded),
        driver(4, Driver::Loaded),
        step(5, link_errors(2, 0)),
        driver(6, Driver::Hung),
        driver(7, Driver::Loaded),
    ];
    let timeline = timeline(steps, None);
    let told = |at| {
        let moment = timeline.at(seconds(at));
        let gpu = &moment.gpus[0];
        let link = gpu.link_errors.get(&(3, "crc")).copied();
        let errors = (gpu.corrected.volatile, gpu.corrected.aggregate);
        (moment.driver, errors, gpu.pcie_replays, link)
    };
    assert_eq!(told(1), (Driver::Loaded, (7, 7), 5, Some(9)));
    assert_eq!(told(2), (Driver::Unloaded, (7, 7), 5, Some(9)));
    assert_eq!(told(3), (Driver::Loaded, (0, 7), 0, None));
    assert_eq!(told(4), (Driver::Loaded, (0, 7), 0, None));
    assert_eq!(told(6), (Driver::Hung, (0, 7), 0, Some(2)));
    assert_eq!(
        told(7),
        (Driver::Loaded, (0, 7), 0, Some(2)),
        "it was there"
    );
}

#[test]
fn a_hang_ends_in_its_time_or_when_the_gpu_is_back_or_the_round_is_over() {
    let hang = |time: Option<u64>| Action::Hang(time.map(seconds));
    let hung = |timeline: &Timeline, at| timeline.at(seconds(at)).gpus[0].hang.is_some();
    let timed = timeline(vec![step(10, hang(Some(20)))], None);
    assert!(!hung(&timed, 9) && hung(&timed, 10) && hung(&timed, 29) && !hung(&timed, 30));
    assert_eq!(timed.next_change(seconds(1)), Some(seconds(10)));
    assert_eq!(timed.next_change(seconds(10)), Some(seconds(30)));
    assert_eq!(timed.next_change(seconds(30)), None);
    let open = timeline(vec![step(10, hang(None)), step(50, Action::Back)], None);
    assert!(hung(&open, 49) && !hung(&open, 50));
    assert_eq!(open.next_change(seconds(10)), Some(seconds(50)));
    let round = timeline(vec![step(10, hang(None))], Some(60));
    assert!(hung(&round, 59) && !hung(&round, 60) && hung(&round, 70));
    assert_eq!(round.next_change(seconds(71)), Some(seconds(120)));
    let round = timeline(vec![step(10, hang(Some(20)))], Some(60));
    assert_eq!(
        round.at(seconds(75)).gpus[0].hang,
        Some(Hang::Until(seconds(90)))
    );
}

#[test]
fn happenings_are_numbered_over_all_rounds() {
    let steps = || vec![step(20, Action::Lost), step(10, xid()), step(20, xid())];
    let once = timeline(steps(), None);
    let at = |timeline: &Timeline, number| timeline.happening(number).map(|it| it.at.as_secs());
    assert_eq!(
        [0, 1, 2, 3].map(|number| at(&once, number)),
        [Some(10), Some(20), Some(20), None]
    );
    assert_eq!(once.after(seconds(10)), 1);
    assert_eq!(once.after(seconds(100)), 3);
    let rounds = timeline(steps(), Some(60));
    assert_eq!(
        [2, 3, 4, 6].map(|number| at(&rounds, number)),
        [Some(20), Some(70), Some(80), Some(130)]
    );
    assert_eq!(rounds.after(seconds(69)), 3);
    assert_eq!(
        timeline(Vec::new(), Some(60)).happening(0).map(|it| it.at),
        None
    );
    // The order of the file is kept where the times are the same.
    let second = once.happening(1).unwrap();
    assert!(matches!(
        second.step.what,
        What::Gpu {
            action: Action::Lost,
            ..
        }
    ));
}

/// Steps with times of one minute; counts only rise.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = (0u64..60_000, 0..GPUS, 0u8..12, 0u64..200, 0u64..40);
    proptest::collection::vec(one, 0..12).prop_map(|mut all| {
        all.sort_by_key(|(at, ..)| *at);
        let step = |(number, (at, slot, kind, value, over)): (u64, (u64, usize, u8, u64, u64))| {
            let action = match kind {
                0 => Action::Lost,
                1 => Action::Vanish,
                2 => Action::Back,
                3 => Action::Hang(None),
                4 => Action::Hang(Some(seconds(over))),
                5 => corrected(number * 1000 + value, over),
                6 => Action::Temperature(rise(value, over)),
                7 => Action::LinkDown(3),
                8 => Action::MemoryTemperature(rise(value, over)),
                9 => Action::PcieReplays(rise(number * 1000 + value, over)),
                10 => link_errors(number * 1000 + value, over),
                _ => {
                    let all = [Driver::Loaded, Driver::Unloaded, Driver::Hung];
                    return Step {
                        at: Duration::from_millis(at),
                        what: What::Driver(all[(value % 3) as usize]),
                    };
                }
            };
            Step {
                at: Duration::from_millis(at),
                what: What::Gpu { slot, action },
            }
        };
        (1..).zip(all).map(step).collect()
    })
}

proptest! {
    #[test]
    fn a_moment_is_what_the_steps_up_to_it_make(steps in steps(), at in 0u64..90_000) {
        let at = Duration::from_millis(at);
        let before: Vec<Step> = steps.iter().filter(|step| step.at <= at).cloned().collect();
        prop_assert_eq!(timeline(steps, None).at(at), timeline(before, None).at(at));
    }

    #[test]
    fn each_round_is_as_the_first_and_a_board_counts_on(
        steps in steps(), at in 0u64..60_000, later in 0u64..200_000,
    ) {
        let rounds = timeline(steps, Some(60));
        let at = Duration::from_millis(at);
        let mut first = rounds.at(at);
        let mut third = rounds.at(at + seconds(120));
        for gpu in first.gpus.iter_mut().chain(&mut third.gpus) {
            gpu.corrected.aggregate = 0;
            gpu.hang = gpu.hang.map(|_| Hang::Open);
        }
        prop_assert_eq!(first, third);
        let (now, then) = (rounds.at(at), rounds.at(at + Duration::from_millis(later)));
        for (now, then) in now.gpus.iter().zip(&then.gpus) {
            prop_assert!(now.corrected.aggregate <= then.corrected.aggregate);
        }
    }

    #[test]
    fn a_curve_is_monotone_and_ends_where_it_should(
        from: u64, to: u64, start in 0u64..1000, over in 0u64..1000, first in 0u64..3000, second in 0u64..3000,
    ) {
        let curve = Curve::flat(from).towards(to, seconds(start), seconds(over));
        let (early, late) = (seconds(first.min(second)), seconds(first.max(second)));
        let (before, after) = (curve.at(early), curve.at(late));
        if from <= to {
            prop_assert!(from <= before && before <= after && after <= to);
        } else {
            prop_assert!(from >= before && before >= after && after >= to);
        }
        prop_assert_eq!(curve.at(seconds(start + over)), to);
        if over > 0 {
            prop_assert_eq!(curve.at(seconds(start)), from);
        }
    }

    #[test]
    fn the_number_after_a_moment_is_that_of_the_first_happening_behind_it(
        steps in steps(), repeat: bool, at in 0u64..200_000,
    ) {
        let timeline = timeline(steps, repeat.then_some(60));
        let at = Duration::from_millis(at);
        let number = timeline.after(at);
        if let Some(next) = timeline.happening(number) {
            prop_assert!(next.at > at);
        }
        if let Some(last) = number.checked_sub(1).and_then(|number| timeline.happening(number)) {
            prop_assert!(last.at <= at);
        }
    }
}
