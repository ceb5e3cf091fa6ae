//! The custom resources (`gpu-remediator.dev/v1alpha1`, cluster-scoped): what an SRE writes and what the controller
//! answers. Pure data: types, their schema, and the closed lists of reasons.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

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

/// The custom resource definitions, in the order in which they are printed and shipped: plural name and definition.
pub fn definitions() -> Vec<(&'static str, CustomResourceDefinition)> {
    let mut definitions = vec![
        ("gpufaults", GpuFault::crd()),
        ("gpufaultrules", GpuFaultRule::crd()),
        ("remediationpolicies", RemediationPolicy::crd()),
    ];
    for (_, definition) in &mut definitions {
        for version in &mut definition.spec.versions {
            if let Some(schema) = version
                .schema
                .as_mut()
                .and_then(|s| s.open_api_v3_schema.as_mut())
            {
                drop_unknown_formats(schema);
            }
        }
    }
    definitions
}

/// Kubernetes knows no unsigned formats and warns about each at every apply. The bound that such a format stands for is
/// in the schema already, as `minimum`.
fn drop_unknown_formats(schema: &mut JSONSchemaProps) {
    let maximum = match schema.format.as_deref() {
        Some("uint32") => Some(f64::from(u32::MAX)),
        // The largest whole number that every JSON reader keeps exactly.
        Some("uint64") => Some(9_007_199_254_740_991.0),
        _ => None,
    };
    if schema.maximum.is_none() {
        schema.maximum = maximum;
    }
    if schema
        .format
        .as_deref()
        .is_some_and(|format| format.starts_with("uint"))
    {
        schema.format = None;
    }
    for property in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        drop_unknown_formats(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        drop_unknown_formats(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(additional)) = &mut schema.additional_properties {
        drop_unknown_formats(additional);
    }
}
