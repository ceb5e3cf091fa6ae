//! Evaluates every rule group of every `GpuFaultRule`, for as long as this process leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::runtime::reflector::Store;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::opening::FaultOpener;
use super::rule_group::{GroupRun, Surroundings};
use super::rule_status::StatusWriter;
use crate::api::rule::{GpuFaultRule, RuleStatus};
use crate::clock::Clock;
use crate::rules::schedule::Schedule;
use crate::rules::state::longest_gap;

/// How often the local copy of the rules is compared with what is being evaluated although no change was told of: a rule
/// that was deleted while the watch was down is missing from the next list, and nothing else says so.
const LOOK_FOR_CHANGES: Duration = Duration::from_secs(5);

/// The shortest time between two looks at whether the object still says what the evaluations have shown.
const LOOK_AT_STATUS: Duration = Duration::from_secs(1);

/// The longest: an evaluation that does not come is news as well.
const LOOK_ANYWAY: Duration = Duration::from_secs(30);

/// Evaluates rules.
pub struct Evaluator<O> {
    /// The rules, kept up to date by a reflector.
    pub rules: Store<GpuFaultRule>,
    /// Told when the store has changed.
    pub changed: Arc<Notify>,
    /// For writing their status.
    pub client: kube::Client,
    /// Prometheus, the opener, the policies and the metrics.
    pub surroundings: Arc<Surroundings<O>>,
    /// The interval of groups that name none.
    pub default_interval: Duration,
}

/// The evaluation of one object.
struct ObjectRun {
    uid: Option<String>,
    generation: Option<i64>,
    groups: Arc<Vec<Mutex<GroupRun>>>,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

impl<O: FaultOpener> Evaluator<O> {
    /// Evaluates until `cancel` is cancelled, which must happen as soon as this process no longer leads.
    pub async fn run(self, cancel: CancellationToken) {
        let mut running: BTreeMap<String, ObjectRun> = BTreeMap::new();
        let mut look = tokio::time::interval(LOOK_FOR_CHANGES);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = self.changed.notified() => {}
                _ = look.tick() => {}
            }
            self.follow(&mut running, &cancel).await;
        }
        for (_, run) in running {
            // The next leader says what is wrong with the rule; the counters stay.
            for group in run.stop().await.iter() {
                for labels in group.lock().await.metric_labels() {
                    self.surroundings.metrics.degraded(labels, None);
                }
            }
        }
    }

    /// Starts, restarts and stops evaluations so that they follow the objects.
    async fn follow(&self, running: &mut BTreeMap<String, ObjectRun>, cancel: &CancellationToken) {
        let objects: BTreeMap<String, Arc<GpuFaultRule>> = self
            .rules
            .state()
            .into_iter()
            .filter(|object| object.metadata.deletion_timestamp.is_none())
            .map(|object| (object.name_any(), object))
            .collect();
        let ended: Vec<String> = running
            .iter()
            .filter(|(name, run)| {
                objects.get(*name).is_none_or(|object| {
                    run.uid != object.metadata.uid || run.generation != object.metadata.generation
                })
            })
            .map(|(name, _)| name.clone())
            .collect();
        let mut states: BTreeMap<String, Vec<RuleStatus>> = BTreeMap::new();
        for name in ended {
            let Some(run) = running.remove(&name) else {
                continue;
            };
            let same = objects
                .get(&name)
                .is_some_and(|object| run.uid == object.metadata.uid);
            let groups = run.stop().await;
            for group in groups.iter() {
                let group = group.lock().await;
                for labels in group.metric_labels() {
                    self.surroundings.metrics.stop(labels);
                }
                if same {
                    let state = states.entry(name.clone()).or_default();
                    state.extend(group.statuses(self.surroundings.clock.now()));
                }
            }
        }
        for (name, object) in &objects {
            if !running.contains_key(name) {
                let state = states.remove(name);
                running.insert(name.clone(), self.start(object, state, cancel));
            }
        }
    }

    /// Begins to evaluate an object. What an earlier evaluation in this process knew is fresher than the object's status.
    fn start(
        &self,
        object: &GpuFaultRule,
        state: Option<Vec<RuleStatus>>,
        cancel: &CancellationToken,
    ) -> ObjectRun {
        let cancel = cancel.child_token();
        let name = object.name_any();
        let before = state
            .or_else(|| object.status.as_ref().map(|status| status.rules.clone()))
            .unwrap_or_default();
        let now = self.surroundings.clock.now();
        let mut tasks = JoinSet::new();
        let mut schedules = Vec::new();
        let mut groups = Vec::new();
        for group in &object.spec.groups {
            let interval = group
                .interval
                .map(|interval| interval.as_duration())
                .filter(|interval| !interval.is_zero())
                .unwrap_or(self.default_interval);
            let signed = SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX);
            let run = GroupRun::new(&name, group, signed, &before, now);
            for labels in run.metric_labels() {
                self.surroundings.metrics.start(labels);
            }
            schedules.push(Schedule::new(&name, &group.name, interval));
            groups.push(Mutex::new(run));
        }
        let groups = Arc::new(groups);
        let evaluated = Arc::new(Notify::new());
        for (index, schedule) in schedules.into_iter().enumerate() {
            tasks.spawn(evaluate_group(
                Arc::clone(&groups),
                index,
                schedule,
                Arc::clone(&self.surroundings),
                Arc::clone(&evaluated),
                cancel.clone(),
            ));
        }
        let writer = StatusWriter::new(self.client.clone(), object);
        let clock = self.surroundings.clock.clone();
        tasks.spawn(write_status(
            Arc::clone(&groups),
            writer,
            clock,
            evaluated,
            cancel.clone(),
        ));
        ObjectRun {
            uid: object.metadata.uid.clone(),
            generation: object.metadata.generation,
            groups,
            cancel,
            tasks,
        }
    }
}

