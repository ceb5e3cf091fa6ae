//! Watches: a frame an event, bookmarks, an end, and 410 for history that is gone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::BoxError;

use super::ApiServer;
use super::refusal::Refusal;
use super::resources::Resource;
use super::selector::Selection;
use super::state::{Entry, Logged, State, text_of};

/// How often a bookmark is sent.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// How long a watch lasts that names no end. A real server draws between this and twice as much.
const LONGEST: Duration = Duration::from_secs(1800);

/// How an object is shown in an event.
pub(super) type Show = Arc<dyn Fn(&Entry) -> Bytes + Send + Sync>;

/// What a watch was asked for.
pub(super) struct Wanted {
    pub(super) resource: &'static Resource,
    pub(super) namespace: Option<String>,
    pub(super) selection: Selection,
    /// `None` or 0: everything that exists first.
    pub(super) from: Option<u64>,
    /// Everything that exists first, then a marked bookmark.
    pub(super) initial_events: bool,
    pub(super) bookmarks: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) show: Show,
}

struct Watch {
    server: ApiServer,
    wanted: Wanted,
    seen: u64,
    frames: VecDeque<Bytes>,
    changed: Arc<Notify>,
    next_bookmark: Instant,
    ends: Instant,
    ended: bool,
}

impl ApiServer {
    /// Begins a watch.
    pub(super) fn watch(
        &self,
        wanted: Wanted,
    ) -> impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static {
        let now = Instant::now();
        let watch = self.read(|state| {
            let existing = wanted.initial_events || wanted.from.is_none_or(|r| r == 0);
            let mut watch = Watch {
                server: self.clone(),
                seen: wanted.from.unwrap_or(0),
                frames: VecDeque::new(),
                changed: state.table(wanted.resource).changed.clone(),
                next_bookmark: now + BOOKMARK_PERIOD,
                ends: now + wanted.timeout.unwrap_or(LONGEST),
                ended: false,
                wanted,
            };
            if existing {
                watch.begin_with_everything(state);
            }
            watch
        });
        unfold(watch, |mut watch| async move {
            let frame = watch.next().await?;
            Some((Ok(frame), watch))
        })
    }
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            let changed = self.changed.clone();
            let mut changed = std::pin::pin!(changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            self.catch_up();
            if !self.frames.is_empty() {
                continue;
            }
            let next = if self.wanted.bookmarks {
                self.next_bookmark.min(self.ends)
            } else {
                self.ends
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(next) => self.tick(),
            }
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.ended = now >= self.ends;
        if self.wanted.bookmarks {
            let revision = self.server.revision().max(self.seen);
            self.seen = revision;
            let bookmark = bookmark(self.wanted.resource, revision, false);
            self.frames.push_back(bookmark);
            self.next_bookmark = now + BOOKMARK_PERIOD;
        }
    }

    fn begin_with_everything(&mut self, state: &State) {
        self.seen = state.revision;
        let objects = &state.table(self.wanted.resource).objects;
        for (key, entry) in objects {
            let inside = self.wanted.namespace.as_ref().is_none_or(|n| *n == key.0);
            if inside && self.wanted.selection.matches(&entry.value) {
                let shown = (self.wanted.show)(entry);
                self.frames.push_back(frame("ADDED", &shown));
            }
        }
        if self.wanted.initial_events && self.wanted.bookmarks {
            let bookmark = bookmark(self.wanted.resource, self.seen, true);
            self.frames.push_back(bookmark);
        }
    }

    /// Turns what happened since into frames.
    fn catch_up(&mut self) {
        let server = self.server.clone();
        server.read(|state| {
            let Some(log) = state.since(self.wanted.resource, self.seen) else {
                let oldest = state.table(self.wanted.resource).forgotten + 1;
                let refusal = Refusal::expired(self.seen, oldest);
                let status = text_of(&refusal.status());
                self.frames.push_back(frame("ERROR", &status));
                self.ended = true;
                return;
            };
            for logged in log {
                self.seen = logged.revision;
                if let Some(frame) = self.event(logged) {
                    self.frames.push_back(frame);
                }
            }
        });
    }

    /// What this watch shows of a change: an object that begins or ceases to be selected comes or goes.
    fn event(&self, logged: &Logged) -> Option<Bytes> {
        let selected = |entry: &Option<Arc<Entry>>| {
            entry.as_ref().is_some_and(|entry| {
                let object = &entry.value;
                let place = object["metadata"]["namespace"].as_str();
                let inside = self
                    .wanted
                    .namespace
                    .as_deref()
                    .is_none_or(|n| place == Some(n));
                inside && self.wanted.selection.matches(object)
            })
        };
        let show = |entry: &Entry| (self.wanted.show)(entry);
        match (selected(&logged.before), selected(&logged.after)) {
            (false, false) => None,
            (false, true) => Some(frame("ADDED", &show(logged.after.as_deref()?))),
            (true, true) => Some(frame("MODIFIED", &show(logged.after.as_deref()?))),
            (true, false) => {
                let shown = match &logged.tombstone {
                    Some(tombstone) => show(tombstone),
                    None => {
                        let mut last: Value = (*logged.before.as_ref()?.value).clone();
                        last["metadata"]["resourceVersion"] = json!(logged.revision.to_string());
                        show(&Entry::new(last))
                    }
                };
                Some(frame("DELETED", &shown))
            }
        }
    }
}

/// One event as one line.
fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 32);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

fn bookmark(resource: &Resource, revision: u64, initial_end: bool) -> Bytes {
    let mut object = json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
    });
    if initial_end {
        object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    frame("BOOKMARK", &text_of(&object))
}
