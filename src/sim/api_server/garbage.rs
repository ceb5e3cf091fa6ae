//! What follows from a removal: what the object owned goes too, and a namespace that is ending ends when it is empty.
//! A real cluster does this a moment later; here it is done at once.

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::{Deletion, Propagation};
use super::history::{GARBAGE_COLLECTOR, Verb};
use super::resources::{ALL, NAMESPACES, Resource};
use super::state::{Access, Entry, Key, State};

/// Holds an owner until what it owns is gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

fn access(verb: Verb) -> Access {
    Access {
        actor: Arc::from(GARBAGE_COLLECTOR),
        verb,
        subresource: None,
        dry_run: false,
    }
}

impl State {
    /// After an object is gone.
    pub(super) fn collect_garbage(&mut self, resource: &Resource, gone: &Value) {
        let meta = &gone["metadata"];
        if let Some(uid) = meta["uid"].as_str() {
            self.release_dependents(uid);
            self.applied.retain(|slot, _| slot.0 != uid);
        }
        for owner in owners(gone) {
            self.finish_foreground(owner);
        }
        if resource.namespaced
            && let Some(namespace) = meta["namespace"].as_str()
        {
            self.finish_namespace(namespace);
        }
    }

    /// Takes from what the owner owns the reference to it, or the object itself when no other owner is left.
    fn release_dependents(&mut self, owner: &str) {
        for (resource, key, object) in self.dependents_of(owner) {
            let others = owners(&object).any(|uid| uid != owner && self.by_uid.contains_key(uid));
            if others {
                self.drop_owner(resource, &key, owner);
            } else {
                self.delete_quietly(resource, &key, &Deletion::default());
            }
        }
    }

    fn dependents_of(&self, owner: &str) -> Vec<(&'static Resource, Key, Arc<Value>)> {
        let dependents = self.dependents.get(owner).into_iter().flatten();
        dependents
            .filter_map(|(place, key)| {
                let resource = *ALL.get(*place)?;
                let object = self.get(resource, key)?.value.clone();
                Some((resource, key.clone(), object))
            })
            .collect()
    }

    /// Lets go of everything that an object owns.
    pub(super) fn orphan_dependents(&mut self, owner: &str) {
        for (resource, key, _) in self.dependents_of(owner) {
            self.drop_owner(resource, &key, owner);
        }
    }

    fn drop_owner(&mut self, resource: &'static Resource, key: &Key, owner: &str) {
        let Some(entry) = self.get(resource, key) else {
            return;
        };
        let mut object = (*entry.value).clone();
        if let Some(references) = object["metadata"]["ownerReferences"].as_array_mut() {
            references.retain(|r| r["uid"] != owner);
            if references.is_empty()
                && let Some(meta) = object["metadata"].as_object_mut()
            {
                meta.remove("ownerReferences");
            }
        }
        self.put(&access(Verb::Patch), resource, key, Some(object));
    }

    fn delete_quietly(&mut self, resource: &'static Resource, key: &Key, deletion: &Deletion) {
        if let Err(refusal) = self.delete(&access(Verb::Delete), resource, key, deletion) {
            tracing::debug!(%refusal, ?resource, name = key.1, "garbage could not be removed");
        }
    }

    /// Begins a removal in the foreground: what the owner owns goes first.
    pub(super) fn begin_foreground(&mut self, owner: &str) {
        for (resource, key, _) in self.dependents_of(owner) {
            self.delete_quietly(resource, &key, &Deletion::default());
        }
        self.finish_foreground(owner);
    }

    /// Lets an owner go that waits for what it owns, once nothing that blocks it is left.
    fn finish_foreground(&mut self, owner: &str) {
        let Some((place, key)) = self.by_uid.get(owner).cloned() else {
            return;
        };
        let Some(resource) = ALL.get(place).copied() else {
            return;
        };
        let Some(entry) = self.get(resource, &key).cloned() else {
            return;
        };
        let waits = entry.value["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|f| f.iter().any(|f| f == FOREGROUND));
        let blocked = self.dependents_of(owner).iter().any(|(_, _, object)| {
            let references = object["metadata"]["ownerReferences"].as_array();
            let mut references = references.into_iter().flatten();
            references.any(|r| r["uid"] == owner && r["blockOwnerDeletion"] == true)
        });
        if !waits || blocked {
            return;
        }
        let released = self.update(&access(Verb::Patch), resource, &key, |object| {
            let mut object = object.clone();
            if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|f| f != FOREGROUND);
            }
            Ok(object)
        });
        if let Err(refusal) = released {
            tracing::debug!(%refusal, ?resource, name = key.1, "an owner could not be released");
        }
    }

    /// Ends a namespace: everything in it goes, and then the namespace.
    pub(super) fn end_namespace(&mut self, access: &Access, name: &str) -> Option<Arc<Entry>> {
        let key = (String::new(), name.to_owned());
        let mut namespace = (*self.get(NAMESPACES, &key)?.value).clone();
        namespace["metadata"]["deletionTimestamp"] = json!(self.now());
        namespace["status"]["phase"] = json!("Terminating");
        let marked = self.put(access, NAMESPACES, &key, Some(namespace));
        if !access.dry_run {
            for resource in ALL.iter().filter(|r| r.namespaced) {
                for key in self.keys_in(resource, name) {
                    self.delete_quietly(resource, &key, &Deletion::default());
                }
            }
            self.finish_namespace(name);
        }
        marked
    }

    fn keys_in(&self, resource: &Resource, namespace: &str) -> Vec<Key> {
        let from = (namespace.to_owned(), String::new());
        let keys = self.table(resource).objects.range(from..).map(|(k, _)| k);
        keys.take_while(|k| k.0 == namespace).cloned().collect()
    }

    fn finish_namespace(&mut self, name: &str) {
        let key = (String::new(), name.to_owned());
        let ending = self
            .get(NAMESPACES, &key)
            .is_some_and(|n| !n.value["metadata"]["deletionTimestamp"].is_null());
        let empty = || {
            let mut all = ALL.iter().filter(|r| r.namespaced);
            all.all(|r| self.keys_in(r, name).is_empty())
        };
        if ending && empty() {
            self.put(&access(Verb::Delete), NAMESPACES, &key, None);
        }
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let references = object["metadata"]["ownerReferences"].as_array();
    references
        .into_iter()
        .flatten()
        .filter_map(|r| r["uid"].as_str())
}

impl Propagation {
    /// Does the removal wait for what the object owns?
    pub(super) fn is_foreground(self) -> bool {
        self == Self::Foreground
    }
}
