//! What the server holds: a table a resource, and the log of changes from which watches are fed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::history::{Call, Change, Verb, Write};
use super::resources::{ALL, CORE_EVENTS, EVENTS, Resource};
use crate::clock::Clock;

/// How long the log is kept, as a real server compacts its store every five minutes and keeps what is younger.
const LOG_AGE: SignedDuration = SignedDuration::from_mins(10);
/// How many entries of the log are kept whatever their age.
const LOG_LENGTH: usize = 256;

/// One revision of one object, and its JSON text once somebody asked for it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) value: Arc<Value>,
    text: OnceLock<Bytes>,
}

impl Entry {
    pub(super) fn new(value: Value) -> Self {
        let (value, text) = (Arc::new(value), OnceLock::new());
        Self { value, text }
    }

    /// The JSON text; kept, because every watch of the object asks for it.
    pub(super) fn text(&self) -> Bytes {
        self.text.get_or_init(|| text_of(&self.value)).clone()
    }

    /// Appends the JSON text, without keeping it: a list of everything would hold everything twice.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        match self.text.get() {
            Some(text) => out.extend_from_slice(text),
            None => append(&self.value, out),
        }
    }
}

/// The JSON text of a value.
pub(super) fn text_of(value: &Value) -> Bytes {
    let mut text = Vec::new();
    append(value, &mut text);
    Bytes::from(text)
}

fn append(value: &Value, out: &mut Vec<u8>) {
    // A `Value` has string keys and writing to memory does not fail, so neither does this.
    if let Err(error) = serde_json::to_writer(out, value) {
        tracing::error!(%error, "an object cannot be written as JSON");
    }
}

/// Namespace (empty for none) and name.
pub(super) type Key = (String, String);

/// One entry of a log.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) revision: u64,
    pub(super) at: Timestamp,
    pub(super) before: Option<Arc<Entry>>,
    pub(super) after: Option<Arc<Entry>>,
    /// The last state of an object that is gone, under the revision of its removal: what a watch shows.
    pub(super) tombstone: Option<Arc<Entry>>,
}

impl Logged {
    /// Which object it is about.
    pub(super) fn key(&self) -> Option<Key> {
        let entry = self.after.as_ref().or(self.before.as_ref())?;
        let text = |name: &str| entry.value["metadata"][name].as_str().unwrap_or_default();
        Some((text("namespace").to_owned(), text("name").to_owned()))
    }
}

/// All objects of one resource.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Key, Arc<Entry>>,
    pub(super) log: VecDeque<Logged>,
    /// What happened up to this revision is no longer in the log.
    pub(super) forgotten: u64,
    /// Woken at each change, in the order of waiting: a run can be repeated exactly.
    pub(super) changed: Arc<Notify>,
}

/// What observers have still to be told.
#[derive(Debug)]
pub(super) enum Note {
    Called(Box<Call>),
    Wrote(Box<Write>),
}

/// Who writes what, and how.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) actor: Arc<str>,
    pub(super) verb: Verb,
    pub(super) subresource: Option<&'static str>,
    pub(super) dry_run: bool,
}

