//! The server without HTTP, for the simulated world's own controllers and for people in a story.

use std::sync::Arc;

use serde_json::Value;

use super::ApiServer;
use super::delete::Deletion;
use super::history::{Change, Verb};
use super::refusal::Refusal;
use super::resources::Resource;
use super::state::{Access, Key};

/// Reads and writes by the same rules as over HTTP, at once.
#[derive(Clone)]
pub struct Store {
    pub(super) server: ApiServer,
    pub(super) actor: Arc<str>,
}

impl Store {
    fn access(&self, verb: Verb, subresource: Option<&'static str>) -> Access {
        Access {
            actor: self.actor.clone(),
            verb,
            subresource,
            dry_run: false,
        }
    }

    /// Reads one object.
    #[must_use]
    pub fn get(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Arc<Value>> {
        let key = key(resource, namespace, name);
        self.server
            .read(|state| state.get(resource, &key).map(|e| e.value.clone()))
    }

    /// Reads all objects, in the order of namespace and name.
    #[must_use]
    pub fn list(&self, resource: &Resource) -> Vec<Arc<Value>> {
        self.server.read(|state| {
            let objects = state.table(resource).objects.values();
            objects.map(|e| e.value.clone()).collect()
        })
    }

    /// What changed after a revision. Where the log does not go back that far (ten minutes at least), everything that
    /// exists is answered as if it were new.
    #[must_use]
    pub fn since(&self, resource: &Resource, revision: u64) -> Vec<Change> {
        self.server
            .read(|state| match state.since(resource, revision) {
                Some(log) => log.map(Change::from).collect(),
                None => {
                    let objects = state.table(resource).objects.values();
                    objects.map(|e| Change::present(&e.value)).collect()
                }
            })
    }

    /// Makes an object. Its namespace is the one it names, or `default`. `status` is dropped where it is a subresource.
    ///
    /// # Errors
    ///
    /// As the API refuses: 409 when it exists, 404 when its namespace does not, 422 when it is not valid.
    pub fn create(
        &self,
        resource: &'static Resource,
        object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        let access = self.access(Verb::Create, None);
        let made = self
            .server
            .write(|state| state.create(&access, resource, None, object))?;
        Ok(made.value.clone())
    }

    /// Changes metadata and what is not status. An edit that changes nothing makes no revision.
    ///
    /// # Errors
    ///
    /// As the API refuses: 404 when there is no such object, 409 when the edit changed `resourceVersion` or `uid`, 422
    /// when the result is not valid.
    pub fn change(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Refusal> {
        self.edit(resource, namespace, name, None, edit)
    }

    /// Changes the status.
    ///
    /// # Errors
    ///
    /// As [`Store::change`].
    pub fn change_status(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Refusal> {
        self.edit(resource, namespace, name, Some("status"), edit)
    }

    fn edit(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&'static str>,
        edit: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Refusal> {
        let access = self.access(Verb::Patch, subresource);
        let key = key(resource, namespace, name);
        let changed = self.server.write(|state| {
            state.update(&access, resource, &key, |old| {
                let mut wanted = old.clone();
                edit(&mut wanted);
                Ok(wanted)
            })
        })?;
        Ok(changed.value.clone())
    }

    /// Removes an object, or marks it for removal. With `grace_seconds` 0 a pod is gone at once.
    ///
    /// # Errors
    ///
    /// 404 when there is no such object.
    pub fn delete(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        name: &str,
        grace_seconds: Option<i64>,
    ) -> Result<(), Refusal> {
        let access = self.access(Verb::Delete, None);
        let key = key(resource, namespace, name);
        let deletion = Deletion {
            grace_seconds,
            ..Deletion::default()
        };
        self.server
            .write(|state| state.delete(&access, resource, &key, &deletion))?;
        Ok(())
    }
}

/// The key of an object: the namespace is `default` where one is needed and none is given.
fn key(resource: &Resource, namespace: Option<&str>, name: &str) -> Key {
    let namespace = match namespace {
        _ if !resource.namespaced => "",
        Some(namespace) => namespace,
        None => "default",
    };
    (namespace.to_owned(), name.to_owned())
}
