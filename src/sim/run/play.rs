//! One history of a plan.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::acts::{self, Act};
use super::answered;
use super::chronicle::{Chronicle, Line};
use super::random::{Happening, Plan};
use super::setup::{Setup, StartError};
use super::shipped;
use super::simulation::{BEGINNING, Simulation};
use crate::api::policy::Guard;
use crate::api::{GpuFault, Phase, RemediationPolicy};
use crate::remediation::mark::CordonMark;
use crate::sim::api_server::resources::{GPU_FAULTS, NODES};
use crate::sim::faults::Spell;
use crate::sim::promises::Violation;

/// How often it is looked whether a controller has ended by itself, as the kubelet does.
const LOOK: Duration = Duration::from_secs(20);

/// How long the quiet end is: longer than the steps of the shipped policy, which wait an hour at most, and the proof after them.
const QUIET: Duration = Duration::from_secs(2 * 3600);

/// When in the quiet end a person resumes what a guard has stopped.
const RESUME: Duration = Duration::from_secs(900);

/// How a plan ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Promises broken on the way.
    pub violations: Vec<Violation>,
    /// Promises broken when all had come to rest.
    pub settled: Vec<Violation>,
    /// What happened.
    pub story: Vec<Line>,
    /// A hash over everything that was written.
    pub digest: String,
    /// How many checks were made.
    pub checks: u64,
    /// How much time was simulated.
    pub simulated: Duration,
    /// How many faults were opened.
    pub faults: u64,
    /// How many faults of calls, watches and questions were injected.
    pub injected: u64,
}

impl Outcome {
    /// The first broken promise.
    #[must_use]
    pub fn broken(&self) -> Option<&Violation> {
        self.violations.first().or_else(|| self.settled.first())
    }
}

