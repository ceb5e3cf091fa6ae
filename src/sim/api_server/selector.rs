//! Label and field selectors as they stand in a query.

use serde_json::Value;

use super::refusal::Refusal;
use super::resources::{CORE_EVENTS, EVENTS, JOBS, NAMESPACES, NODES, PODS, Resource};

/// Which objects a list or a watch is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTerm {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    /// A JSON pointer.
    pointer: String,
    value: String,
    equal: bool,
}

impl Selection {
    /// Reads both selectors.
    pub(super) fn parse(
        resource: &Resource,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            labels: labels.map_or(Ok(Vec::new()), label_terms)?,
            fields: fields.map_or(Ok(Vec::new()), |text| field_terms(resource, text))?,
        })
    }

    /// Is everything selected?
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Is this object selected?
    pub(super) fn matches(&self, object: &Value) -> bool {
        self.fields.iter().all(|term| term.matches(object))
            && (self.labels.is_empty() || {
                let labels = &object["metadata"]["labels"];
                self.labels.iter().all(|term| term.matches(labels))
            })
    }
}

impl LabelTerm {
    fn matches(&self, labels: &Value) -> bool {
        let has = |key: &String| labels.get(key).and_then(Value::as_str);
        match self {
            Self::In(key, values) => has(key).is_some_and(|v| values.iter().any(|w| w == v)),
            Self::NotIn(key, values) => has(key).is_none_or(|v| values.iter().all(|w| w != v)),
            Self::Exists(key) => has(key).is_some(),
            Self::Absent(key) => has(key).is_none(),
        }
    }
}

impl FieldTerm {
    fn matches(&self, object: &Value) -> bool {
        let equal = match object.pointer(&self.pointer) {
            None | Some(Value::Null) => {
                self.value.is_empty()
                    || (self.value == "false" && self.pointer.ends_with("unschedulable"))
            }
            Some(Value::String(text)) => *text == self.value,
            Some(Value::Bool(flag)) => self.value == if *flag { "true" } else { "false" },
            Some(Value::Number(number)) => self
                .value
                .parse()
                .is_ok_and(|n: serde_json::Number| n == *number),
            Some(_) => false,
        };
        equal == self.equal
    }
}

/// Does a `LabelSelector` object, as budgets have one, select these labels? An empty one selects everything.
pub(super) fn label_selector_matches(selector: &Value, labels: &Value) -> bool {
    let exact = selector["matchLabels"].as_object();
    let exact = exact
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    exact
        && selector["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
            .all(|expression| {
                let key = expression["key"].as_str().unwrap_or_default().to_owned();
                let values = expression["values"].as_array().into_iter().flatten();
                let values = values
                    .filter_map(|v| v.as_str().map(str::to_owned))
                    .collect();
                let term = match expression["operator"].as_str() {
                    Some("In") => LabelTerm::In(key, values),
                    Some("NotIn") => LabelTerm::NotIn(key, values),
                    Some("Exists") => LabelTerm::Exists(key),
                    Some("DoesNotExist") => LabelTerm::Absent(key),
                    _ => return false,
                };
                term.matches(labels)
            })
}

fn label_terms(text: &str) -> Result<Vec<LabelTerm>, Refusal> {
    let bad = || {
        Refusal::bad_request(format!(
            "unable to parse requirement: {text:?} is not a label selector"
        ))
    };
    let mut terms = Vec::new();
    for part in split_outside_parentheses(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let term = if let Some(key) = part.strip_prefix('!') {
            LabelTerm::Absent(word(key).ok_or_else(bad)?)
        } else if let Some((head, values)) = part
            .strip_suffix(')')
            .and_then(|whole| whole.split_once('('))
        {
            let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
            let mut words = head.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(key), Some("in"), None) => LabelTerm::In(key.to_owned(), values),
                (Some(key), Some("notin"), None) => LabelTerm::NotIn(key.to_owned(), values),
                _ => return Err(bad()),
            }
        } else if let Some((key, value)) = part.split_once("!=") {
            let key = word(key).ok_or_else(bad)?;
            LabelTerm::NotIn(key, vec![value.trim().to_owned()])
        } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            let key = word(key).ok_or_else(bad)?;
            LabelTerm::In(key, vec![value.trim().to_owned()])
        } else {
            LabelTerm::Exists(word(part).ok_or_else(bad)?)
        };
        terms.push(term);
    }
    Ok(terms)
}

