//! Crash points: one story, told again and again, with the controller dying just before and just after each of its
//! calls. Whenever it dies, the next one must come to the same end.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::setup::{Setup, StartError, TooLate};
use super::simulation::{CONTROLLER, Simulation};
use super::{block_on, runtime::RuntimeError};
use crate::api::names::CORDON_ANNOTATION;
use crate::sim::api_server::{Call, Observer, Verb, Write, resources};
use crate::sim::faults::{Gate, Side};
use crate::sim::promises::Violation;

/// A story whose end can be compared.
pub trait Story {
    /// The cluster, without a controller.
    fn setup(&self) -> Setup;

    /// What happens, once a controller was started. It ends when nothing is left to happen.
    ///
    /// # Errors
    ///
    /// Something that the story waits for does not come.
    fn happen(&self, simulation: &Simulation) -> impl Future<Output = Result<(), TooLate>>;
}

/// A run cannot be made, or does not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// No runtime.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The cluster cannot begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The story does not end.
    #[error("with a crash {0}: the story does not end")]
    Late(String, #[source] TooLate),
}

/// What is left when a story has ended. It does not tell when things happened, nor what pods that were made on the way
/// are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Phase and reason of each fault, by its name.
    pub faults: BTreeMap<String, (String, String)>,
    /// Whether each node is unschedulable, and bears our mark.
    pub nodes: BTreeMap<String, (bool, bool)>,
    /// How many pods run on each node.
    pub pods: BTreeMap<String, usize>,
    /// The pods that were evicted, as the first of their name.
    pub evicted: BTreeSet<String>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was left.
    pub end: End,
    /// The calls that the first controller made.
    pub calls: u64,
    /// Pods of which an eviction was accepted more than once.
    pub evicted_twice: Vec<String>,
    /// Broken promises.
    pub violations: Vec<Violation>,
    /// How often a promise was looked at.
    pub checked: u64,
}

/// Tells the story once. With a crash point the first controller dies there, and another one with another name is
/// started.
///
/// # Errors
///
/// It cannot begin, or does not end.
pub fn tell(story: &impl Story, crash: Option<(u64, Side)>) -> Result<Run, CrashError> {
    block_on(async {
        let mut simulation = Simulation::start(story.setup())?;
        let evictions = Evictions::default();
        simulation.api.observe(Box::new(evictions.clone()));
        let gate = Gate::default();
        if let Some((call, side)) = crash {
            gate.cut_at(call, side);
        }
        let first = format!("{CONTROLLER}-1");
        simulation.start_controller_with(&first, gate.clone())?;
        if crash.is_some() {
            simulation.follow_crash(&first, &gate, &format!("{CONTROLLER}-2"))?;
        }
        let told = story.happen(&simulation).await;
        told.map_err(|late| {
            let when = crash.map_or("never".to_owned(), |(call, side)| {
                format!("{side:?} call {call}")
            });
            CrashError::Late(when, late)
        })?;
        let mut violations = simulation.violations();
        let now = simulation.clock.now();
        violations.extend(simulation.promises.with(|p| p.settled(now)));
        Ok(Run {
            end: end(&simulation, &evictions),
            calls: gate.passed(),
            evicted_twice: evictions.twice(),
            violations,
            checked: simulation.checked(),
        })
    })?
}

impl Run {
    /// What a run with a crash did otherwise than this one, which had none: nothing, if the product holds.
    #[must_use]
    pub fn differences(&self, crashed: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if crashed.end.faults != self.end.faults {
            found.push(format!("the faults ended as {:?}", crashed.end.faults));
        }
        if crashed.end.nodes != self.end.nodes {
            found.push(format!("the nodes ended as {:?}", crashed.end.nodes));
        }
        if crashed.end.evicted != self.end.evicted {
            found.push(format!("evicted were {:?}", crashed.end.evicted));
        }
        let running = |run: &Self| run.end.pods.values().sum::<usize>();
        if running(crashed) != running(self) {
            found.push(format!("the pods ended as {:?}", crashed.end.pods));
        }
        let twice = crashed.evicted_twice.iter();
        found.extend(twice.map(|what| format!("evicted more than once: {what}")));
        let broken = crashed.violations.iter();
        found.extend(broken.map(|v| format!("promise {} at {}: {}", v.promise, v.at, v.what)));
        found
    }
}

fn end(simulation: &Simulation, evictions: &Evictions) -> End {
    let store = simulation.api.store("observer");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |object: &Value| text(&object["metadata"]["name"]);
    let faults = store.list(resources::GPU_FAULTS);
    let faults = faults.iter().map(|fault| {
        let status = &fault["status"];
        (
            name(fault),
            (text(&status["phase"]), text(&status["reason"])),
        )
    });
    let nodes = store.list(resources::NODES);
    let nodes = nodes.iter().map(|node| {
        let mark = &node["metadata"]["annotations"][CORDON_ANNOTATION];
        let out = node["spec"]["unschedulable"] == true;
        (name(node), (out, !mark.is_null()))
    });
    let mut pods = BTreeMap::new();
    for pod in store.list(resources::PODS) {
        if pod["metadata"]["deletionTimestamp"].is_null() {
            *pods.entry(text(&pod["spec"]["nodeName"])).or_default() += 1;
        }
    }
    End {
        faults: faults.collect(),
        nodes: nodes.collect(),
        pods,
        evicted: evictions.names(),
    }
}