/// A plan cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The shipped rules or the shipped policy cannot be read.
    #[error(transparent)]
    Shipped(#[from] shipped::Unreadable),
    /// The simulation does not begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no runtime.
    #[error(transparent)]
    Runtime(#[from] super::runtime::RuntimeError),
}

/// Plays a plan to its end, on a runtime of its own.
///
/// # Errors
///
/// It cannot begin. A broken promise is no error, but part of the outcome.
pub fn play(plan: &Plan) -> Result<Outcome, PlayError> {
    super::block_on(played(plan))?
}

fn policy(plan: &Plan) -> Result<RemediationPolicy, PlayError> {
    let mut policy = shipped::policy()?;
    let spec = &mut policy.spec;
    spec.budget.max_unavailable = Some(match plan.max_unavailable.parse() {
        Ok(number) => IntOrString::Int(number),
        Err(_) => IntOrString::String(plan.max_unavailable.clone()),
    });
    spec.budget.max_concurrent = Some(plan.max_concurrent);
    let guard = |name: &str, deployment: &str| Guard {
        name: name.to_owned(),
        expr: format!(
            "kube_deployment_status_replicas_available{{deployment=\"{deployment}\"}} < 1"
        ),
    };
    let [pauses, stops] = plan.guards;
    if pauses {
        spec.guards.pause_if.push(guard("llm-suffers", "llm"));
    }
    if stops {
        spec.guards
            .stop_if
            .push(guard("gateway-is-down", "gateway"));
    }
    Ok(policy)
}

async fn played(plan: &Plan) -> Result<Outcome, PlayError> {
    let rules = shipped::rules(Some(plan.interval))?;
    let mut setup = Setup::new(plan.world(), rules, policy(plan)?);
    let spells = plan.events.iter().filter_map(|event| match &event.what {
        Happening::Spell(spell) => Some(Spell {
            until: spell.until.min(plan.length),
            ..spell.clone()
        }),
        Happening::Act(_) => None,
    });
    setup.spells = spells.collect();
    setup.seed = plan.seed;
    setup.scrape_interval = Duration::from_secs(15);
    setup.evaluation_interval = plan.interval;
    setup.lease = [60, 40, 10].map(Duration::from_secs);
    let policy_name = setup.policies[0].metadata.name.clone().unwrap_or_default();
    let mut simulation = Simulation::start(setup)?;
    let chronicle = Chronicle::default();
    let mut ended = Vec::new();
    simulation.api.observe(Box::new(chronicle.clone()));
    for _ in 0..plan.controllers {
        acts::start(&mut simulation)?;
    }
    for event in &plan.events {
        run_to(&mut simulation, &mut ended, event.at).await?;
        chronicle.tell(simulation.clock.now(), format!("* {}", event.story()));
        if let Happening::Act(act) = &event.what {
            act.perform(&mut simulation)?;
        }
    }
    run_to(&mut simulation, &mut ended, plan.length).await?;
    chronicle.tell(simulation.clock.now(), "* the quiet end begins".to_owned());
    quiet(&mut simulation, plan)?;
    run_to(&mut simulation, &mut ended, plan.length + RESUME).await?;
    Act::Resume(policy_name).perform(&mut simulation)?;
    run_to(&mut simulation, &mut ended, plan.length + QUIET).await?;
    let now = simulation.clock.now();
    let mut settled = simulation.promises.with(|p| p.settled(now));
    settled.extend(unexplained(&simulation, plan, now));
    let (answers, unanswered) = answered::unanswered(plan, &faults(&simulation), now);
    settled.extend(unanswered);
    settled.extend(ended);
    Ok(Outcome {
        violations: simulation.violations(),
        settled,
        story: chronicle.take(),
        digest: simulation.digest.value(),
        checks: simulation.checked() + answers,
        simulated: simulation.elapsed(),
        faults: opened(&simulation),
        injected: simulation.injector.injected(),
    })
}

/// Runs to a moment, and starts another controller for each that has ended by itself, as a Deployment does. None has a
/// reason to.
async fn run_to(
    simulation: &mut Simulation,
    broken: &mut Vec<Violation>,
    moment: Duration,
) -> Result<(), StartError> {
    loop {
        let next = moment.min(simulation.elapsed() + LOOK);
        simulation.run_to(next).await;
        let ended = |place: &usize| {
            let process = &simulation.processes[*place];
            !process.is_alive() && !process.gate.is_cut()
        };
        let ended: Vec<usize> = (0..simulation.processes.len()).filter(ended).collect();
        for place in ended {
            broken.push(Violation {
                promise: 9,
                at: simulation.clock.now(),
                what: format!("{} ended by itself", simulation.processes[place].identity),
            });
            simulation.restart(place)?;
        }
        if next >= moment {
            return Ok(());
        }
    }
}

/// Everything is mended, and at least one controller lives.
fn quiet(simulation: &mut Simulation, plan: &Plan) -> Result<(), StartError> {
    for number in 1..=plan.nodes {
        let node = format!("gpu-{number}");
        if !simulation.world.hardware().has_power(&node) {
            Act::PowerOn(node.clone()).perform(simulation)?;
        }
        Act::ExporterUp(node.clone()).perform(simulation)?;
        Act::Repair(node.clone()).perform(simulation)?;
        Act::Rejoin(node).perform(simulation)?;
    }
    for load in &plan.loads {
        Act::Hanging(load.name.clone(), false).perform(simulation)?;
        Act::ImageFails(load.name.clone(), false).perform(simulation)?;
    }
    let now = simulation.clock.now();
    for process in &simulation.processes {
        process.gate.partition(false);
        // A time server sets the clocks.
        process.clock.jump(now.duration_since(process.clock.now()));
    }
    if acts::leading(simulation).is_none() {
        acts::start(simulation)?;
    }
    Ok(())
}

fn faults(simulation: &Simulation) -> Vec<GpuFault> {
    let all = simulation.api.store("observer").list(GPU_FAULTS);
    let read = |fault: &Value| serde_json::from_value(fault.clone()).ok();
    all.iter().filter_map(|fault| read(fault)).collect()
}

fn opened(simulation: &Simulation) -> u64 {
    let all = faults(simulation);
    let status = |fault: &GpuFault| fault.status.as_ref().map_or(0, |s| s.occurrence);
    all.iter().map(|fault| u64::from(status(fault))).sum()
}

/// Each node is given back, or a fault that a person must look at holds it, or a person cordoned it. Every fault that can end
/// has ended.
fn unexplained(simulation: &Simulation, plan: &Plan, now: Timestamp) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut broken = |promise: u8, what: String| {
        found.push(Violation {
            promise,
            at: now,
            what,
        });
    };
    let faults = faults(simulation);
    for fault in &faults {
        let Some(status) = &fault.status else {
            continue;
        };
        if !status.phase.is_over() && status.phase != Phase::Failed {
            let name = fault.metadata.name.as_deref().unwrap_or_default();
            broken(
                7,
                format!(
                    "the hardware works since {}s, and {name} is still {} ({})",
                    QUIET.as_secs(),
                    status.phase.as_str(),
                    status.reason
                ),
            );
        }
    }
    for node in simulation.api.store("observer").list(NODES) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let cordoned = node["spec"]["unschedulable"] == true;
        let by_person = plan
            .events
            .iter()
            .any(|e| e.what == Happening::Act(Act::Cordon(name.to_owned())));
        let text = node["metadata"]["annotations"][crate::api::names::CORDON_ANNOTATION].as_str();
        let mark: Option<CordonMark> = text.and_then(|text| serde_json::from_str(text).ok());
        match mark {
            None => {
                if cordoned && !by_person {
                    broken(5, format!("{name} is cordoned, and nobody wants it to be"));
                }
            }
            Some(mark) => {
                let holds = |fault: &GpuFault| {
                    let meta = &fault.metadata;
                    let name = meta.name.as_deref().unwrap_or_default();
                    let phase = fault.status.as_ref().map(|s| s.phase);
                    mark.holds(name, meta.uid.as_deref().unwrap_or_default())
                        && phase == Some(Phase::Failed)
                };
                if !faults.iter().any(holds) {
                    broken(
                        7,
                        format!("{name} is still marked, and no fault that failed holds it"),
                    );
                }
            }
        }
    }
    found
}

/// When plans begin.
#[must_use]
pub fn origin() -> Timestamp {
    Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH)
}
