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
