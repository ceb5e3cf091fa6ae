//! Worlds by chance: a seed gives a plan, which is plain data, and the plan gives one history.

use std::time::Duration;

use jiff::Timestamp;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::acts::{Act, NAMESPACE};
use crate::sim::faults::{CallFault, Fault, FrameFault, QueryFault, Spell};
use crate::sim::world::{Owner, Workload, WorldPlan};

/// Something happens at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, since the beginning.
    pub at: Duration,
    /// What.
    pub what: Happening,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// Hardware breaks, people act, processes die.
    Act(Act),
    /// A time of faults on the line.
    Spell(Spell),
}

impl Event {
    /// In words.
    #[must_use]
    pub fn story(&self) -> String {
        match &self.what {
            Happening::Act(act) => act.to_string(),
            Happening::Spell(spell) => format!(
                "{:?} for {}s on {:.0}% of what it may hit",
                spell.fault,
                spell.until.saturating_sub(spell.from).as_secs(),
                spell.share * 100.0
            ),
        }
    }
}

/// A workload of a random world.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// What runs it.
    pub owner: Owner,
    /// How many pods.
    pub replicas: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// Its budget.
    pub min_available: Option<u32>,
}

/// A whole run as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where it comes from.
    pub seed: u64,
    /// How many nodes with 8 GPUs.
    pub nodes: u32,
    /// The workloads.
    pub loads: Vec<Load>,
    /// How many nodes may be out: `maxUnavailable` of the policy.
    pub max_unavailable: String,
    /// How many faults may be in their steps at once.
    pub max_concurrent: i32,
    /// A guard that holds while the service suffers, and one that stops.
    pub guards: [bool; 2],
    /// How often rules look.
    pub interval: Duration,
    /// How many controllers there are at the beginning.
    pub controllers: u32,
    /// What happens, by time.
    pub events: Vec<Event>,
    /// When the quiet end begins.
    pub length: Duration,
}

/// Simulated time per day.
pub const DAY: Duration = Duration::from_secs(86_400);

/// How far apart episodes are on average.
const EPISODE: f64 = 2.0 * 3600.0;

/// The plan of a seed. The same numbers give the same plan.
#[must_use]
pub fn random_world(seed: u64, days: f64) -> Plan {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let nodes = chance.random_range(3..=6);
    let length = DAY.mul_f64(days);
    let mut plan = Plan {
        seed,
        nodes,
        loads: loads(&mut chance, nodes),
        max_unavailable: pick(&mut chance, &["10%", "1", "2", "50%"]).to_owned(),
        max_concurrent: chance.random_range(1..=2),
        guards: [chance.random_bool(0.3), chance.random_bool(0.15)],
        interval: Duration::from_secs(chance.random_range(15..=30)),
        controllers: chance.random_range(1..=2),
        events: Vec::new(),
        length,
    };
    // At least two: a world in which nothing happens shows nothing.
    let episodes = ((length.as_secs_f64() / EPISODE).round() as u32).max(2);
    for _ in 0..episodes {
        let at = length.mul_f64(chance.random_range(0.01..0.9));
        episode(&mut chance, at, &mut plan);
    }
    plan.events.retain(|event| event.at < length);
    plan.events.sort_by_key(|event| event.at);
    plan
}

fn pick<'a, T: ?Sized>(chance: &mut ChaCha8Rng, among: &[&'a T]) -> &'a T {
    // Every caller gives a list that is not empty.
    among.choose(chance).copied().unwrap_or(among[0])
}

fn loads(chance: &mut ChaCha8Rng, nodes: u32) -> Vec<Load> {
    let replicas = chance.random_range(2..=nodes);
    let budget = |chance: &mut ChaCha8Rng, replicas: u32| match chance.random_range(0..4) {
        0 => None,
        1 => Some(replicas),
        _ => Some(replicas - 1),
    };
    let load = |name: &str, owner, replicas, gpus, min_available| Load {
        name: name.to_owned(),
        owner,
        replicas,
        gpus,
        min_available,
    };
    vec![
        load(
            "llm",
            Owner::Deployment,
            replicas,
            chance.random_range(1..=4),
            budget(chance, replicas),
        ),
        load(
            "embed",
            Owner::StatefulSet,
            2,
            chance.random_range(1..=2),
            budget(chance, 2),
        ),
        load("train", Owner::Job, 2, 1, None),
        load("gateway", Owner::Deployment, 3, 0, Some(2)),
        load("agent", Owner::DaemonSet, 1, 0, None),
    ]
}

