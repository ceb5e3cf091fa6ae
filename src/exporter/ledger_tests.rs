#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

fn at(milliseconds: i64) -> Option<Timestamp> {
    Some(Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap())
}

fn gpu() -> PciAddress {
    "0000:3b:00".parse().unwrap()
}

fn events(ledger: &Ledger) -> u64 {
    ledger.get(gpu(), 79).map_or(0, |count| count.events)
}

#[test]
fn an_xid_and_the_line_beside_it_are_one_loss_in_either_order() {
    let mut ledger = Ledger::default();
    ledger.xid(gpu(), 79, at(0));
    ledger.bus_loss(gpu(), at(1));
    ledger.bus_loss(gpu(), at(900));
    assert_eq!(events(&ledger), 1);
    let mut ledger = Ledger::default();
    ledger.bus_loss(gpu(), at(0));
    ledger.bus_loss(gpu(), at(1));
    ledger.xid(gpu(), 79, at(2));
    assert_eq!(events(&ledger), 1);
}

#[test]
fn the_same_xid_twice_is_two_events() {
    let mut ledger = Ledger::default();
    ledger.xid(gpu(), 79, at(0));
    ledger.bus_loss(gpu(), at(1));
    ledger.xid(gpu(), 79, at(2));
    ledger.xid(gpu(), 48, at(2));
    ledger.xid(gpu(), 48, at(2));
    assert_eq!(events(&ledger), 2);
    assert_eq!(ledger.get(gpu(), 48).unwrap().events, 2);
}

#[test]
fn a_later_loss_and_another_gpu_are_their_own() {
    let mut ledger = Ledger::default();
    ledger.bus_loss(gpu(), at(0));
    ledger.bus_loss("0000:5e:00".parse().unwrap(), at(1));
    ledger.bus_loss(gpu(), at(1002));
    assert_eq!(events(&ledger), 2);
    assert_eq!(ledger.seen().count(), 2);
}

#[test]
fn the_last_time_never_goes_back() {
    let mut ledger = Ledger::default();
    ledger.xid(gpu(), 48, at(10));
    ledger.xid(gpu(), 48, at(5));
    assert_eq!(
        ledger.get(gpu(), 48),
        Some(Count {
            events: 2,
            last: at(10)
        })
    );
}

#[test]
fn a_time_that_turns_out_to_be_in_the_future_is_the_one_at_which_that_is_noticed() {
    let mut ledger = Ledger::default();
    ledger.xid(gpu(), 48, at(3_600_000));
    ledger.xid(gpu(), 79, at(10));
    ledger.xid(gpu(), 63, None);
    for now in [1000, 2000] {
        ledger.no_later_than(at(now).unwrap());
        let last = |code| ledger.get(gpu(), code).unwrap().last;
        assert_eq!(last(48), at(1000), "it grows old from then on");
        assert_eq!((last(79), last(63)), (at(10), None));
    }
    ledger.xid(gpu(), 48, at(3000));
    assert_eq!(ledger.get(gpu(), 48).unwrap().last, at(3000));
}

#[test]
fn what_has_no_time_is_counted_and_takes_none_away() {
    let mut ledger = Ledger::default();
    ledger.xid(gpu(), 79, None);
    ledger.bus_loss(gpu(), None);
    let untimed = Count {
        events: 1,
        last: None,
    };
    assert_eq!(ledger.get(gpu(), 79), Some(untimed));
    ledger.xid(gpu(), 79, at(0));
    ledger.xid(gpu(), 79, None);
    let timed = Count {
        events: 3,
        last: at(0),
    };
    assert_eq!(ledger.get(gpu(), 79), Some(timed));
}

#[test]
fn a_log_full_of_nonsense_does_not_fill_the_memory() {
    let mut ledger = Ledger::default();
    for code in 0..2 * MOST_COUNTS as u32 {
        ledger.xid(gpu(), code, at(0));
    }
    assert_eq!(ledger.seen().count(), MOST_COUNTS);
    ledger.xid(gpu(), 79, at(0));
    assert_eq!(events(&ledger), 2, "what is known goes on counting");
}

