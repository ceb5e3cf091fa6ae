//! Dynamic Resource Allocation: does a claim hold an NVIDIA GPU?

use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Client;
use kube::api::Api;

use super::clients::{ApiError, call};

/// The DRA drivers whose devices are GPUs.
pub(super) const GPU_DRIVERS: [&str; 1] = ["gpu.nvidia.com"];

/// Whether the claim has a GPU allocated. A claim that is gone holds nothing.
pub async fn holds_gpu(client: &Client, namespace: &str, name: &str) -> Result<bool, ApiError> {
    let api: Api<ResourceClaim> = Api::namespaced(client.clone(), namespace);
    let claim = call("reading a resource claim", api.get_opt(name)).await?;
    let allocation = claim
        .and_then(|c| c.status)
        .and_then(|s| s.allocation)
        .and_then(|a| a.devices);
    let results = allocation.and_then(|d| d.results).unwrap_or_default();
    Ok(results
        .iter()
        .any(|r| GPU_DRIVERS.contains(&r.driver.as_str())))
}
