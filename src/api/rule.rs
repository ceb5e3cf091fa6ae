//! `GpuFaultRule`: Prometheus rule groups with a `remediation` block.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::PromDuration;

/// What is a GPU fault: Prometheus rule groups whose alerts name the policy that remediates them.
///
/// The groups mean what they mean to Prometheus; only the `remediation` block of each rule is new.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "gpu-remediator.dev",
    version = "v1alpha1",
    kind = "GpuFaultRule",
    plural = "gpufaultrules",
    shortname = "gfr",
    category = "gpu-remediator",
    status = "GpuFaultRuleStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Ready", "type": "string", "description": "Whether every rule is evaluated and names an existing policy", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "description": "Why the rules are or are not ready", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name": "Alerts", "type": "string", "description": "The alert names of the rules", "jsonPath": ".spec.groups[*].rules[*].alert", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "description": "Time since the object was made", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(deny_unknown_fields)]
pub struct GpuFaultRuleSpec {
    /// The rule groups. The rules of a group are evaluated one after another, at the same evaluation time.
    #[schemars(length(min = 1, max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub groups: Vec<RuleGroup>,
}

/// A group of rules that are evaluated together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleGroup {
    /// The name of the group, unique within the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// How often the rules are evaluated. The controller's default is used when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<PromDuration>,

    /// How many alerts one rule may have; 0 or absent means no limit. Exceeding it freezes the rule: nothing new opens,
    /// what is open stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub limit: Option<u32>,

    /// How far in the past the expressions are evaluated, for data that arrives late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_offset: Option<PromDuration>,

    /// Labels added to every alert of the group. A rule's own labels override them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,

    /// The rules of the group.
    #[schemars(length(min = 1, max = 128))]
    pub rules: Vec<Rule>,
}

/// An alerting rule and what remediates it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The name of the alert, unique within its group.
    #[schemars(length(min = 1, max = 253))]
    pub alert: String,

    /// The PromQL expression. Each series of its result is one alert.
    #[schemars(length(min = 1, max = 16384))]
    pub expr: String,

    /// For how long the expression must return a series before its alert fires. Absent means at once.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<PromDuration>,

    /// For how long an alert keeps firing after its series is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_firing_for: Option<PromDuration>,

    /// Labels added to the alert. They are part of its identity, so they must not depend on the value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,

    /// Text for people, such as a summary and the address of a runbook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,

    /// What to do when the alert fires.
    pub remediation: Remediation,
}

/// Which policy handles the fault, and how the node and the GPU are found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remediation {
    /// The name of the RemediationPolicy.
    #[schemars(length(min = 1, max = 253))]
    pub policy: String,

    /// The Xid that is recorded on the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub xid: Option<u32>,

    /// A template for the name of the node. Absent means the label `node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub node: Option<String>,

    /// A template for the UUID of the GPU. Absent means the label `UUID`; an alert without one is about the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub gpu: Option<String>,
}

/// What the controller saw when it evaluated the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuFaultRuleStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Whether the rules are ready, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The state of each rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<RuleStatus>,
}

/// The state of one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleStatus {
    /// The group of the rule.
    #[schemars(length(max = 253))]
    pub group: String,

    /// The name of the alert.
    #[schemars(length(max = 253))]
    pub alert: String,

    /// The state of the rule.
    pub state: RulePhase,

    /// Why the rule is Degraded: one word out of a closed list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,

    /// How many series the last answer had.
    #[serde(default)]
    pub series_seen: u64,

    /// When the rule was last evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_evaluation: Option<MicroTime>,

    /// What the last evaluation failed with; absent when it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub last_error: Option<String>,

    /// The pending and firing alerts, so that `for` and `keep_firing_for` survive a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub active: Vec<ActiveAlert>,
}

/// The state of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RulePhase {
    /// The expression returned nothing.
    #[default]
    Inactive,
    /// The expression returned series, none for long enough.
    Pending,
    /// At least one alert fires.
    Firing,
    /// A person or a guard holds the rule.
    Paused,
    /// A guard latched the rule; a person resumes it.
    Stopped,
    /// Too many nodes fired the rule at once.
    Suspended,
    /// The rule cannot be judged. It neither opens nor closes a fault.
    Degraded,
}

/// One pending or firing alert of a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveAlert {
    /// The labels that identify the alert.
    #[schemars(extend("maxProperties" = 128))]
    pub labels: BTreeMap<String, String>,

    /// Whether it is pending or firing.
    pub state: AlertPhase,

    /// When the series was first seen.
    pub active_at: Option<MicroTime>,

    /// When it began to fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firing_since: Option<MicroTime>,

    /// When the series of a firing alert was first missing, while `keep_firing_for` runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_firing_since: Option<MicroTime>,

    /// When the series was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<MicroTime>,
}

/// Whether an alert is pending or firing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AlertPhase {
    /// The series has not been there for long enough.
    #[default]
    Pending,
    /// The alert fires.
    Firing,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;

    const MANIFEST: &str = include_str!("../../rules/xid-fatal.yaml");

    #[test]
    fn every_field_is_described_and_every_list_is_bounded() {
        fn walk(path: &str, schema: &Value, complaints: &mut Vec<String>) {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                if property["description"].as_str().unwrap_or("").is_empty() {
                    complaints.push(format!("{path} has no description"));
                }
                if property["type"] == "array" && property["maxItems"].is_null() {
                    complaints.push(format!("{path} has no maxItems"));
                }
                walk(&path, property, complaints);
                walk(&path, &property["items"], complaints);
            }
        }
        let crd = serde_json::to_value(GpuFaultRule::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut complaints = Vec::new();
        walk("spec", &schema["properties"]["spec"], &mut complaints);
        walk("status", &schema["properties"]["status"], &mut complaints);
        assert!(complaints.is_empty(), "{complaints:#?}");
        assert_eq!(crd["spec"]["scope"], "Cluster");
        assert_eq!(
            crd["spec"]["names"]["shortNames"],
            json!(["gfr"]),
            "{}",
            crd["spec"]["names"]
        );
    }

    #[test]
    fn the_shipped_rule_is_read() {
        let rule: GpuFaultRule = serde_saphyr::from_str(MANIFEST).unwrap();
        let rules = &rule.spec.groups[0].rules;
        assert!(rules.iter().any(|rule| rule.remediation.xid == Some(79)));
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let error = serde_json::from_value::<GpuFaultRuleSpec>(json!({
            "groups": [{"name": "a", "rules": [{"alert": "A", "expr": "up", "remediation": {"policy": "p", "polcy": "q"}}]}]
        }))
        .unwrap_err();
        assert!(error.to_string().contains("polcy"), "{error}");
    }
}