impl ObjectRun {
    /// Ends the evaluation. A request that is under way is waited for, so that the state is whole.
    async fn stop(mut self) -> Arc<Vec<Mutex<GroupRun>>> {
        self.cancel.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "an evaluation ended badly");
            }
        }
        self.groups
    }
}

async fn evaluate_group<O: FaultOpener>(
    groups: Arc<Vec<Mutex<GroupRun>>>,
    index: usize,
    schedule: Schedule,
    surroundings: Arc<Surroundings<O>>,
    evaluated: Arc<Notify>,
    cancel: CancellationToken,
) {
    let Some(group) = groups.get(index) else {
        return;
    };
    let gap = longest_gap(schedule.interval());
    let mut last = None;
    loop {
        let now = surroundings.clock.now();
        // A clock that was ahead and was set back is not waited for.
        last = last.filter(|last: &Timestamp| last.duration_since(now) <= gap);
        let slot = schedule.next(last.map_or(now, |last: Timestamp| now.max(last)));
        if let Some(last) = last {
            surroundings.metrics.missed(schedule.missed(last, slot));
        }
        last = Some(slot);
        let wait = Duration::try_from(slot.duration_since(now)).unwrap_or(Duration::ZERO);
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        if surroundings.clock.now().duration_since(slot).abs() > gap {
            // The clock was set meanwhile: the slot is of another time.
            continue;
        }
        let mut group = group.lock().await;
        group
            .evaluate(slot, &surroundings, &|| !cancel.is_cancelled())
            .await;
        evaluated.notify_one();
    }
}

async fn write_status(
    groups: Arc<Vec<Mutex<GroupRun>>>,
    mut writer: StatusWriter,
    clock: Clock,
    evaluated: Arc<Notify>,
    cancel: CancellationToken,
) {
    loop {
        let next = async {
            tokio::time::sleep(LOOK_AT_STATUS).await;
            let _ = tokio::time::timeout(LOOK_ANYWAY, evaluated.notified()).await;
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = next => {}
        }
        let now = clock.now();
        let mut statuses = Vec::new();
        for group in groups.iter() {
            statuses.extend(group.lock().await.statuses(now));
        }
        if let Err(error) = writer.write(statuses, now).await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(rule = %writer.name(), %error, ?cause, "the status of a rule could not be written; it is tried again");
            evaluated.notify_one();
        }
    }
}

#[cfg(test)]
#[path = "evaluator_tests.rs"]
mod tests;
