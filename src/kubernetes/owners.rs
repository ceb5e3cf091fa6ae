//! The root owner of a pod, and what that owner wants.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Api;
use kube::{Client, ResourceExt};

use super::clients::{ApiError, call};
use crate::api::fault_status::OwnerRef;
use crate::slo::matching::OwnerState;

/// Walks one step up: the Deployment behind a ReplicaSet, whatever owns a Job. An owner that is owned by nobody, or
/// that is of another kind, is the root itself.
pub async fn root(client: &Client, namespace: &str, owner: OwnerRef) -> Result<OwnerRef, ApiError> {
    let above = match owner.kind.as_str() {
        "ReplicaSet" => {
            let api: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
            let meta = call("reading a replica set", api.get_metadata_opt(&owner.name)).await?;
            meta.filter(|m| m.uid().as_deref() == Some(&owner.uid))
                .and_then(|m| controller(m.owner_references()))
        }
        "Job" => {
            let api: Api<Job> = Api::namespaced(client.clone(), namespace);
            let meta = call("reading a job", api.get_metadata_opt(&owner.name)).await?;
            meta.filter(|m| m.uid().as_deref() == Some(&owner.uid))
                .and_then(|m| controller(m.owner_references()))
        }
        _ => None,
    };
    Ok(above.unwrap_or(owner))
}

fn controller(owners: &[OwnerReference]) -> Option<OwnerRef> {
    owners
        .iter()
        .find(|o| o.controller == Some(true))
        .map(|o| OwnerRef {
            kind: o.kind.clone(),
            name: o.name.clone(),
            uid: o.uid.clone(),
        })
}

/// Whether the owner still wants more pods than the `alive` ones that it has. Kinds that we do not know count as wanting
/// more. The owner's own status is not asked for their number: it is as old as the last visit of its controller, and
/// that one may be away.
pub async fn state(
    client: &Client,
    namespace: &str,
    owner: &OwnerRef,
    alive: usize,
) -> Result<OwnerState, ApiError> {
    let same = |uid: Option<String>| uid.as_deref() == Some(owner.uid.as_str());
    let wants = |replicas: Option<i32>| {
        usize::try_from(replicas.unwrap_or(1)).is_ok_and(|replicas| replicas > alive)
    };
    let active = match owner.kind.as_str() {
        "Deployment" => {
            let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
            let found = call("reading a deployment", api.get_opt(&owner.name))
                .await?
                .filter(|d| same(d.uid()));
            found.is_some_and(|d| wants(d.spec.replicas))
        }
        "ReplicaSet" => {
            let api: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
            let found = call("reading a replica set", api.get_opt(&owner.name))
                .await?
                .filter(|r| same(r.uid()));
            found.is_some_and(|r| wants(r.spec.replicas))
        }
        "StatefulSet" => {
            let api: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
            let found = call("reading a stateful set", api.get_opt(&owner.name))
                .await?
                .filter(|s| same(s.uid()));
            found.is_some_and(|s| wants(s.spec.replicas))
        }
        "Job" => {
            let api: Api<Job> = Api::namespaced(client.clone(), namespace);
            let found = call("reading a job", api.get_opt(&owner.name))
                .await?
                .filter(|j| same(j.uid()));
            return Ok(found.map_or(OwnerState::Done, |j| job_state(&j)));
        }
        _ => true,
    };
    Ok(if active {
        OwnerState::Active
    } else {
        OwnerState::Done
    })
}

fn job_state(job: &Job) -> OwnerState {
    let conditions = job
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default();
    let is = |type_: &str| {
        conditions
            .iter()
            .any(|c| c.type_ == type_ && c.status == "True")
    };
    if is("Failed") {
        OwnerState::Failed
    } else if is("Complete") || job.spec.as_ref().and_then(|s| s.suspend) == Some(true) {
        OwnerState::Done
    } else {
        OwnerState::Active
    }
}