#[test]
fn a_replaced_gpu_begins_anew() {
    let mut ledger = Ledger::default();
    ledger.xid(gpu(), 79, at(0));
    ledger.forget(gpu());
    assert_eq!(ledger.seen().count(), 0);
}

/// Tells the ledger of Xid 48 by each source at these milliseconds, in the order in which they come.
fn told(log: &[i64], nvml: &[i64]) -> u64 {
    let log = log.iter().map(|at| (*at, Source::KernelLog));
    let mut all: Vec<_> = log
        .chain(nvml.iter().map(|at| (*at, Source::Nvml)))
        .collect();
    all.sort_by_key(|(at, _)| *at);
    let mut ledger = Ledger::default();
    for (milliseconds, source) in &all {
        match source {
            Source::KernelLog => ledger.xid(gpu(), 48, at(*milliseconds)),
            Source::Nvml => ledger.nvml_xid(gpu(), 48, at(*milliseconds).unwrap()),
        }
    }
    ledger.get(gpu(), 48).map_or(0, |count| count.events)
}

#[test]
fn an_xid_that_both_tell_is_one_in_either_order_and_a_repeat_is_another() {
    assert_eq!(told(&[0], &[400]), 1);
    assert_eq!(told(&[400], &[0]), 1);
    assert_eq!(told(&[0, 5000], &[400, 5400]), 2);
    assert_eq!(told(&[1], &[1002]), 2, "that late it is another");
    assert_eq!(told(&[0, 10], &[]), 2, "two lines are two");
    assert_eq!(told(&[], &[0, 10]), 2, "two events are two");
    assert_eq!(told(&[0, 1], &[2]), 2, "each event is taken once");
    let mut ledger = Ledger::default();
    ledger.xid(gpu(), 48, at(0));
    ledger.nvml_xid(gpu(), 63, at(1).unwrap());
    ledger.nvml_xid("0000:5e:00".parse().unwrap(), 48, at(1).unwrap());
    assert_eq!(
        ledger.seen().count(),
        3,
        "another code and another GPU are others"
    );
}

#[test]
fn a_log_of_whole_seconds_tells_of_what_happened_within_them() {
    // Logged at 0.98 s with the time 0 s, and told by NVML a little later.
    assert_eq!(told(&[0], &[1080]), 1);
    assert_eq!(told(&[0], &[2000]), 1);
    assert_eq!(told(&[0], &[2001]), 2, "that late it is another");
    let mut ledger = Ledger::default();
    ledger.nvml_xid(gpu(), 48, at(1900).unwrap());
    ledger.xid(gpu(), 48, at(1000));
    assert_eq!(ledger.get(gpu(), 48).unwrap().events, 1);
}

#[test]
fn an_older_line_that_comes_late_parts_no_event_from_itself() {
    let mut ledger = Ledger::default();
    ledger.nvml_xid(gpu(), 63, at(5001).unwrap());
    ledger.xid(gpu(), 63, at(-3_600_000));
    ledger.xid(gpu(), 63, at(5000));
    assert_eq!(ledger.get(gpu(), 63).unwrap().events, 2);
    // Nor does a line from the future part those after it.
    ledger.xid(gpu(), 63, at(3_600_000));
    ledger.xid(gpu(), 63, at(10_000));
    ledger.nvml_xid(gpu(), 63, at(10_001).unwrap());
    assert_eq!(ledger.get(gpu(), 63).unwrap().events, 4);
}

#[test]
fn a_log_of_ever_older_times_does_not_fill_the_memory() {
    let mut ledger = Ledger::default();
    for number in 0..1000 {
        ledger.xid(gpu(), 48, at(-number * 1000));
    }
    assert_eq!(ledger.get(gpu(), 48).unwrap().events, 1000);
    let waiting = &ledger.entries[&(gpu(), 48)].waiting;
    assert_eq!(waiting.kernel_log.len(), MOST_BURSTS);
}