/// Something goes wrong, and mostly is mended some time later.
fn episode(chance: &mut ChaCha8Rng, at: Duration, plan: &mut Plan) {
    let node = format!("gpu-{}", chance.random_range(1..=plan.nodes));
    let gpu = chance.random_range(0..8);
    let later = |chance: &mut ChaCha8Rng, least: u64, most: u64| {
        Duration::from_secs(chance.random_range(least..=most))
    };
    let mut happens = |at: Duration, act: Act| {
        plan.events.push(Event {
            at,
            what: Happening::Act(act),
        });
    };
    // Most begin with hardware, for without it the product has nothing to do.
    match chance.random_range(0..20) {
        0..=7 => {
            let code = *pick(
                chance,
                &[&79, &79, &79, &48, &95, &119, &140, &46, &31, &13],
            );
            happens(at, Act::Xid(node.clone(), gpu, code));
            if chance.random_bool(0.2) {
                let again = at + later(chance, 5, 1200);
                happens(again, Act::Xid(node.clone(), (gpu + 1) % 8, 79));
            }
            let mended = at + later(chance, 120, 7200);
            if chance.random_bool(0.8) {
                happens(mended, Act::Repair(node.clone()));
            } else {
                happens(mended, Act::Replace(node.clone(), gpu));
            }
            meanwhile(chance, &node, at, &mut happens);
        }
        8 => {
            happens(at, Act::Lose(node.clone(), gpu));
            happens(at + later(chance, 60, 5400), Act::Repair(node));
        }
        9 => {
            happens(at, Act::Xid(node.clone(), gpu, 79));
            happens(at + later(chance, 10, 900), Act::Vanish(node.clone(), gpu));
            happens(at + later(chance, 1800, 7200), Act::Repair(node));
        }
        10 => {
            happens(at, Act::Hang(node.clone(), gpu));
            happens(at + later(chance, 60, 3600), Act::Repair(node));
        }
        11 => {
            happens(at, Act::PowerOff(node.clone()));
            happens(at + later(chance, 30, 3600), Act::PowerOn(node));
        }
        12 => {
            happens(at, Act::ExporterDown(node.clone()));
            happens(at + later(chance, 30, 3600), Act::ExporterUp(node));
        }
        13 => {
            happens(at, Act::Cordon(node.clone()));
            happens(at + later(chance, 30, 7200), Act::Uncordon(node));
        }
        14 => {
            let replicas = chance.random_range(1..=4);
            happens(at, Act::Scale("llm".to_owned(), replicas));
        }
        15 => happens(at, Act::DeletePod),
        16 => happens(at, Act::Restart),
        17 => happens(at, Act::Partition(later(chance, 5, 300))),
        18 => happens(at, Act::Compact),
        _ => happens(at, Act::Start),
    }
    if chance.random_bool(0.5) {
        let from = at + later(chance, 0, 600);
        let until = from + later(chance, 20, 900);
        let fault = line_fault(chance);
        // Where a server either does it or not, it does it to all.
        let always = matches!(
            fault,
            Fault::Query(QueryFault::Empty | QueryFault::Lagging(_))
        );
        let share = if always {
            1.0
        } else {
            chance.random_range(0.02..0.5)
        };
        let spell = Spell {
            from,
            until,
            fault,
            share,
            seed: chance.random(),
        };
        plan.events.push(Event {
            at: from,
            what: Happening::Spell(spell),
        });
    }
}

