//! A hash over everything that was written: two runs are the same when it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::sim::api_server::{Call, Observer, Write, resources};

/// The hash. Clones are the same one.
#[derive(Clone, Default)]
pub struct Digest {
    shared: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    hash: Sha256,
    writes: u64,
    calls: u64,
}

impl Digest {
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash so far, in hexadecimal.
    #[must_use]
    pub fn value(&self) -> String {
        let hash = self.state().hash.clone().finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// How many writes it is over.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// How many requests came over HTTP.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }
}

impl Observer for Digest {
    fn called(&mut self, call: &Call) {
        let mut state = self.state();
        state.calls += 1;
        let path = if call.resource == Some(resources::EVENTS) {
            ""
        } else {
            &call.path
        };
        let line = format!(
            "{} {} {} {path} {}\n",
            call.at, call.actor, call.method, call.code
        );
        state.hash.update(line.as_bytes());
    }

    fn wrote(&mut self, write: &Write) {
        let mut state = self.state();
        state.writes += 1;
        let line = if write.resource == resources::EVENTS {
            // The client library names Events after the machine's clock, and dates them by it.
            let event = write.after.as_deref().unwrap_or(&Value::Null);
            format!(
                "{} {} {} {}\n",
                write.at, event["reason"], event["note"], event["regarding"]["name"]
            )
        } else {
            let after = write
                .after
                .as_deref()
                .map(Value::to_string)
                .unwrap_or_default();
            format!(
                "{} {} {} {:?} {:?} {:?} {} {:?} {after}\n",
                write.at,
                write.revision,
                write.actor,
                write.verb,
                write.resource,
                write.namespace,
                write.name,
                write.subresource,
            )
        };
        state.hash.update(line.as_bytes());
    }
}
