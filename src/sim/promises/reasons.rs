//! Promise 9: nothing happens silently.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::cluster::{Step, word};
use super::{Findings, PromisesConfig};
use crate::api::Phase;
use crate::api::conditions::{self, ADMITTED, HoldReason, SUCCEEDED};
use crate::sim::api_server::resources::{CORE_EVENTS, EVENTS};

/// Events that must come.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    /// By fault and reason: since when, and from whom.
    awaited: BTreeMap<(String, String), (Timestamp, String)>,
}

impl Reasons {
    pub fn crashed(&mut self, actor: &str) {
        self.awaited.retain(|_, (_, from)| from != actor);
    }

    /// Events that have not come: the fault, the reason, and since when.
    pub fn missing(&self) -> impl Iterator<Item = (&str, &str, Timestamp)> {
        let all = self.awaited.iter();
        all.map(|((fault, reason), (since, _))| (fault.as_str(), reason.as_str(), *since))
    }

    pub fn wrote(
        &mut self,
        step: &Step<'_>,
        ours: bool,
        config: &PromisesConfig,
        found: &mut Findings,
    ) {
        let write = step.write;
        if !ours {
            return;
        }
        if let Some(event) = write.after.as_deref()
            && (write.resource == EVENTS || write.resource == CORE_EVENTS)
        {
            let name = |about: &str| word(&event[about]["name"]);
            let reason = word(&event["reason"]);
            self.awaited.remove(&(name("regarding"), reason.clone()));
            self.awaited.remove(&(name("involvedObject"), reason));
            return;
        }
        let Some((Some(before), Some(after))) = &step.fault else {
            return;
        };
        let (at, status) = (write.at, &after.status);
        // The first status of a fault moves nothing, but says why it waits.
        if *status == before.status {
            return;
        }
        found.check(9, at, !status.reason.is_empty(), || {
            format!("{} has no reason", after.name)
        });
        let reason_of = |type_| conditions::get(&status.conditions, type_);
        let held = HoldReason::ALL.iter().any(|h| h.as_str() == status.reason);
        if status.phase == Phase::Pending && held {
            let condition = reason_of(ADMITTED);
            let told = condition.is_some_and(|c| c.status == "False" && c.reason == status.reason);
            found.check(9, at, told, || {
                format!(
                    "{} is held by {}, and its condition does not say so",
                    after.name, status.reason
                )
            });
            let was = conditions::get(&before.status.conditions, ADMITTED);
            if config.events_arrive && was.is_none_or(|c| c.reason != status.reason) {
                let key = (after.name.clone(), status.reason.clone());
                self.awaited.insert(key, (at, write.actor.to_string()));
            }
        }
        if before.status.phase == status.phase {
            return;
        }
        let (succeeded, told) = match status.phase {
            Phase::Processing => {
                let told = reason_of(ADMITTED).is_some_and(|c| c.status == "True");
                (told, "Admitted".to_owned())
            }
            Phase::Recovered | Phase::Failed | Phase::Cancelled => {
                let wanted = if status.phase == Phase::Recovered {
                    "True"
                } else {
                    "False"
                };
                let condition = reason_of(SUCCEEDED);
                let told =
                    condition.is_some_and(|c| c.status == wanted && c.reason == status.reason);
                (told, status.reason.clone())
            }
            _ => return,
        };
        found.check(9, at, succeeded, || {
            format!(
                "{} is {:?} ({}), and no condition says so",
                after.name, status.phase, status.reason
            )
        });
        let refired = before.status.phase != Phase::Pending && status.phase == Phase::Processing;
        if config.events_arrive && !refired {
            let from = write.actor.to_string();
            self.awaited.insert((after.name.clone(), told), (at, from));
        }
    }
}
