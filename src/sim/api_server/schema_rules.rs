//! The CEL rules of our custom resources. CEL itself is not evaluated here: each rule that a definition uses is known by
//! its text and written out below, and a test fails when a definition has a rule that is not.

use serde_json::Value;

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    check: Option<Check>,
    /// What is said when it does not hold.
    pub(super) message: String,
}

/// From the value before and the value now.
type Check = fn(Option<&Value>, &Value) -> bool;

/// A rule's text and what it comes to.
const KNOWN: [(&str, Check); 5] = [
    ("self == oldSelf", |old, new| {
        old.is_none_or(|old| old == new)
    }),
    ("self.trim().size() > 0", |_, new| {
        new.as_str().is_some_and(|text| !text.trim().is_empty())
    }),
    (
        "type(self) == int ? self >= 1 && self <= 100000 : self.matches('^([1-9][0-9]?|100)%$')",
        |_, new| match new {
            Value::Number(n) => n.as_i64().is_some_and(|n| (1..=100_000).contains(&n)),
            Value::String(text) => is_percentage(text),
            _ => false,
        },
    ),
    (
        "self.all(s, (has(s.cordon) ? 1 : 0) + (has(s.evictPods) ? 1 : 0) + (has(s.verify) ? 1 : 0) == 1)",
        |_, new| {
            let mut steps = new.as_array().into_iter().flatten();
            steps.all(|step| {
                let named = ["cordon", "evictPods", "verify"];
                named.iter().filter(|name| has(step, name)).count() == 1
            })
        },
    ),
    (
        "!self.exists(s, has(s.evictPods)) || has(self[0].cordon)",
        |_, new| {
            let steps = new.as_array().map(Vec::as_slice).unwrap_or_default();
            !steps.iter().any(|s| has(s, "evictPods"))
                || steps.first().is_some_and(|s| has(s, "cordon"))
        },
    ),
];

impl Rule {
    pub(super) fn parse(rule: &Value) -> Self {
        let text = rule["rule"].as_str().unwrap_or_default();
        let check = KNOWN.iter().find(|known| known.0 == text);
        if check.is_none() {
            tracing::error!(rule = text, "a rule of a custom resource is not checked");
        }
        let message = rule["message"].as_str().unwrap_or(text).to_owned();
        Self {
            check: check.map(|known| known.1),
            message,
        }
    }

    /// Does it hold?
    pub(super) fn holds(&self, old: Option<&Value>, new: &Value) -> bool {
        self.check.is_none_or(|check| check(old, new))
    }
}

fn has(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|v| !v.is_null())
}

fn is_percentage(text: &str) -> bool {
    let Some(digits) = text.strip_suffix('%') else {
        return false;
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    plain && digits.parse::<u32>().is_ok_and(|n| (1..=100).contains(&n))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::sim::api_server::refusal::Cause;
    use crate::sim::api_server::resources::{GPU_FAULT_RULES, GPU_FAULTS, REMEDIATION_POLICIES};
    use crate::sim::api_server::schema::Schema;
    use crate::sim::api_server::schema_check::check;
    use serde_json::json;

    fn rules(schema: &Schema) -> Vec<&Rule> {
        let mut all: Vec<&Rule> = schema.rules.iter().collect();
        let boxed = [&schema.additional, &schema.items, &schema.not];
        let parts = schema
            .properties
            .values()
            .chain(boxed.into_iter().filter_map(|b| b.as_deref()))
            .chain(&schema.one_of)
            .chain(&schema.any_of)
            .chain(&schema.all_of);
        parts.for_each(|part| all.extend(rules(part)));
        all
    }

    #[test]
    fn every_rule_of_our_definitions_is_checked() {
        let mut count = 0;
        for resource in [GPU_FAULTS, GPU_FAULT_RULES, REMEDIATION_POLICIES] {
            for rule in rules(Schema::of(resource).unwrap()) {
                assert!(rule.check.is_some(), "{resource:?}: {}", rule.message);
                count += 1;
            }
        }
        assert!(count >= KNOWN.len(), "{count}");
    }

    fn causes(object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        check(
            Schema::of(GPU_FAULTS).unwrap(),
            old,
            object,
            "",
            &mut causes,
        );
        causes
    }

    #[test]
    fn percentages_are_whole_and_positive() {
        for yes in ["1%", "99%", "100%"] {
            assert!(is_percentage(yes), "{yes}");
        }
        for no in ["0%", "01%", "101%", "5", "x%", "%"] {
            assert!(!is_percentage(no), "{no}");
        }
    }

    #[test]
    fn a_fault_without_a_node_is_not_valid_and_nothing_unchanged_is_held_against_it() {
        let fault = json!({"spec": {"nodeName": 5}});
        let found = causes(&fault, None);
        assert!(
            found
                .iter()
                .any(|c| c.field == "spec.nodeName" && c.reason == "FieldValueTypeInvalid"),
            "{found:?}"
        );
        assert!(causes(&fault, Some(&fault)).is_empty());
    }
}