/// Counts the evictions that the API server accepted, by pod UID.
#[derive(Clone, Default)]
struct Evictions {
    accepted: Arc<Mutex<BTreeMap<String, (String, u32)>>>,
}

impl Evictions {
    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<String, (String, u32)>) -> T) -> T {
        look(&mut self.accepted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn names(&self) -> BTreeSet<String> {
        self.with(|accepted| accepted.values().map(|(name, _)| name.clone()).collect())
    }

    fn twice(&self) -> Vec<String> {
        self.with(|accepted| {
            let twice = accepted.values().filter(|(_, times)| *times > 1);
            twice
                .map(|(name, times)| format!("{name}: {times} times"))
                .collect()
        })
    }
}

impl Observer for Evictions {
    fn called(&mut self, call: &Call) {
        let evicts = call.verb == Verb::Create && call.subresource.as_deref() == Some("eviction");
        if !evicts || call.dry_run || call.code >= 300 {
            return;
        }
        let body = call.body.as_deref();
        let uid = body.and_then(|b| b["deleteOptions"]["preconditions"]["uid"].as_str());
        let uid = uid.unwrap_or("without a UID").to_owned();
        let name = call.name.clone().unwrap_or_default();
        self.with(|accepted| accepted.entry(uid).or_insert((name, 0)).1 += 1);
    }

    fn wrote(&mut self, _: &Write) {}
}

/// The crash points of a story with so many calls: both sides of each call, or of at most `most` calls that lie evenly
/// between the first and the last.
#[must_use]
pub fn points(calls: u64, most: u64) -> Vec<(u64, Side)> {
    let chosen: BTreeSet<u64> = if calls <= most {
        (1..=calls).collect()
    } else {
        (0..most)
            .map(|n| 1 + n * (calls - 1) / (most - 1).max(1))
            .collect()
    };
    let both = |call| [(call, Side::Before), (call, Side::After)];
    chosen.into_iter().flat_map(both).collect()
}

/// The shipped rule and policy from an Xid to the node's return, with a Deployment under a PodDisruptionBudget, a
/// StatefulSet and a pod without a GPU on the node.
#[derive(Clone, Copy, Debug, Default)]
pub struct FellOffTheBus;

impl FellOffTheBus {
    const NODE: &'static str = "gpu-1";
}

impl Story for FellOffTheBus {
    fn setup(&self) -> Setup {
        use crate::sim::world::{Owner, Workload, WorldPlan};
        let world = WorldPlan::new()
            .nodes(3, 8)
            .workload(Workload::new("ml", "llm", Owner::Deployment, 3, 2).min_available("2"))
            .workload(Workload::new("ml", "db", Owner::StatefulSet, 3, 1))
            .workload(Workload::new("ml", "web", Owner::Deployment, 3, 0));
        // A day of questions each second would say no more; the objects are part of the program.
        #[allow(clippy::expect_used)]
        let mut rules = super::shipped::rules(Some(Duration::from_secs(10))).expect("shipped");
        for group in &mut rules.spec.groups {
            group.rules.truncate(1);
        }
        #[allow(clippy::expect_used)]
        let policy = super::shipped::policy().expect("shipped");
        let mut setup = Setup::new(world, rules, policy);
        setup.scrape_interval = Duration::from_secs(5);
        setup
    }

    async fn happen(&self, simulation: &Simulation) -> Result<(), TooLate> {
        let minute = Duration::from_secs(60);
        simulation.run_for(2 * minute).await;
        let hardware = simulation.world.hardware();
        hardware.xid(Self::NODE, 0, 79);
        let status = |simulation: &Simulation, field: fn(&Value) -> bool| {
            let faults = simulation.api.store("observer").list(resources::GPU_FAULTS);
            faults.len() == 1 && faults.iter().all(|fault| field(&fault["status"]))
        };
        simulation
            .run_until("the node is drained", 10 * minute, |s| {
                status(s, |status| !status["timeline"]["drainedAt"].is_null())
            })
            .await?;
        hardware.repair(Self::NODE);
        simulation
            .run_until("the fault has ended", 60 * minute, |s| {
                status(s, |status| status["phase"] == "Recovered")
            })
            .await?;
        // Whatever would still happen happens now.
        simulation.run_for(2 * minute).await;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    /// Two runs for each, spread over the whole story: a debug build takes seconds for each run.
    /// `gpu-remediator simulate --crash-points` goes through all calls.
    const MOST: u64 = 3;

    #[test]
    fn points_lie_on_both_sides_from_the_first_call_to_the_last() {
        assert_eq!(points(2, 5).len(), 4);
        let some = points(1000, 5);
        assert_eq!(some.len(), 10);
        assert_eq!((some[0].0, some[9].0), (1, 1000));
    }

    #[test]
    fn wherever_the_controller_dies_the_end_is_the_same() {
        let whole = tell(&FellOffTheBus, None).unwrap();
        assert_eq!(whole.violations, []);
        assert_eq!(whole.evicted_twice, Vec::<String>::new());
        assert!(!whole.end.evicted.is_empty());
        assert!(whole.end.nodes.values().all(|(out, mark)| !out && !mark));
        for point in points(whole.calls, MOST) {
            let run = tell(&FellOffTheBus, Some(point)).unwrap();
            assert_eq!(whole.differences(&run), Vec::<String>::new(), "{point:?}");
        }
    }
}
