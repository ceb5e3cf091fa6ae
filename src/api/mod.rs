//! The custom resources (`gpu-remediator.dev/v1alpha1`, cluster-scoped): what an SRE writes and what the controller
//! answers. Pure data: types, their schema, and the closed lists of reasons.

pub mod conditions;
pub mod duration;
pub mod fault;
pub mod fault_status;
pub mod names;
pub mod policy;
pub mod rule;

pub use duration::PromDuration;
pub use fault::{GpuFault, GpuFaultSpec};
pub use fault_status::{GpuFaultStatus, Phase};
pub use policy::{RemediationPolicy, RemediationPolicySpec, RemediationPolicyStatus};
pub use rule::{GpuFaultRule, GpuFaultRuleSpec, GpuFaultRuleStatus};

/// The custom resource definitions, in the order in which they are printed and shipped: file stem and definition.
pub fn definitions() -> Vec<(
    &'static str,
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
)> {
    use kube::CustomResourceExt;
    vec![
        ("gpufaults", GpuFault::crd()),
        ("gpufaultrules", GpuFaultRule::crd()),
        ("remediationpolicies", RemediationPolicy::crd()),
    ]
}
