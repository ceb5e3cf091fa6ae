//! Namespaces: what lives in one that is not there, or is ending, is refused.

use std::sync::Arc;

use serde_json::{Value, json};

use super::history::Verb;
use super::refusal::Refusal;
use super::resources::{NAMESPACES, Resource};
use super::state::{Access, Entry, State};

/// The namespaces that every cluster has.
const ALWAYS: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl State {
    /// Makes the namespaces that every cluster has.
    pub(super) fn make_namespaces(&mut self) {
        let access = Access {
            actor: Arc::from("apiserver"),
            verb: Verb::Create,
            subresource: None,
            dry_run: false,
        };
        for name in ALWAYS {
            let object = json!({"metadata": {"name": name}});
            if let Err(refusal) = self.create(&access, NAMESPACES, None, object) {
                tracing::error!(%refusal, name, "making a namespace");
            }
        }
    }

    /// May an object be made in that namespace?
    pub(super) fn admits_in(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), Refusal> {
        if !resource.namespaced {
            return Ok(());
        }
        let key = (String::new(), namespace.to_owned());
        let Some(found) = self.get(NAMESPACES, &key) else {
            return Err(Refusal::not_found(NAMESPACES, namespace));
        };
        if !is_ending(found) {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
        let causes = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        Err(Refusal::new(403, "Forbidden", message).with_causes(causes, None))
    }
}

fn is_ending(entry: &Entry) -> bool {
    let meta: &Value = &entry.value["metadata"];
    !meta["deletionTimestamp"].is_null()
}
