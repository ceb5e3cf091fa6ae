//! The rules of writing: what is set by the server, what conflicts, when an object goes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admission;
use super::refusal::Refusal;
use super::resources::{NAMESPACES, PODS, Resource};
use super::state::{Access, Entry, Key, State};

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// An object must be this exact one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl Preconditions {
    /// From `DeleteOptions`.
    pub(super) fn of(options: &Value) -> Self {
        let text = |name: &str| options["preconditions"][name].as_str().map(str::to_owned);
        Self {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        }
    }

    pub(super) fn check(
        &self,
        resource: &Resource,
        name: &str,
        object: &Value,
    ) -> Result<(), Refusal> {
        let has = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        if let Some(uid) = &self.uid
            && uid != has("uid")
        {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                has("uid")
            );
            return Err(Refusal::conflict(resource, name, &why));
        }
        if let Some(version) = &self.resource_version
            && version != has("resourceVersion")
        {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                has("resourceVersion")
            );
            return Err(Refusal::conflict(resource, name, &why));
        }
        Ok(())
    }
}

impl State {
    /// Makes an object.
    pub(super) fn create(
        &mut self,
        access: &Access,
        resource: &'static Resource,
        namespace: Option<&str>,
        mut object: Value,
    ) -> Result<Arc<Entry>, Refusal> {
        admission::identify(resource, namespace, &mut object)?;
        let meta = &object["metadata"];
        let name = meta["name"].as_str().unwrap_or_default().to_owned();
        let prefix = meta["generateName"].as_str().unwrap_or_default();
        let name = match (name.is_empty(), prefix.is_empty()) {
            (false, _) => name,
            (true, false) => format!("{prefix}{}", self.name_suffix()),
            (true, true) => return Err(admission::name_required(resource)),
        };
        let namespace = meta["namespace"].as_str().unwrap_or_default().to_owned();
        self.admits_in(resource, &namespace, &name)?;
        let key = (namespace, name);
        if !meta["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
        {
            return Err(Refusal::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if self.get(resource, &key).is_some() {
            return Err(Refusal::already_exists(resource, &key.1));
        }
        let uid = self.next_uid();
        let now = self.now();
        let meta = &mut object["metadata"];
        meta["name"] = json!(key.1);
        meta["uid"] = json!(uid);
        meta["creationTimestamp"] = json!(now);
        if let Some(meta) = meta.as_object_mut() {
            for set_by_server in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "managedFields",
                "generation",
                "selfLink",
            ] {
                meta.remove(set_by_server);
            }
            if resource.generation {
                meta.insert("generation".to_owned(), json!(1));
            }
        }
        drop_status(resource, &mut object);
        admission::default(resource, &mut object);
        if resource != PODS && resource != NAMESPACES {
            drop_status(resource, &mut object);
        }
        admission::validate(resource, None, &object)?;
        Ok(self.stored(access, resource, &key, object))
    }

    fn stored(
        &mut self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        object: Value,
    ) -> Arc<Entry> {
        match self.put(access, resource, key, Some(object)) {
            Some(entry) => entry,
            // `put` answers what it was given, so this is not reached.
            None => Arc::new(Entry::new(Value::Null)),
        }
    }

    /// Changes an object: `edit` makes the wanted one from the present one.
    pub(super) fn update(
        &mut self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        edit: impl FnOnce(&Value) -> Result<Value, Refusal>,
    ) -> Result<Arc<Entry>, Refusal> {
        let before = self
            .get(resource, key)
            .cloned()
            .ok_or_else(|| Refusal::not_found(resource, &key.1))?;
        let mut wanted = edit(&before.value)?;
        let namespace = Some(key.0.as_str()).filter(|n| !n.is_empty());
        admission::identify(resource, namespace, &mut wanted)?;
        admission::same_name(&key.1, &wanted)?;
        let old = &before.value;
        let text = |value: &Value, field: &str| {
            value["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let uid = text(&wanted, "uid");
        if !uid.is_empty() && uid != text(old, "uid") {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                text(old, "uid")
            );
            return Err(Refusal::conflict(resource, &key.1, &why));
        }
        let version = text(&wanted, "resourceVersion");
        if version.is_empty() && !admission::allows_unconditional_update(resource) {
            return Err(admission::version_required(resource, &key.1));
        }
        if !version.is_empty() && version != text(old, "resourceVersion") {
            return Err(Refusal::conflict(resource, &key.1, MODIFIED));
        }
        admission::carry_over(resource, access.subresource, old, &mut wanted);
        admission::default(resource, &mut wanted);
        admission::validate(resource, Some(old), &wanted)?;
        if wanted == **old {
            return Ok(before);
        }
        admission::count_generation(resource, access.subresource, old, &mut wanted);
        if admission::goes_now(&wanted) {
            return Ok(self.remove(access, resource, key, Some(wanted)));
        }
        Ok(self.stored(access, resource, key, wanted))
    }

    /// Takes an object out, with what follows from that.
    pub(super) fn remove(
        &mut self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        last: Option<Value>,
    ) -> Arc<Entry> {
        let gone = match self.put(access, resource, key, None) {
            Some(entry) => entry,
            None => Arc::new(Entry::new(Value::Null)),
        };
        if !access.dry_run {
            self.collect_garbage(resource, &gone.value);
        }
        match last {
            Some(last) => Arc::new(Entry::new(last)),
            None => gone,
        }
    }
}

/// What is written through a subresource of its own does not come with a new object.
fn drop_status(resource: &Resource, object: &mut Value) {
    if resource.status
        && let Some(object) = object.as_object_mut()
    {
        object.remove("status");
    }
}
