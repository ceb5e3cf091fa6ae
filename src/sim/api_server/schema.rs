//! The schemas of our custom resources, as the server holds objects to them: unknown fields are pruned, defaults filled
//! in, values checked. Of OpenAPI exactly what our definitions use is understood; [`super::schema_rules`] does the rules.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::resources::Resource;
use super::schema_rules::Rule;
use crate::api;

/// A schema, or a part of one.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) kind: Option<String>,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    pub(super) preserves_unknown: bool,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Option<Box<Schema>>,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    pub(super) one_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) all_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
    pub(super) choices: Option<Vec<Value>>,
    pub(super) pattern: Option<Regex>,
    pub(super) format: Option<String>,
    pub(super) bounds: Bounds,
    pub(super) map_keys: Vec<String>,
    pub(super) default: Option<Value>,
    pub(super) rules: Vec<Rule>,
}

/// Least and most.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub(super) number: (Option<f64>, Option<f64>),
    pub(super) length: (Option<u64>, Option<u64>),
    pub(super) items: (Option<u64>, Option<u64>),
    pub(super) properties: (Option<u64>, Option<u64>),
}

impl Schema {
    /// The schema of a custom resource.
    pub(super) fn of(resource: &Resource) -> Option<&'static Self> {
        static ALL: OnceLock<Vec<(&'static str, Schema)>> = OnceLock::new();
        let all = ALL.get_or_init(|| {
            let definitions = api::definitions().into_iter();
            definitions
                .map(|(name, definition)| {
                    let definition = serde_json::to_value(definition).unwrap_or_default();
                    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
                    (name, Schema::parse(schema))
                })
                .collect()
        });
        if resource.group != api::names::GROUP {
            return None;
        }
        all.iter()
            .find(|(name, _)| *name == resource.plural)
            .map(|(_, schema)| schema)
    }

    pub(super) fn parse(schema: &Value) -> Self {
        let text = |name: &str| schema[name].as_str().map(str::to_owned);
        let flag = |name: &str| schema[name] == true;
        let part = |name: &str| {
            schema[name]
                .is_object()
                .then(|| Box::new(Self::parse(&schema[name])))
        };
        let parts = |name: &str| -> Vec<Self> {
            let all = schema[name].as_array().into_iter().flatten();
            all.map(Self::parse).collect()
        };
        let texts = |name: &str| -> Vec<String> {
            let all = schema[name].as_array().into_iter().flatten();
            all.filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let counts = |least: &str, most: &str| (schema[least].as_u64(), schema[most].as_u64());
        let properties = schema["properties"].as_object().into_iter().flatten();
        let rules = schema["x-kubernetes-validations"].as_array();
        Self {
            kind: text("type"),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            properties: properties
                .map(|(name, schema)| (name.clone(), Self::parse(schema)))
                .collect(),
            additional: part("additionalProperties"),
            items: part("items"),
            required: texts("required"),
            one_of: parts("oneOf"),
            any_of: parts("anyOf"),
            all_of: parts("allOf"),
            not: part("not"),
            choices: schema["enum"].as_array().cloned(),
            pattern: schema["pattern"]
                .as_str()
                .and_then(|p| match Regex::new(p) {
                    Ok(pattern) => Some(pattern),
                    Err(error) => {
                        tracing::error!(%error, "a pattern of a custom resource cannot be read");
                        None
                    }
                }),
            format: text("format"),
            bounds: Bounds {
                number: (schema["minimum"].as_f64(), schema["maximum"].as_f64()),
                length: counts("minLength", "maxLength"),
                items: counts("minItems", "maxItems"),
                properties: counts("minProperties", "maxProperties"),
            },
            map_keys: texts("x-kubernetes-list-map-keys"),
            default: schema.get("default").cloned(),
            rules: rules.into_iter().flatten().map(Rule::parse).collect(),
        }
    }

    /// Removes from a whole object what the schema does not know, and says what that was.
    pub(super) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        if let Some(fields) = object.as_object_mut() {
            for (name, value) in fields.iter_mut() {
                if let Some(schema) = self.properties.get(name) {
                    schema.prune_part(value, name, &mut unknown);
                }
            }
            fields.retain(|name, _| {
                let known = ["apiVersion", "kind", "metadata"].contains(&name.as_str())
                    || self.properties.contains_key(name);
                if !known {
                    unknown.push(name.clone());
                }
                known
            });
        }
        unknown
    }

    fn prune_part(&self, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
        match value {
            Value::Object(fields) if !self.preserves_unknown => {
                fields.retain(|name, value| {
                    let below = format!("{path}.{name}");
                    match self.properties.get(name).or(self.additional.as_deref()) {
                        Some(schema) => {
                            schema.prune_part(value, &below, unknown);
                            true
                        }
                        None => {
                            unknown.push(below);
                            false
                        }
                    }
                });
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for (at, item) in items.iter_mut().enumerate() {
                        schema.prune_part(item, &format!("{path}[{at}]"), unknown);
                    }
                }
            }
            _ => {}
        }
    }

    /// Fills in defaults.
    pub(super) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default {
                        let replaceable = |v: &Value| v.is_null() && !schema.nullable;
                        if fields.get(name).is_none_or(replaceable) {
                            fields.insert(name.clone(), default.clone());
                        }
                    }
                }
                self.fill_fields(fields);
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.fill(item));
                }
            }
            _ => {}
        }
    }

    fn fill_fields(&self, fields: &mut Map<String, Value>) {
        for (name, value) in fields.iter_mut() {
            if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                schema.fill(value);
            }
        }
    }
}