fn word(text: &str) -> Option<String> {
    let text = text.trim();
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (!text.is_empty() && text.chars().all(fine)).then(|| text.to_owned())
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

fn field_terms(resource: &Resource, text: &str) -> Result<Vec<FieldTerm>, Refusal> {
    let mut terms = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (name, value, equal) = if let Some((name, value)) = part.split_once("!=") {
            (name, value, false)
        } else if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (name, value, true)
        } else {
            return Err(Refusal::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{part}'"
            )));
        };
        let Some(pointer) = pointer(resource, name) else {
            return Err(Refusal::bad_request(format!(
                "Unable to find {:?} that match label selector \"\", field selector {text:?}: field label not supported: {name}",
                format!(
                    "{}, Resource={}",
                    if resource.group.is_empty() {
                        "/v1".to_owned()
                    } else {
                        resource.api_version()
                    },
                    resource.plural
                )
            )));
        };
        terms.push(FieldTerm {
            pointer,
            value: value.to_owned(),
            equal,
        });
    }
    Ok(terms)
}

/// The fields that can be selected by.
fn pointer(resource: &Resource, field: &str) -> Option<String> {
    const OF_PODS: [&str; 7] = [
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ];
    const OF_EVENTS: [&str; 10] = [
        "kind",
        "namespace",
        "name",
        "uid",
        "apiVersion",
        "resourceVersion",
        "fieldPath",
        "reason",
        "type",
        "reportingController",
    ];
    let plain = || Some(format!("/{}", field.replace('.', "/")));
    if field == "metadata.name" || (field == "metadata.namespace" && resource.namespaced) {
        return plain();
    }
    if resource == PODS {
        return OF_PODS.contains(&field).then(plain).flatten();
    }
    if resource == NODES {
        return (field == "spec.unschedulable").then(plain).flatten();
    }
    if resource == NAMESPACES {
        return (field == "status.phase").then(plain).flatten();
    }
    if resource == JOBS {
        return (field == "status.successful").then(|| "/status/succeeded".to_owned());
    }
    if resource == EVENTS || resource == CORE_EVENTS {
        // Both groups are stored in one form, which is that of events.k8s.io.
        if let Some(rest) = field
            .strip_prefix("involvedObject.")
            .or_else(|| field.strip_prefix("regarding."))
        {
            return OF_EVENTS
                .contains(&rest)
                .then(|| format!("/regarding/{rest}"));
        }
        return ["reason", "type", "reportingController"]
            .contains(&field)
            .then(plain)
            .flatten();
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(selector: &str) -> bool {
        let object = json!({"metadata": {"labels": {"app": "llm", "tier": "gpu"}}});
        Selection::parse(PODS, Some(selector), None)
            .unwrap()
            .matches(&object)
    }

    #[test]
    fn labels_are_selected_by_equality_and_by_set() {
        for yes in [
            "",
            "app=llm",
            "app==llm,tier=gpu",
            "app!=other",
            "app in (a, llm)",
            "app notin (a,b),tier",
            "!zone",
            "zone!=a",
            "zone notin (a)",
        ] {
            assert!(labels(yes), "{yes}");
        }
        for no in [
            "app=other",
            "app!=llm",
            "app in (a,b)",
            "tier notin (gpu)",
            "zone",
            "!app",
        ] {
            assert!(!labels(no), "{no}");
        }
        assert_eq!(
            Selection::parse(PODS, Some("a b"), None).unwrap_err().code,
            400
        );
    }

    #[test]
    fn fields_are_those_of_the_resource() {
        let pod = json!({"metadata": {"name": "a", "namespace": "ml"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
        let select = |text| Selection::parse(PODS, None, Some(text));
        assert!(
            select("spec.nodeName=n1,status.phase!=Failed")
                .unwrap()
                .matches(&pod)
        );
        assert!(!select("spec.nodeName=").unwrap().matches(&pod));
        let refusal = select("spec.color=red").unwrap_err();
        assert_eq!(refusal.code, 400);
        assert!(
            refusal.message.contains("field label not supported"),
            "{refusal}"
        );
    }

    #[test]
    fn a_selector_object_selects() {
        let selector = json!({"matchLabels": {"app": "llm"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["gpu"]}, {"key": "zone", "operator": "DoesNotExist"}]});
        assert!(label_selector_matches(
            &selector,
            &json!({"app": "llm", "tier": "gpu"})
        ));
        assert!(!label_selector_matches(&selector, &json!({"app": "llm"})));
        assert!(label_selector_matches(&json!({}), &Value::Null));
    }
}
