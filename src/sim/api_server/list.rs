//! Lists: at which revision, which page, and as what.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};

use super::refusal::Refusal;
use super::resources::Resource;
use super::route::Query;
use super::selector::Selection;
use super::state::{Entry, Key, State};

/// One page of a list.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// The revision at which the whole list holds.
    pub(super) revision: u64,
    pub(super) entries: Vec<Arc<Entry>>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
    /// How many objects are left after this page.
    pub(super) remaining: Option<usize>,
}

/// What a list was asked for.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// The revision whose state is wanted; `None` is now.
    exactly: Option<u64>,
    after: Option<Key>,
    limit: Option<usize>,
}

impl State {
    /// One page.
    pub(super) fn page(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selection: &Selection,
        query: &Query,
    ) -> Result<Page, Refusal> {
        let wanted = self.wanted(query)?;
        let past = match wanted.exactly {
            Some(revision) if revision < self.revision => {
                Some(self.changes_back_to(resource, revision, wanted.after.as_ref())?)
            }
            _ => None,
        };
        let revision = wanted.exactly.unwrap_or(self.revision);
        let (mut entries, mut next, mut remaining) = (Vec::new(), None, 0);
        let mut last: Option<&Key> = None;
        let mut visit = |key, entry: &Arc<Entry>| {
            if !selection.matches(&entry.value) {
                return;
            }
            if wanted.limit.is_none_or(|limit| entries.len() < limit) {
                entries.push(entry.clone());
                last = Some(key);
            } else {
                remaining += 1;
                if next.is_none() {
                    next = last.map(|key| token(revision, key));
                }
            }
        };
        let from = match (&wanted.after, namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => Bound::Included((namespace.to_owned(), String::new())),
            (None, None) => Bound::Unbounded,
        };
        let inside = |key: &Key| namespace.is_none_or(|n| key.0 == n);
        let now = self
            .table(resource)
            .objects
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| inside(key));
        match &past {
            None => now.for_each(|(key, entry)| visit(key, entry)),
            Some(past) => {
                let mut all: BTreeMap<&Key, &Arc<Entry>> = now.collect();
                for (key, entry) in past.iter().filter(|(key, _)| inside(key)) {
                    match entry {
                        Some(entry) => all.insert(key, entry),
                        None => all.remove(key),
                    };
                }
                all.into_iter().for_each(|(key, entry)| visit(key, entry));
            }
        }
        // The real server does not count what a selector leaves out.
        let remaining = (next.is_some() && selection.is_everything()).then_some(remaining);
        Ok(Page {
            revision,
            entries,
            next,
            remaining,
        })
    }

    fn wanted(&self, query: &Query) -> Result<Wanted, Refusal> {
        let limit = query
            .number("limit")
            .filter(|limit| *limit > 0)
            .and_then(|limit| usize::try_from(limit).ok());
        if let Some(token) = query.get("continue") {
            let (revision, after) = parse_token(token).ok_or_else(|| {
                Refusal::bad_request("continue key is not valid: it was not issued by this server")
            })?;
            return Ok(Wanted {
                exactly: Some(revision),
                after: Some(after),
                limit,
            });
        }
        let Some(version) = query.get("resourceVersion") else {
            return Ok(Wanted {
                limit,
                ..Wanted::default()
            });
        };
        let revision = self.revision_of(version)?;
        match query.get("resourceVersionMatch") {
            Some("Exact") if revision == 0 => Err(Refusal::bad_request(
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            )),
            Some("Exact") => Ok(Wanted {
                exactly: Some(revision),
                after: None,
                limit,
            }),
            // From revision 0 on the answer comes from the server's cache, which knows no pages.
            _ => Ok(Wanted {
                limit: limit.filter(|_| revision > 0),
                ..Wanted::default()
            }),
        }
    }

    /// Reads a `resourceVersion` and refuses one of the future.
    pub(super) fn revision_of(&self, version: &str) -> Result<u64, Refusal> {
        let revision: u64 = version.parse().map_err(|_| {
            Refusal::bad_request(format!(
                "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
            ))
        })?;
        if revision <= self.revision {
            return Ok(revision);
        }
        let message = format!(
            "Too large resource version: {revision}, current: {}",
            self.revision
        );
        let causes =
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        Err(Refusal::new(504, "Timeout", message).with_causes(causes, Some(1)))
    }

    /// How objects were at a revision, for those that changed since.
    fn changes_back_to(
        &self,
        resource: &Resource,
        revision: u64,
        after: Option<&Key>,
    ) -> Result<BTreeMap<Key, Option<Arc<Entry>>>, Refusal> {
        let Some(log) = self.since(resource, revision) else {
            let message = if after.is_some() {
                "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter."
            } else {
                "The resourceVersion for the provided list is too old."
            };
            return Err(Refusal::new(410, "Expired", message));
        };
        let mut past = BTreeMap::new();
        for logged in log {
            let Some(key) = logged.key() else { continue };
            if after.is_none_or(|after| key > *after) {
                past.entry(key).or_insert_with(|| logged.before.clone());
            }
        }
        Ok(past)
    }
}

impl Page {
    /// `metadata` of the list.
    pub(super) fn meta(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.revision.to_string()});
        if let Some(next) = &self.next {
            meta["continue"] = json!(next);
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = json!(remaining);
        }
        meta
    }
}

fn token(revision: u64, key: &Key) -> String {
    let plain = format!("{revision}/{}/{}", key.0, key.1);
    plain.bytes().map(|b| format!("{b:02x}")).collect()
}

fn parse_token(token: &str) -> Option<(u64, Key)> {
    let bytes: Option<Vec<u8>> = (0..token.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(token.get(at..at + 2)?, 16).ok())
        .collect();
    let plain = String::from_utf8(bytes?).ok()?;
    let mut parts = plain.splitn(3, '/');
    let revision = parts.next()?.parse().ok()?;
    Some((
        revision,
        (parts.next()?.to_owned(), parts.next()?.to_owned()),
    ))
}
