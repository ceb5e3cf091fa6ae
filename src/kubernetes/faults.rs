//! Writes of `GpuFault` objects. Every status write carries the resourceVersion that the decision was made on.

use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::clients::{ApiError, call};
use crate::api::names;
use crate::api::{GpuFault, GpuFaultStatus};

/// Writes the status, if nobody has changed the object since; a conflict otherwise.
pub async fn write_status(
    client: &Client,
    fault: &GpuFault,
    status: GpuFaultStatus,
) -> Result<GpuFault, ApiError> {
    let api: Api<GpuFault> = Api::all(client.clone());
    let mut wanted = fault.clone();
    wanted.metadata.managed_fields = None;
    wanted.status = Some(status);
    call(
        "writing a fault's status",
        api.replace_status(&fault.name_any(), &PostParams::default(), &wanted),
    )
    .await
}

/// Creates the fault; a conflict when it exists already.
pub async fn create(client: &Client, fault: &GpuFault) -> Result<GpuFault, ApiError> {
    let api: Api<GpuFault> = Api::all(client.clone());
    call(
        "creating a fault",
        api.create(&PostParams::default(), fault),
    )
    .await
}

/// Reads the fault afresh; `None`: it is gone.
pub async fn read(client: &Client, name: &str) -> Result<Option<GpuFault>, ApiError> {
    let api: Api<GpuFault> = Api::all(client.clone());
    call("reading a fault", api.get_opt(name)).await
}

/// Puts our finalizer on the fault.
pub async fn add_finalizer(client: &Client, fault: &GpuFault) -> Result<GpuFault, ApiError> {
    let mut finalizers = fault.finalizers().to_vec();
    finalizers.push(names::FINALIZER.to_string());
    set_finalizers(client, fault, finalizers).await
}

/// Takes our finalizer off the fault.
pub async fn remove_finalizer(client: &Client, fault: &GpuFault) -> Result<GpuFault, ApiError> {
    let finalizers = fault
        .finalizers()
        .iter()
        .filter(|f| *f != names::FINALIZER)
        .cloned()
        .collect();
    set_finalizers(client, fault, finalizers).await
}

async fn set_finalizers(
    client: &Client,
    fault: &GpuFault,
    finalizers: Vec<String>,
) -> Result<GpuFault, ApiError> {
    let patch = json!({"metadata": {"resourceVersion": fault.resource_version(), "finalizers": finalizers}});
    merge(
        client,
        "changing a fault's finalizers",
        &fault.name_any(),
        &patch,
    )
    .await
}

/// Removes a person's retry annotation.
pub async fn clear_retry(client: &Client, fault: &GpuFault) -> Result<GpuFault, ApiError> {
    let patch = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: null}}});
    merge(
        client,
        "removing a retry annotation",
        &fault.name_any(),
        &patch,
    )
    .await
}

async fn merge(
    client: &Client,
    what: &'static str,
    name: &str,
    patch: &serde_json::Value,
) -> Result<GpuFault, ApiError> {
    let api: Api<GpuFault> = Api::all(client.clone());
    call(
        what,
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)),
    )
    .await
}

/// Deletes the fault, this incarnation of it and no other.
pub async fn delete(client: &Client, fault: &GpuFault) -> Result<(), ApiError> {
    let api: Api<GpuFault> = Api::all(client.clone());
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: fault.uid(),
            resource_version: fault.resource_version(),
        }),
        ..Default::default()
    };
    match call(
        "deleting a fault",
        api.delete(&fault.name_any(), &parameters),
    )
    .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