/// What comes between while a fault is dealt with.
fn meanwhile(
    chance: &mut ChaCha8Rng,
    node: &str,
    at: Duration,
    happens: &mut impl FnMut(Duration, Act),
) {
    for _ in 0..chance.random_range(0..=2) {
        let soon = at + Duration::from_millis(chance.random_range(1_000..600_000));
        let node = node.to_owned();
        match chance.random_range(0..14) {
            0..=2 => happens(soon, Act::Restart),
            3 => {
                happens(soon, Act::Crash);
                let back = soon + Duration::from_secs(chance.random_range(1..900));
                happens(back, Act::Start);
            }
            4 => happens(soon, Act::Uncordon(node)),
            5 => happens(soon, Act::DeleteFaults(node)),
            6 => happens(soon, Act::Retry(node)),
            7 => {
                happens(soon, Act::DeleteNode(node.clone()));
                let back = soon + Duration::from_secs(chance.random_range(10..3600));
                happens(back, Act::Rejoin(node));
            }
            8 => {
                let name = pick(chance, &["llm", "embed"]).to_owned();
                happens(soon, Act::Hanging(name.clone(), true));
                let back = soon + Duration::from_secs(chance.random_range(60..2400));
                happens(back, Act::Hanging(name, false));
            }
            9 => {
                happens(soon, Act::ImageFails("llm".to_owned(), true));
                let back = soon + Duration::from_secs(chance.random_range(60..2400));
                happens(back, Act::ImageFails("llm".to_owned(), false));
            }
            10 => happens(
                soon,
                Act::Partition(Duration::from_secs(chance.random_range(5..300))),
            ),
            11 => happens(soon, Act::ClockJump(chance.random_range(-600..=600))),
            12 => happens(soon, Act::PowerOff(node)),
            _ => happens(soon, Act::Cordon(node)),
        }
    }
}

fn line_fault(chance: &mut ChaCha8Rng) -> Fault {
    let seconds = Duration::from_secs(chance.random_range(1..=20));
    match chance.random_range(0..26) {
        0 => Fault::Call(CallFault::Conflict),
        1 => Fault::Call(CallFault::Gone),
        2 => Fault::Call(CallFault::TooMany {
            retry_after: Some(1),
        }),
        3 => Fault::Call(CallFault::Internal),
        4 => Fault::Call(CallFault::Unavailable),
        5 => Fault::Call(CallFault::NoAnswer),
        6 => Fault::Call(CallFault::Refused),
        7 => Fault::Call(CallFault::CutAfter),
        8 => Fault::Call(CallFault::SilentAfter),
        9 => Fault::Call(CallFault::Delay(seconds)),
        10 => Fault::Frame(FrameFault::Drop),
        11 => Fault::Frame(FrameFault::Delay(seconds)),
        12 => Fault::Frame(FrameFault::Duplicate),
        13 => Fault::Frame(FrameFault::Reorder),
        14 => Fault::Frame(FrameFault::Cut),
        15 => Fault::Query(QueryFault::Refused),
        16 => Fault::Query(QueryFault::Internal),
        17 => Fault::Query(QueryFault::NoAnswer),
        18 => Fault::Query(QueryFault::Warning),
        19 => Fault::Query(QueryFault::Partial),
        20 => Fault::Query(QueryFault::NotANumber),
        // Beyond the lookback of five minutes a server that lags finds nothing.
        21 => Fault::Query(QueryFault::Lagging(chance.random_range(30..280))),
        22 => Fault::Query(QueryFault::Empty),
        23 => Fault::Query(QueryFault::Unavailable),
        24 => Fault::Query(QueryFault::Garbage),
        _ => Fault::Query(QueryFault::CutShort),
    }
}

impl Plan {
    /// The nodes and workloads.
    #[must_use]
    pub fn world(&self) -> WorldPlan {
        // Pods with a GPU that nobody may touch: a DaemonSet's, and those of a protected namespace.
        let plan = WorldPlan::new()
            .nodes(self.nodes, 8)
            .workload(Workload::new(NAMESPACE, "probe", Owner::DaemonSet, 1, 1))
            .workload(Workload::new(
                "kube-system",
                "system",
                Owner::Deployment,
                2,
                1,
            ));
        self.loads.iter().fold(plan, |plan, load| {
            let workload =
                Workload::new(NAMESPACE, &load.name, load.owner, load.replicas, load.gpus);
            plan.workload(match load.min_available {
                Some(least) => workload.min_available(&least.to_string()),
                None => workload,
            })
        })
    }

    /// What happens, in words.
    #[must_use]
    pub fn story(&self, origin: Timestamp) -> Vec<(Timestamp, String)> {
        let at = |event: &Event| {
            let since = jiff::SignedDuration::try_from(event.at).unwrap_or_default();
            (origin + since, event.story())
        };
        self.events.iter().map(at).collect()
    }
}
