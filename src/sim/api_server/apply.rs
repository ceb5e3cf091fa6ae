//! Server-side apply, without `managedFields`: what a manager applied before and no longer names is removed, and what it
//! names is merged in. Ownership between managers is not followed: without `force` nothing conflicts.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::patch::merge_key;
use super::refusal::Refusal;
use super::resources::Resource;
use super::state::{Access, Entry, Key, State};

impl State {
    /// Applies; answers whether the object is new.
    pub(super) fn apply(
        &mut self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        manager: &str,
        force: bool,
        applied: Value,
    ) -> Result<(bool, Arc<Entry>), Refusal> {
        let _ = force;
        if manager.is_empty() {
            return Err(Refusal::new(
                422,
                "Invalid",
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        if !applied["metadata"]["managedFields"].is_null() {
            return Err(Refusal::bad_request("metadata.managedFields must be nil"));
        }
        if applied["apiVersion"].is_null() || applied["kind"].is_null() {
            return Err(Refusal::bad_request(
                "invalid object type: apiVersion and kind are required",
            ));
        }
        let Some(present) = self.get(resource, key).cloned() else {
            if access.subresource.is_some() {
                return Err(Refusal::not_found(resource, &key.1));
            }
            if let Some(uid) = applied["metadata"]["uid"].as_str() {
                let why = format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: "
                );
                return Err(Refusal::conflict(resource, &key.1, &why));
            }
            let mut object = applied.clone();
            if object["metadata"]["name"].is_null() {
                object["metadata"]["name"] = json!(key.1);
            }
            let namespace = Some(key.0.as_str()).filter(|n| !n.is_empty());
            let made = self.create(access, resource, namespace, object)?;
            self.remember(access, &made, manager, applied);
            return Ok((true, made));
        };
        let uid = uid_of(&present);
        let slot = (uid, manager.to_owned(), access.subresource);
        let earlier = self.applied.get(&slot).cloned().unwrap_or(Value::Null);
        let changed = self.update(access, resource, key, |object| {
            let mut wanted = object.clone();
            withdraw(&mut wanted, &earlier, &applied);
            merge(&mut wanted, &applied);
            Ok(wanted)
        })?;
        self.remember(access, &changed, manager, applied);
        Ok((false, changed))
    }

    fn remember(&mut self, access: &Access, entry: &Entry, manager: &str, applied: Value) {
        if !access.dry_run {
            let slot = (uid_of(entry), manager.to_owned(), access.subresource);
            self.applied.insert(slot, applied);
        }
    }
}

fn uid_of(entry: &Entry) -> String {
    let uid = entry.value["metadata"]["uid"].as_str();
    uid.unwrap_or_default().to_owned()
}

/// Removes what was applied earlier and is not now.
fn withdraw(target: &mut Value, earlier: &Value, now: &Value) {
    let (Some(target), Some(earlier)) = (target.as_object_mut(), earlier.as_object()) else {
        return;
    };
    for (key, value) in earlier {
        match now.get(key) {
            None => {
                target.remove(key);
            }
            Some(now) => {
                if let Some(target) = target.get_mut(key) {
                    if let Some(by) = merge_key(key) {
                        withdraw_items(target, value, now, by);
                    } else {
                        withdraw(target, value, now);
                    }
                }
            }
        }
    }
}

fn withdraw_items(target: &mut Value, earlier: &Value, now: &Value, by: &str) {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let (earlier, now) = (items(earlier), items(now));
    let same = |list: &[Value], item: &Value| list.iter().any(|i| i[by] == item[by]);
    if let Some(target) = target.as_array_mut() {
        target.retain(|item| !same(&earlier, item) || same(&now, item));
    }
}

fn merge(target: &mut Value, applied: &Value) {
    let Some(fields) = applied.as_object() else {
        *target = applied.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (key, value) in fields {
        let present = target.entry(key.clone()).or_insert(Value::Null);
        match (value, merge_key(key)) {
            (Value::Array(items), Some(by)) if present.is_array() => {
                if let Some(present) = present.as_array_mut() {
                    for item in items {
                        match present.iter_mut().find(|p| p[by] == item[by]) {
                            Some(found) => merge(found, item),
                            None => present.push(item.clone()),
                        }
                    }
                }
            }
            (Value::Object(_), _) => merge(present, value),
            (plain, _) => *present = plain.clone(),
        }
    }
}
