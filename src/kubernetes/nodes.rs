//! Cordon and uncordon: one JSON patch that changes the node and our mark together, and only if nobody has changed the
//! node since it was looked at.

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::clients::{ApiError, call};
use super::views::NodeView;
use crate::api::names;
use crate::remediation::mark::NodeChange;

/// How often a patch is tried again because the kubelet's heartbeat came in between.
const TRIES: usize = 5;

/// A node could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The node could not be read.
    #[error("reading node {node:?}")]
    Read {
        /// Node name.
        node: String,
        /// Cause.
        #[source]
        source: ApiError,
    },
    /// The patch was refused.
    #[error("patching node {node:?}")]
    Patch {
        /// Node name.
        node: String,
        /// Cause.
        #[source]
        source: ApiError,
    },
    /// The change could not be written as a patch.
    #[error("writing the patch for node {node:?}")]
    Encode {
        /// Node name.
        node: String,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
    /// The node was changed by others each time.
    #[error("node {node:?} was changed by others {TRIES} times in a row")]
    Contended {
        /// Node name.
        node: String,
    },
}

/// Reads a node afresh; `None`: there is none of that name.
pub async fn read(client: &Client, name: &str) -> Result<Option<NodeView>, NodeError> {
    let api: Api<NodeView> = Api::all(client.clone());
    call("reading a node", api.get_opt(name))
        .await
        .map_err(|source| NodeError::Read {
            node: name.to_string(),
            source,
        })
}

/// Looks at the node afresh and changes it as `change` says; `change` answers `None` when there is nothing to do. Each
/// write is tied to the resourceVersion that was looked at. Returns whether anything was written.
pub async fn change(
    client: &Client,
    name: &str,
    expected_uid: Option<&str>,
    change: impl Fn(&NodeView) -> Option<NodeChange>,
) -> Result<bool, NodeError> {
    let api: Api<NodeView> = Api::all(client.clone());
    for _ in 0..TRIES {
        let Some(node) = read(client, name).await? else {
            return Ok(false);
        };
        if expected_uid.is_some_and(|uid| node.metadata.uid.as_deref() != Some(uid)) {
            return Ok(false);
        }
        let Some(wanted) = change(&node) else {
            return Ok(false);
        };
        let patch = patch(&node, &wanted).map_err(|source| NodeError::Encode {
            node: name.to_string(),
            source,
        })?;
        let (parameters, patch) = (PatchParams::default(), Patch::Json::<()>(patch));
        let request = api.patch(name, &parameters, &patch);
        match call("patching a node", request).await {
            Ok(_) => return Ok(true),
            // 409: the resourceVersion moved while the server applied the patch; 422: the test operation failed.
            Err(error) if matches!(error.code(), Some(409 | 422)) => {}
            Err(source) => {
                return Err(NodeError::Patch {
                    node: name.to_string(),
                    source,
                });
            }
        }
    }
    Err(NodeError::Contended {
        node: name.to_string(),
    })
}

fn patch(node: &NodeView, change: &NodeChange) -> Result<json_patch::Patch, serde_json::Error> {
    let mut operations = vec![json!({
        "op": "test", "path": "/metadata/resourceVersion", "value": node.metadata.resource_version,
    })];
    if let Some(unschedulable) = change.unschedulable {
        operations
            .push(json!({"op": "add", "path": "/spec/unschedulable", "value": unschedulable}));
    }
    let key = names::CORDON_ANNOTATION
        .replace('~', "~0")
        .replace('/', "~1");
    let annotations = node.metadata.annotations.as_ref();
    match &change.mark {
        Some(mark) => {
            if annotations.is_none() {
                operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
            }
            let text = serde_json::to_string(mark)?;
            operations.push(
                json!({"op": "add", "path": format!("/metadata/annotations/{key}"), "value": text}),
            );
        }
        None if annotations.is_some_and(|a| a.contains_key(names::CORDON_ANNOTATION)) => {
            operations
                .push(json!({"op": "remove", "path": format!("/metadata/annotations/{key}")}));
        }
        None => {}
    }
    serde_json::from_value(json!(operations))
}