#[test]
fn a_loss_that_three_tell_is_one() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let mut ledger = Ledger::default();
        for (time, who) in order.into_iter().enumerate() {
            let at = at(time as i64 * 10);
            match who {
                0 => ledger.xid(gpu(), 79, at),
                1 => ledger.bus_loss(gpu(), at),
                _ => ledger.nvml_xid(gpu(), 79, at.unwrap()),
            }
        }
        assert_eq!(events(&ledger), 1, "{order:?}");
        assert_eq!(ledger.told(), [("kernel_log", 2), ("nvml", 1)]);
    }
}

#[test]
fn a_storm_is_counted_exactly_and_needs_no_more_memory() {
    let mut ledger = Ledger::default();
    for number in 0..100_000 {
        ledger.xid(gpu(), 48, at(number / 100));
    }
    let waiting = &ledger.entries[&(gpu(), 48)].waiting;
    let bursts = waiting.kernel_log.len();
    assert!(bursts <= 12, "{bursts}");
    for number in 0..100 {
        ledger.nvml_xid(gpu(), 48, at(1000 + number).unwrap());
    }
    assert_eq!(ledger.get(gpu(), 48).unwrap().events, 100_000);
}

#[test]
fn other_events_are_kept_by_gpu() {
    let mut ledger = Ledger::default();
    ledger.other(gpu(), "gpu_unavailable", 0);
    ledger.other(gpu(), "recovery_action", 1);
    ledger.other("0000:5e:00".parse().unwrap(), "recovery_action", 3);
    let told: Vec<_> = ledger.others(gpu()).collect();
    assert_eq!(told, [("gpu_unavailable", 0), ("recovery_action", 1)]);
    ledger.forget(gpu());
    assert_eq!(ledger.others(gpu()).count(), 0);
}

/// When an event happens, how much later each source tells of it, and whether it does.
type Happening = (i64, (i64, bool), (i64, bool));

fn happening() -> impl Strategy<Value = Happening> {
    let telling = || (0i64..400, any::<bool>());
    (0i64..20_000, telling(), telling())
}

proptest! {
    #[test]
    fn when_both_see_everything_each_event_is_one(events in prop::collection::vec(happening(), 0..60)) {
        let log: Vec<_> = events.iter().map(|(at, (late, _), _)| at + late).collect();
        let nvml: Vec<_> = events.iter().map(|(at, _, (late, _))| at + late).collect();
        prop_assert_eq!(told(&log, &nvml), events.len() as u64);
    }

    #[test]
    fn when_one_misses_some_none_is_lost_and_none_is_made_up(events in prop::collection::vec(happening(), 0..60)) {
        let seen = |who: fn(&Happening) -> (i64, bool)| -> Vec<i64> {
            let told = events.iter().filter(|event| who(event).1);
            told.map(|event| event.0 + who(event).0).collect()
        };
        let (log, nvml) = (seen(|event| event.1), seen(|event| event.2));
        let count = told(&log, &nvml);
        prop_assert!(count >= log.len().max(nvml.len()) as u64);
        prop_assert!(count <= (log.len() + nvml.len()) as u64);
    }

    #[test]
    fn events_that_are_far_apart_are_counted_if_anybody_sees_them(events in prop::collection::vec(happening(), 0..60)) {
        let apart = |place: usize, late: i64| place as i64 * 3000 + late;
        let of = |who: fn(&Happening) -> (i64, bool)| -> Vec<i64> {
            let told = events.iter().enumerate().filter(|(_, event)| who(event).1);
            told.map(|(place, event)| apart(place, who(event).0)).collect()
        };
        let seen = events.iter().filter(|(_, log, nvml)| log.1 || nvml.1).count();
        prop_assert_eq!(told(&of(|event| event.1), &of(|event| event.2)), seen as u64);
    }
}
