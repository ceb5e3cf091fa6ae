//! What the driver of a scenario tells by itself.

use super::driver::{NOT_LOADED, ScenarioDriver};
use super::form::Driver;
use super::step::{Action, Step, What};
use crate::nvml::{DriverError, Event, Events};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The event that goes with an Xid 154.
const RECOVERY: &str = "recovery_action";

/// The events of one GPU, from its registration on. Holds the session.
pub(super) struct ScenarioEvents {
    session: Arc<ScenarioDriver>,
    slot: usize,
    /// The number of the first happening that was not looked at.
    next: u64,
    waiting: VecDeque<Event>,
}

impl ScenarioEvents {
    pub(super) fn register(session: Arc<ScenarioDriver>, slot: usize) -> Self {
        let simulation = &session.0;
        let next = simulation
            .scenario
            .timeline
            .after(simulation.clock.elapsed());
        Self {
            session,
            slot,
            next,
            waiting: VecDeque::new(),
        }
    }

    fn told(&self, step: &Step) -> VecDeque<Event> {
        let mut told = VecDeque::new();
        if matches!(step.what, What::Gpu { slot, .. } if slot == self.slot)
            && let Some((xid, source)) = self.session.0.xid(step)
            && source.has_nvml()
        {
            told.push_back(Event::Xid {
                code: xid.code,
                gpu_instance: xid.gpu_instance,
                compute_instance: xid.compute_instance,
            });
            let action = match &step.what {
                What::Gpu { action, .. } => Some(action),
                _ => None,
            };
            if let Some(Action::Recovery { .. }) = action {
                told.push_back(Event::Other(RECOVERY));
            }
        }
        told
    }
}

impl Events for ScenarioEvents {
    fn others(&self) -> Vec<&'static str> {
        vec![RECOVERY]
    }

    fn next(&mut self, wait: Duration) -> Result<Option<Event>, DriverError> {
        let simulation = Arc::clone(&self.session.0);
        let end = simulation.clock.elapsed().saturating_add(wait);
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Some(event));
            }
            // A driver that hangs keeps who waits for an event beyond the end of the wait.
            let (now, moment) = simulation.answering();
            let timeline = &simulation.scenario.timeline;
            let next = timeline.happening(self.next);
            if let Some(next) = next.filter(|next| next.at <= now) {
                self.next += 1;
                self.waiting = self.told(next.step);
                continue;
            }
            if moment.driver == Driver::Unloaded {
                return Err(DriverError::Gone {
                    call: "nvmlEventSetWait_v2",
                    code: NOT_LOADED,
                });
            }
            if now >= end {
                return Ok(None);
            }
            simulation
                .clock
                .wait_until(next.map_or(end, |next| next.at.min(end)));
        }
    }
}
