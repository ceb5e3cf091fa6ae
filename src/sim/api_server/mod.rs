//! A Kubernetes API server that lives in the process: the real `kube::Client` speaks to it as to any other, through
//! [`ApiService`], and the simulated world's own controllers through [`Store`].
//!
//! What is not as in a real server: `managedFields` are not kept, so that without `force` no apply conflicts; the schemas
//! of the built-in kinds are not checked as a whole (`builtin`), and CEL rules are known by their text (`schema_rules`);
//! owner garbage collection and the end of a namespace happen at once; items of lists carry `apiVersion` and `kind`;
//! there is no authentication, no admission webhook, no OpenAPI document, and JSON is the only encoding.
//!
//! Time comes from the clock that it is given and UIDs from a counter, so that a run can be repeated exactly.

mod admission;
mod answers;
mod apply;
mod body;
mod builtin;
mod columns;
mod delete;
mod discovery;
mod events;
mod eviction;
mod garbage;
mod history;
mod list;
mod namespaces;
mod patch;
mod refusal;
mod requests;
pub mod resources;
mod route;
mod schema;
mod schema_check;
mod schema_rules;
mod selector;
mod service;
mod serving;
mod state;
mod store;
mod subresources;
mod table;
mod watching;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use tokio::sync::watch;

pub use body::{AnswerBody, Frames};
pub use history::{Call, Change, GARBAGE_COLLECTOR, Observer, Verb, Write};
pub use refusal::{Cause, Refusal};
pub use resources::Resource;
pub use service::ApiService;
pub use store::Store;

use crate::clock::Clock;
use state::{Note, State};

/// The server. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    observers: Arc<Mutex<Vec<Box<dyn Observer + Send>>>>,
}

impl ApiServer {
    /// An empty server with the namespaces that every cluster has.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let server = Self {
            state: Arc::new(Mutex::new(State::new(clock))),
            observers: Arc::default(),
        };
        server.write(State::make_namespaces);
        server
    }

    /// The server under a client of its own; `actor` is who it says it is.
    #[must_use]
    pub fn service(&self, actor: &str) -> ApiService {
        let (server, actor) = (self.clone(), Arc::from(actor));
        ApiService { server, actor }
    }

    /// A client that retries nothing.
    #[must_use]
    pub fn client(&self, actor: &str) -> Client {
        Client::new(self.service(actor), "default")
    }

    /// The server without HTTP.
    #[must_use]
    pub fn store(&self, actor: &str) -> Store {
        let (server, actor) = (self.clone(), Arc::from(actor));
        Store { server, actor }
    }

    /// Tells somebody of everything from now on.
    pub fn observe(&self, observer: Box<dyn Observer + Send>) {
        self.lock().observed = true;
        let mut observers = self
            .observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        observers.push(observer);
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Follows the newest revision. Each call answers a channel of its own, and those are woken in the order of the
    /// calls; do not clone a receiver, as the receivers of one channel are woken in a random order.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        let mut state = self.lock();
        let (sender, receiver) = watch::channel(state.revision);
        state.listeners.push(sender);
        receiver
    }

    /// Forgets what changed until now: watches from earlier revisions are answered 410, and list again.
    pub fn compact(&self) {
        self.lock().compact();
    }

    fn clock(&self) -> Clock {
        self.lock().clock.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock())
    }

    fn write<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        let result = write(&mut self.lock());
        self.tell();
        result
    }

    /// Tells the observers what is new, outside of the lock on the state, so that they may read.
    fn tell(&self) {
        if self.lock().notes.is_empty() {
            return;
        }
        let mut observers = self
            .observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(note) = self.lock().notes.pop_front() else {
                return;
            };
            for observer in observers.iter_mut() {
                match &note {
                    Note::Called(call) => observer.called(call),
                    Note::Wrote(write) => observer.wrote(write),
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod client_tests;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod removal_tests;
