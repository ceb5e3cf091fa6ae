//! A decision in the making: a copy of the status that is changed step by step, and what goes with it.

use jiff::{SignedDuration, Timestamp};

use super::decision::{Decision, Effect, Next, Notice, Observation};
use super::world::Fault;
use crate::api::GpuFaultStatus;
use crate::api::conditions::{self, HoldReason};
use crate::api::fault_status::{Action, Attempt, Outcome, Phase, Timeline};

/// How many attempts an object keeps; a fault that comes back again and again must not outgrow etcd's object limit.
const ATTEMPTS_KEPT: usize = 50;

/// A decision in the making.
#[derive(Debug)]
pub struct Draft {
    /// The new status so far.
    pub status: GpuFaultStatus,
    before: GpuFaultStatus,
    generation: Option<i64>,
    now: Timestamp,
    notices: Vec<Notice>,
    observations: Vec<Observation>,
}

impl Draft {
    /// Starts from the fault as it is.
    pub fn new(fault: &Fault, now: Timestamp) -> Self {
        Self {
            status: fault.status.clone(),
            before: fault.status.clone(),
            generation: fault.generation,
            now,
            notices: Vec::new(),
            observations: Vec::new(),
        }
    }

    /// The time of the decision.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets one condition.
    pub fn condition(&mut self, type_: &str, status: Option<bool>, reason: &str, message: &str) {
        let list = &mut self.status.conditions;
        conditions::set(
            list,
            type_,
            status,
            reason,
            message,
            self.generation,
            self.now,
        );
    }

    /// Tells people.
    pub fn notice(&mut self, warning: bool, reason: &'static str, message: impl Into<String>) {
        self.notices.push(Notice {
            warning,
            reason,
            message: message.into(),
        });
    }

    /// Measures.
    pub fn observe(&mut self, observation: Observation) {
        self.observations.push(observation);
    }

    /// Moves the fault to a phase and says why.
    pub fn phase(&mut self, phase: Phase, reason: &'static str, message: impl Into<String>) {
        self.status.phase = phase;
        self.reason(reason, message);
    }

    /// Says why the fault is where it is.
    pub fn reason(&mut self, reason: &'static str, message: impl Into<String>) {
        self.status.reason = reason.to_string();
        self.status.message = message.into();
    }

    /// The fault may not proceed now: condition, Event and counter, each once per hold.
    pub fn hold(
        &mut self,
        condition: &str,
        value: bool,
        reason: HoldReason,
        message: impl Into<String>,
    ) {
        let message = message.into();
        let word = reason.as_str();
        let is_new =
            conditions::get(&self.status.conditions, condition).is_none_or(|c| c.reason != word);
        self.condition(condition, Some(value), word, &message);
        self.reason(word, message.clone());
        if is_new {
            self.observe(Observation::Held(reason));
            self.notice(true, word, message);
        }
    }

    /// No guard holds the fault any more.
    pub fn release(&mut self, reason: &str, message: &str) {
        for condition in [conditions::PAUSED, conditions::STOPPED] {
            if conditions::is_true(&self.status.conditions, condition) {
                self.condition(condition, Some(false), reason, message);
            }
        }
    }

    /// The fault has ended, or has failed.
    pub fn end(&mut self, phase: Phase, reason: &'static str, message: impl Into<String>) {
        let message = message.into();
        let succeeded = phase == Phase::Recovered;
        self.release("Ended", "The fault has ended");
        self.condition(conditions::SUCCEEDED, Some(succeeded), reason, &message);
        self.status.timeline.ended_at = Some(self.now);
        self.status.healthy_since = None;
        let running = if phase == Phase::Failed {
            Outcome::Failed
        } else {
            Outcome::Cancelled
        };
        for i in 0..self.status.attempts.len() {
            if self.status.attempts[i].outcome == Outcome::Running {
                self.finish(i, running, message.clone());
            }
        }
        self.notice(!succeeded, reason, message.clone());
        self.phase(phase, reason, message);
    }

    /// Begins an attempt: it stands in the status before its effect is performed.
    pub fn begin(&mut self, action: Action, step: Option<u32>) -> usize {
        let number = self
            .status
            .attempts
            .iter()
            .map(|a| a.number)
            .max()
            .unwrap_or(0)
            + 1;
        self.status.attempts.push(Attempt {
            number,
            round: self.status.round,
            action,
            step,
            started_at: self.now,
            finished_at: None,
            outcome: Outcome::Running,
            message: String::new(),
            pods: Vec::new(),
            stayed: Vec::new(),
            proven_since: None,
            held_since: None,
            held_millis: 0,
        });
        if self.status.attempts.len() > ATTEMPTS_KEPT {
            self.status.attempts.remove(0);
        }
        self.status.attempts.len() - 1
    }

    /// The running attempt of that action, if there is one in this round.
    pub fn running(&self, action: Action, step: Option<u32>) -> Option<usize> {
        self.status.attempts.iter().rposition(|a| {
            a.round == self.status.round
                && a.action == action
                && a.step == step
                && a.outcome == Outcome::Running
        })
    }

    /// Ends an attempt.
    pub fn finish(&mut self, index: usize, outcome: Outcome, message: impl Into<String>) {
        let attempt = &mut self.status.attempts[index];
        attempt.outcome = outcome;
        attempt.finished_at = Some(self.now);
        attempt.message = message.into();
        let action = attempt.action;
        if outcome != Outcome::Cancelled {
            self.observe(Observation::ActionEnded(action, outcome == Outcome::Failed));
        }
    }

    /// Time since the rule's expression first crossed.
    pub fn since_active(&self) -> SignedDuration {
        let start = self.status.active_at.unwrap_or(self.now);
        self.now.duration_since(start).max(SignedDuration::ZERO)
    }

    /// Begins another occurrence: the fault had ended, and is there again.
    pub fn reopen(&mut self, active_at: Timestamp, why: &str) {
        let status = &mut self.status;
        status.occurrence += 1;
        // Rounds and attempts are counted on, so that no attempt of the former occurrence is taken for one of this.
        status.round += 1;
        status.active_at = Some(active_at);
        status.plan.clear();
        status.isolation = None;
        status.displaced_pods.clear();
        status.healthy_since = None;
        status.timeline = Timeline::default();
        status.conditions.clear();
        let occurrence = status.occurrence;
        let message = format!("{why}; occurrence {occurrence}");
        self.condition(
            conditions::ADMITTED,
            Some(false),
            HoldReason::New.as_str(),
            &message,
        );
        self.condition(conditions::SUCCEEDED, None, "Open", "The fault is open");
        self.phase(Phase::Pending, HoldReason::New.as_str(), message.clone());
        self.notice(true, "Reopened", message);
    }

    /// Ends the drafting: nothing to do before something changes.
    pub fn on_change(self) -> Decision {
        self.decision(None, Next::OnChange)
    }

    /// Ends the drafting: look again after some time.
    pub fn after(self, delay: SignedDuration) -> Decision {
        self.decision(None, Next::After(delay))
    }

    /// Ends the drafting with an effect.
    pub fn perform(self, effect: Effect) -> Decision {
        self.decision(Some(effect), Next::Now)
    }

    /// Ends the drafting with an effect and a time to look again.
    pub fn perform_then(self, effect: Option<Effect>, next: Next) -> Decision {
        self.decision(effect, next)
    }

    fn decision(self, effect: Option<Effect>, next: Next) -> Decision {
        let status = (self.status != self.before).then_some(self.status);
        Decision {
            status,
            effect,
            notices: self.notices,
            observations: self.observations,
            next,
        }
    }
}
