//! Removal: finalizers, the grace of pods, and preconditions.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::garbage::FOREGROUND;
use super::refusal::Refusal;
use super::resources::{NAMESPACES, PODS, Resource};
use super::state::{Access, Entry, Key, State, seconds};
use super::write::Preconditions;

/// How an object is to be removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Deletion {
    pub(super) grace_seconds: Option<i64>,
    pub(super) preconditions: Preconditions,
    pub(super) propagation: Propagation,
}

impl Deletion {
    /// From `DeleteOptions`.
    pub(super) fn parse(options: &Value) -> Result<Self, Refusal> {
        if !options.is_null() && !options.is_object() {
            return Err(Refusal::bad_request("the options are not a JSON object"));
        }
        let propagation = match options["propagationPolicy"].as_str() {
            None if options["orphanDependents"] == true => Propagation::Orphan,
            None | Some("Background") => Propagation::Background,
            Some("Orphan") => Propagation::Orphan,
            Some("Foreground") => Propagation::Foreground,
            Some(other) => {
                return Err(Refusal::new(
                    422,
                    "Invalid",
                    format!(
                        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\""
                    ),
                ));
            }
        };
        Ok(Self {
            grace_seconds: options["gracePeriodSeconds"].as_i64(),
            preconditions: Preconditions::of(options),
            propagation,
        })
    }
}

/// What becomes of what the object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Propagation {
    /// It goes after the object.
    #[default]
    Background,
    /// It goes first.
    Foreground,
    /// It stays.
    Orphan,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) enum Deleted {
    /// It is gone; its last state.
    Gone(Arc<Entry>),
    /// It is marked, and goes later.
    Marked(Arc<Entry>),
}

impl State {
    /// Removes an object, or marks it for removal.
    pub(super) fn delete(
        &mut self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        deletion: &Deletion,
    ) -> Result<Deleted, Refusal> {
        let before = self
            .get(resource, key)
            .cloned()
            .ok_or_else(|| Refusal::not_found(resource, &key.1))?;
        deletion
            .preconditions
            .check(resource, &key.1, &before.value)?;
        if resource == NAMESPACES && before.value["metadata"]["deletionTimestamp"].is_null() {
            let marked = self.end_namespace(access, &key.1);
            return Ok(Deleted::Marked(marked.unwrap_or(before)));
        }
        if !access.dry_run && deletion.propagation == Propagation::Orphan {
            let uid = before.value["metadata"]["uid"].as_str();
            self.orphan_dependents(uid.unwrap_or_default());
        }
        let meta = &before.value["metadata"];
        let foreground = deletion.propagation.is_foreground() && resource != PODS;
        let held = meta["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let marked = !meta["deletionTimestamp"].is_null();
        let graceful = resource == PODS;
        let mut grace = 0;
        if graceful {
            let present = meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            grace = grace_of(&before.value, deletion.grace_seconds);
            if marked && present > 0 {
                // A grace that runs can be shortened, not prolonged.
                match deletion.grace_seconds {
                    Some(wanted) if wanted.max(0) < present => {
                        let wanted = wanted.max(0);
                        let mut after = (*before.value).clone();
                        let until = after["metadata"]["deletionTimestamp"]
                            .as_str()
                            .and_then(|t| t.parse::<Timestamp>().ok())
                            .unwrap_or_else(|| self.clock.now());
                        let until = until
                            .saturating_add(SignedDuration::from_secs(wanted - present))
                            .unwrap_or(until);
                        after["metadata"]["deletionTimestamp"] = json!(seconds(until));
                        after["metadata"]["deletionGracePeriodSeconds"] = json!(wanted);
                        return Ok(self.mark(access, resource, key, after, wanted > 0 || held));
                    }
                    _ => return Ok(Deleted::Marked(before)),
                }
            }
        }
        if marked {
            return Ok(if held {
                Deleted::Marked(before)
            } else {
                Deleted::Gone(self.remove(access, resource, key, None))
            });
        }
        if !graceful && !held && !foreground {
            return Ok(Deleted::Gone(self.remove(access, resource, key, None)));
        }
        let mut after = (*before.value).clone();
        let until = self
            .clock
            .now()
            .saturating_add(SignedDuration::from_secs(grace))
            .unwrap_or(Timestamp::MAX);
        let meta = &mut after["metadata"];
        meta["deletionTimestamp"] = json!(seconds(until));
        meta["deletionGracePeriodSeconds"] = json!(grace);
        if let Some(generation) = meta["generation"].as_i64() {
            meta["generation"] = json!(generation + 1);
        }
        if !foreground {
            return Ok(self.mark(access, resource, key, after, grace > 0 || held));
        }
        let mut finalizers = meta["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.push(json!(FOREGROUND));
        meta["finalizers"] = Value::Array(finalizers);
        let uid = meta["uid"].as_str().unwrap_or_default().to_owned();
        let marked = self.mark(access, resource, key, after, true);
        if !access.dry_run {
            self.begin_foreground(&uid);
        }
        Ok(marked)
    }

    /// Stores the mark, and removes the object when nothing holds it.
    fn mark(
        &mut self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        after: Value,
        stays: bool,
    ) -> Deleted {
        match self.put(access, resource, key, Some(after)) {
            Some(entry) if stays || access.dry_run => Deleted::Marked(entry),
            _ => Deleted::Gone(self.remove(access, resource, key, None)),
        }
    }
}

/// The grace of a pod: none when it has no node, or has ended.
fn grace_of(pod: &Value, asked: Option<i64>) -> i64 {
    let unbound = pod["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    let ended = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if unbound || ended {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let grace = asked.or(own).unwrap_or(30);
    if grace < 0 { 1 } else { grace }
}
