//! What happened in the server, for those who watch it from outside.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::resources::Resource;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Follow changes.
    Watch,
    /// Make an object.
    Create,
    /// Put an object in place of another.
    Update,
    /// Change parts of an object.
    Patch,
    /// Remove an object, or mark it for removal.
    Delete,
    /// Discovery, or something the server does not know.
    Other,
}

/// One HTTP request and its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it was answered.
    pub at: Timestamp,
    /// Who asked.
    pub actor: Arc<str>,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// What was asked for.
    pub verb: Verb,
    /// Of which resource; `None` for discovery.
    pub resource: Option<&'static Resource>,
    /// In which namespace.
    pub namespace: Option<String>,
    /// By which name.
    pub name: Option<String>,
    /// Through which subresource.
    pub subresource: Option<String>,
    /// Nothing was stored, whatever the answer.
    pub dry_run: bool,
    /// The status code of the answer.
    pub code: u16,
    /// What was sent along.
    pub body: Option<Arc<Value>>,
}

/// One accepted change of an object.
#[derive(Clone, Debug)]
pub struct Write {
    /// When.
    pub at: Timestamp,
    /// The revision it made.
    pub revision: u64,
    /// Who did it. What follows from a write (owner garbage collection) is done by [`GARBAGE_COLLECTOR`].
    pub actor: Arc<str>,
    /// How.
    pub verb: Verb,
    /// Which resource.
    pub resource: &'static Resource,
    /// In which namespace.
    pub namespace: Option<String>,
    /// By which name.
    pub name: String,
    /// Through which subresource, for example `status` or `eviction`.
    pub subresource: Option<&'static str>,
    /// The object before; `None` when it is new.
    pub before: Option<Arc<Value>>,
    /// The object after; `None` when it is gone.
    pub after: Option<Arc<Value>>,
}

/// The actor of owner garbage collection.
pub const GARBAGE_COLLECTOR: &str = "garbage-collector";

/// One entry of the log of a resource.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision it made.
    pub revision: u64,
    /// In which namespace.
    pub namespace: Option<String>,
    /// By which name.
    pub name: String,
    /// The object before; `None` when it is new.
    pub before: Option<Arc<Value>>,
    /// The object after; `None` when it is gone.
    pub after: Option<Arc<Value>>,
}

/// Is told of everything, synchronously and in order. It may read the server and must not write to it.
pub trait Observer {
    /// A request was answered. A watch is told when it begins.
    fn called(&mut self, call: &Call);
    /// An object was changed.
    fn wrote(&mut self, write: &Write);
}

impl Change {
    /// An object that is there, as if it were new.
    pub(super) fn present(object: &Arc<Value>) -> Self {
        let text = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
        let revision = text("resourceVersion").and_then(|r| r.parse().ok());
        Self {
            revision: revision.unwrap_or(0),
            namespace: text("namespace"),
            name: text("name").unwrap_or_default(),
            before: None,
            after: Some(object.clone()),
        }
    }
}