/// Everything.
#[derive(Debug)]
pub(super) struct State {
    pub(super) clock: Clock,
    pub(super) revision: u64,
    uids: u64,
    tables: Vec<Table>,
    pub(super) notes: VecDeque<Note>,
    /// Is somebody there to be told?
    pub(super) observed: bool,
    /// One channel a listener: several receivers of one channel are woken in a random order.
    pub(super) listeners: Vec<watch::Sender<u64>>,
    /// Owner UID to what names it as owner.
    pub(super) dependents: BTreeMap<String, BTreeSet<(usize, Key)>>,
    /// UID to object, for owner references.
    pub(super) by_uid: BTreeMap<String, (usize, Key)>,
    /// What was applied last: by UID of the object, manager and subresource.
    pub(super) applied: BTreeMap<(String, String, Option<&'static str>), Value>,
}

impl State {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            revision: 1,
            uids: 0,
            tables: ALL.iter().map(|_| Table::default()).collect(),
            notes: VecDeque::new(),
            observed: false,
            listeners: Vec::new(),
            dependents: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            applied: BTreeMap::new(),
        }
    }

    /// The table of a resource. Both groups of events share one.
    pub(super) fn table(&self, resource: &Resource) -> &Table {
        &self.tables[place(resource)]
    }

    pub(super) fn table_mut(&mut self, resource: &Resource) -> &mut Table {
        &mut self.tables[place(resource)]
    }

    pub(super) fn get(&self, resource: &Resource, key: &Key) -> Option<&Arc<Entry>> {
        self.table(resource).objects.get(key)
    }

    /// A UID that is the same in every run.
    pub(super) fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// Five characters that are the same in every run, as `generateName` appends them.
    pub(super) fn name_suffix(&self) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        // A bijection on 27^5 values, so that names neither count up visibly nor collide.
        let mut n = (self.uids.wrapping_mul(7_368_787) + 1_234_567) % 14_348_907;
        let mut suffix = String::with_capacity(5);
        for _ in 0..5 {
            suffix.push(char::from(LETTERS[(n % 27) as usize]));
            n /= 27;
        }
        suffix
    }

    /// The time as `metav1.Time` has it: whole seconds.
    pub(super) fn now(&self) -> String {
        seconds(self.clock.now())
    }

    /// Puts an object (or, with `None`, removes it) under a new revision, logs it and wakes whoever waits. With
    /// `dry_run` nothing is stored, and the answer is the object as it would be.
    pub(super) fn put(
        &mut self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        after: Option<Value>,
    ) -> Option<Arc<Entry>> {
        let before = self.get(resource, key).cloned();
        if access.dry_run {
            return after.map(|value| Arc::new(Entry::new(value))).or(before);
        }
        self.revision += 1;
        let (revision, at) = (self.revision, self.clock.now());
        let stamped = |mut value: Value| {
            value["metadata"]["resourceVersion"] = json!(revision.to_string());
            Arc::new(Entry::new(value))
        };
        let gone = after.is_none();
        let after = after.map(stamped);
        let tombstone = before
            .as_ref()
            .filter(|_| gone)
            .map(|entry| stamped((*entry.value).clone()));
        self.index(resource, key, before.as_deref(), after.as_deref());
        let table = self.table_mut(resource);
        match &after {
            Some(entry) => table.objects.insert(key.clone(), entry.clone()),
            None => table.objects.remove(key),
        };
        table.log.push_back(Logged {
            revision,
            at,
            before: before.clone(),
            after: after.clone(),
            tombstone: tombstone.clone(),
        });
        while table.log.len() > LOG_LENGTH
            && table
                .log
                .front()
                .is_some_and(|first| at.duration_since(first.at) > LOG_AGE)
        {
            if let Some(first) = table.log.pop_front() {
                table.forgotten = first.revision;
            }
        }
        table.changed.notify_waiters();
        if self.observed {
            self.notes.push_back(Note::Wrote(Box::new(Write {
                at,
                revision,
                actor: access.actor.clone(),
                verb: access.verb,
                resource,
                namespace: Some(key.0.clone()).filter(|n| !n.is_empty()),
                name: key.1.clone(),
                subresource: access.subresource,
                before: before.map(|e| e.value.clone()),
                after: after.as_ref().map(|e| e.value.clone()),
            })));
        }
        self.listeners.retain(|listener| {
            listener.send_replace(revision);
            !listener.is_closed()
        });
        after.or(tombstone)
    }

    /// Keeps `by_uid` and `dependents` right.
    fn index(
        &mut self,
        resource: &Resource,
        key: &Key,
        before: Option<&Entry>,
        after: Option<&Entry>,
    ) {
        let target = (place(resource), key.clone());
        let uid = |entry: &Entry| entry.value["metadata"]["uid"].as_str().map(str::to_owned);
        match (before, after) {
            (None, Some(new)) => {
                if let Some(uid) = uid(new) {
                    self.by_uid.insert(uid, target.clone());
                }
            }
            (Some(old), None) => {
                if let Some(uid) = uid(old) {
                    self.by_uid.remove(&uid);
                }
            }
            _ => {}
        }
        let owners = |entry: Option<&Entry>| -> Value {
            entry.map_or(Value::Null, |e| {
                e.value["metadata"]["ownerReferences"].clone()
            })
        };
        let (old, new) = (owners(before), owners(after));
        if old == new {
            return;
        }
        for uid in uids_of(&old) {
            if let Some(set) = self.dependents.get_mut(uid) {
                set.remove(&target);
                if set.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in uids_of(&new) {
            self.dependents
                .entry(uid.to_owned())
                .or_default()
                .insert(target.clone());
        }
    }

    /// The log of a resource after a revision, or `None` when it does not go back that far.
    pub(super) fn since(
        &self,
        resource: &Resource,
        revision: u64,
    ) -> Option<impl Iterator<Item = &Logged>> {
        let table = self.table(resource);
        if revision < table.forgotten {
            return None;
        }
        let from = table.log.partition_point(|l| l.revision <= revision);
        Some(table.log.range(from..))
    }

    /// Forgets the log: watches from before now have to list again.
    pub(super) fn compact(&mut self) {
        let revision = self.revision;
        for table in &mut self.tables {
            table.log.clear();
            table.forgotten = revision;
            table.changed.notify_waiters();
        }
    }
}

fn uids_of(owners: &Value) -> impl Iterator<Item = &str> {
    owners
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|o| o["uid"].as_str())
}

fn place(resource: &Resource) -> usize {
    if resource == CORE_EVENTS {
        EVENTS.place
    } else {
        resource.place
    }
}

/// A time as `metav1.Time` writes it.
pub(super) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl From<&Logged> for Change {
    fn from(logged: &Logged) -> Self {
        let value = |e: &Option<Arc<Entry>>| e.as_ref().map(|e| e.value.clone());
        let (before, after) = (value(&logged.before), value(&logged.after));
        let either = after.as_ref().or(before.as_ref());
        let text = |name: &str| {
            either
                .and_then(|v| v["metadata"][name].as_str())
                .map(str::to_owned)
        };
        Self {
            revision: logged.revision,
            namespace: text("namespace"),
            name: text("name").unwrap_or_default(),
            before,
            after,
        }
    }
}
