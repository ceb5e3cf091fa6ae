//! What is remembered is what would be evaluated.

use std::sync::{Arc, RwLock};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tsink::Label;

use super::super::database::{Course, Database};
use super::super::evaluate::Evaluator;

const INTERVAL: i64 = 15_000;

const QUESTIONS: [&str; 16] = [
    "a == 1",
    "a{x=\"0\"} > 0 or b",
    "count by (x) (a > 0) unless b",
    "sum(a) == count(b)",
    "absent(a{x=\"1\"})",
    "increase(a[1m]) > 0",
    "rate(a[90s]) >= 0",
    "count_over_time(a[2m]) < 8",
    "max_over_time(a[3m]) > min_over_time(a[3m])",
    "changes(a[2m]) > 1",
    "last_over_time(b[1m])",
    "max_over_time(a[1m] offset 1m)",
    "a offset 45s",
    "time() - clock > 20",
    "timestamp(a)",
    "clock",
];

#[test]
fn a_recalled_result_is_what_is_evaluated_anew() {
    let mut chance = ChaCha8Rng::seed_from_u64(1);
    let mut database = Database::new(INTERVAL);
    let target = database.add_target();
    let series = |name, x: i32| (name, vec![Label::new("x", x.to_string())]);
    let ids = [series("a", 0), series("a", 1), series("b", 0)]
        .map(|(name, labels)| database.id(name, labels));
    let clock = database.id("clock", Vec::new());
    let database = Arc::new(RwLock::new(database));
    let evaluator = Evaluator::new(Arc::clone(&database));
    let (mut values, mut recalled) = ([0.0; 3], 0);
    for scrape in 0..120 {
        let at = 1_000_000 + scrape * INTERVAL;
        // Sometimes a scrape does not come.
        if chance.random_bool(0.95) {
            let mut database = database.write().unwrap();
            for (id, value) in ids.iter().zip(&mut values) {
                if chance.random_bool(0.05) {
                    database.vanish(*id, target, at);
                    continue;
                }
                if chance.random_bool(0.1) {
                    *value = f64::from(chance.random_range(0..3));
                }
                database.observe(*id, target, at, Course::Constant(*value));
            }
            let seconds = Course::FollowsTime(at as f64 / 1000.0);
            database.observe(clock, target, at, seconds);
            database.scraped(target, at);
        }
        for _ in 0..3 {
            let asked = at + chance.random_range(0..3) * 5_000;
            for question in QUESTIONS {
                let plan = evaluator.plan(question).unwrap();
                let sight = {
                    let database = database.read().unwrap();
                    plan.remembered.sight(&plan.selectors, &database, asked)
                };
                recalled +=
                    u32::from(sight.is_some_and(|s| plan.remembered.recall(&s, asked).is_some()));
                let fresh = Evaluator::new(Arc::clone(&database)).instant(question, asked);
                assert_eq!(
                    evaluator.instant(question, asked),
                    fresh,
                    "{question} at {asked}"
                );
            }
        }
    }
    assert!(recalled > 500, "{recalled} results were recalled");
}
