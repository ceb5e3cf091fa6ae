//! Random worlds: promises hold in them, they can be replayed, and what fails gets small.

use std::convert::Infallible;

use super::acts::Act;
use super::random::{Happening, Plan, random_world};
use super::{play, shrink};

#[test]
fn no_promise_breaks_in_random_worlds() {
    let mut faults = 0;
    for seed in 0..SEEDS {
        let outcome = play(&random_world(seed, DAYS)).unwrap();
        faults += outcome.faults;
        assert!(
            outcome.broken().is_none(),
            "seed {seed}: {:#?} {:#?}\n{:#?}",
            outcome.violations,
            outcome.settled,
            outcome.story
        );
        assert!(outcome.checks > 0);
    }
    assert!(faults > 0, "nothing happened in these worlds");
}

/// As many as a debug build can take; `gpu-remediator simulate` runs as many as one likes.
const SEEDS: u64 = 4;

const DAYS: f64 = 0.05;

#[test]
fn the_same_seed_gives_the_same_history_and_another_one_another() {
    let one = play(&random_world(7, DAYS)).unwrap();
    let again = play(&random_world(7, DAYS)).unwrap();
    assert_eq!(one, again);
    let other = play(&random_world(8, DAYS)).unwrap();
    assert_ne!(one.digest, other.digest);
}

#[test]
fn a_plan_that_fails_shrinks_to_what_makes_it_fail() {
    let mut plan = random_world(3, 1.0);
    let needed = [Act::Compact, Act::DeletePod];
    let middle = plan.events.len() / 2;
    for act in &needed {
        let mut event = plan.events[middle].clone();
        event.what = Happening::Act(act.clone());
        plan.events.insert(middle, event);
    }
    let has = |plan: &Plan, act: &Act| {
        let what = Happening::Act(act.clone());
        plan.events.iter().any(|event| event.what == what)
    };
    // A check that is broken on purpose: the world is wrong once both have happened, and in another way without events.
    let breaks = |plan: &Plan| -> Result<Option<u8>, Infallible> {
        if needed.iter().all(|act| has(plan, act)) {
            return Ok(Some(12));
        }
        Ok(plan.events.is_empty().then_some(1))
    };
    let small = shrink(&plan, 12, 1000, breaks).unwrap();
    assert_eq!(small.plan.events.len(), 2, "{:?}", small.plan.events);
    assert!(needed.iter().all(|act| has(&small.plan, act)));
    assert!(small.played < 100, "{}", small.played);
}
