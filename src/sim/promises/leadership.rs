//! Promise 6: only the leader acts.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Findings, PromisesConfig};
use crate::sim::api_server::Write;
use crate::sim::api_server::resources::{CORE_EVENTS, EVENTS, LEASES, NODES, PODS};

/// The Lease, as the server has it.
#[derive(Debug)]
struct Term {
    holder: String,
    since: Timestamp,
    renewed: Timestamp,
    duration: SignedDuration,
}

/// Who may act.
#[derive(Debug, Default)]
pub(super) struct Leadership {
    identities: BTreeMap<String, String>,
    term: Option<Term>,
}

impl Leadership {
    pub fn started(&mut self, actor: &str, identity: &str) {
        self.identities
            .insert(actor.to_owned(), identity.to_owned());
    }

    pub fn wrote(
        &mut self,
        write: &Write,
        ours: bool,
        config: &PromisesConfig,
        found: &mut Findings,
    ) {
        if write.resource == LEASES {
            let ours = write.name == config.lease_name
                && write.namespace.as_deref() == Some(&config.lease_namespace);
            if ours {
                self.taken_over(write, config, found);
                self.renewed(write);
            }
            return;
        }
        if !ours || write.resource == EVENTS || write.resource == CORE_EVENTS {
            return;
        }
        let actor: &str = &write.actor;
        let identity = self.identities.get(actor).map_or(actor, String::as_str);
        let at = write.at;
        let held = self.term.as_ref().is_some_and(|t| {
            // What a former leader had on its way when another took over is safe where a revision guards it.
            let destructive = write.resource == NODES || write.resource == PODS;
            let late = !destructive && at.duration_since(t.since) <= config.latency;
            let expired = at.duration_since(t.renewed) > t.duration + config.clock_skew;
            (t.holder == identity && !(destructive && expired)) || late
        });
        found.check(6, at, held, || {
            let holder = self.term.as_ref().map_or("nobody", |t| &t.holder);
            format!(
                "{actor} ({identity}) writes {} {:?} while the lease is held by {holder:?}, or has expired",
                write.resource.plural, write.name
            )
        });
    }

    /// Nobody takes a Lease whose holder has renewed it within its duration, unless the holder gave it up.
    fn taken_over(&self, write: &Write, config: &PromisesConfig, found: &mut Findings) {
        let Some(after) = write.after.as_deref() else {
            return;
        };
        let holder = super::cluster::word(&after["spec"]["holderIdentity"]);
        let term = self.term.as_ref();
        let robbed = term.filter(|t| {
            let left = t.duration - write.at.duration_since(t.renewed);
            let other = !t.holder.is_empty() && !holder.is_empty() && t.holder != holder;
            other && left > config.clock_skew
        });
        found.check(6, write.at, robbed.is_none(), || {
            let from = robbed.map_or("", |t| &t.holder);
            format!("{holder} takes the lease, which {from} still holds")
        });
    }

    fn renewed(&mut self, write: &Write) {
        let Some(after) = write.after.as_deref() else {
            self.term = None;
            return;
        };
        let spec = &after["spec"];
        let holder = super::cluster::word(&spec["holderIdentity"]);
        let since = self
            .term
            .as_ref()
            .filter(|t| t.holder == holder)
            .map_or(write.at, |t| t.since);
        let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or(0);
        self.term = Some(Term {
            holder,
            since,
            renewed: write.at,
            duration: SignedDuration::from_secs(seconds),
        });
    }
}
