//! Holds a value to its schema.

use jiff::Timestamp;
use serde_json::Value;

use super::refusal::Cause;
use super::schema::Schema;

/// Checks a value, and says everything that is wrong with it. What has not changed since `old` is not held against a
/// change, as in the real server.
pub(super) fn check(
    schema: &Schema,
    old: Option<&Value>,
    value: &Value,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    if old == Some(value) {
        return;
    }
    let before = causes.len();
    check_type(schema, value, path, causes);
    if causes.len() > before || value.is_null() {
        return;
    }
    check_value(schema, value, path, causes);
    check_combinations(schema, value, path, causes);
    match value {
        Value::Object(fields) => {
            for name in &schema.required {
                if !fields.contains_key(name) {
                    let field = below(path, name);
                    causes.push(cause(
                        field,
                        "FieldValueRequired",
                        "Required value".to_owned(),
                    ));
                }
            }
            for (name, value) in fields {
                let part = schema.properties.get(name).or(schema.additional.as_deref());
                if let Some(part) = part {
                    let old = old.and_then(|o| o.get(name));
                    check(part, old, value, &below(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if let Some(part) = &schema.items {
                    let old = counterpart(schema, old, item);
                    check(part, old, item, &format!("{path}[{at}]"), causes);
                }
                let same = |other: &Value| {
                    !schema.map_keys.is_empty()
                        && schema.map_keys.iter().all(|k| other.get(k) == item.get(k))
                };
                if items[..at].iter().any(same) {
                    let message = format!("Duplicate value: {item}");
                    causes.push(cause(
                        format!("{path}[{at}]"),
                        "FieldValueDuplicate",
                        message,
                    ));
                }
            }
        }
        _ => {}
    }
    if causes.len() == before {
        for rule in &schema.rules {
            if !rule.holds(old, value) {
                let message = format!("Invalid value: {}", rule.message);
                causes.push(cause(path.to_owned(), "FieldValueInvalid", message));
            }
        }
    }
}

/// The earlier version of an item of a list with keys.
fn counterpart<'a>(schema: &Schema, old: Option<&'a Value>, item: &Value) -> Option<&'a Value> {
    if schema.map_keys.is_empty() {
        return None;
    }
    let same = |other: &&Value| schema.map_keys.iter().all(|k| other.get(k) == item.get(k));
    old?.as_array()?.iter().find(same)
}

fn check_type(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() {
        if !schema.nullable && (schema.kind.is_some() || schema.int_or_string) {
            let kind = schema.kind.as_deref().unwrap_or("string");
            let message =
                format!("Invalid value: \"null\": {path} in body must be of type {kind}: \"null\"");
            causes.push(cause(path.to_owned(), "FieldValueTypeInvalid", message));
        }
        return;
    }
    let fits = match schema.kind.as_deref() {
        _ if schema.int_or_string => value.is_i64() || value.is_u64() || value.is_string(),
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
        }
        Some("number") => value.is_number(),
        Some(_) => false,
    };
    if !fits {
        let kind = schema.kind.as_deref().unwrap_or("integer or string");
        let given = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Number(n) if n.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::Null => "null",
        };
        let message =
            format!("Invalid value: {given:?}: {path} in body must be of type {kind}: {given:?}");
        causes.push(cause(path.to_owned(), "FieldValueTypeInvalid", message));
    }
}

fn check_value(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut invalid = |what: String| {
        let message = format!("Invalid value: {value}: {path} in body {what}");
        causes.push(cause(path.to_owned(), "FieldValueInvalid", message));
    };
    let bounds = &schema.bounds;
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        if bounds.length.0.is_some_and(|least| length < least) {
            let least = bounds.length.0.unwrap_or(0);
            invalid(format!("should be at least {least} chars long"));
        }
        if let Some(pattern) = &schema.pattern
            && !pattern.is_match(text)
        {
            invalid(format!("should match '{pattern}'"));
        }
        if schema.format.as_deref() == Some("date-time") && text.parse::<Timestamp>().is_err() {
            invalid("must be of type date-time".to_owned());
        }
        if bounds.length.1.is_some_and(|most| length > most) {
            let most = bounds.length.1.unwrap_or(0);
            let message = format!("Too long: may not be more than {most} bytes");
            causes.push(cause(path.to_owned(), "FieldValueTooLong", message));
        }
    } else if let Some(number) = value.as_f64() {
        if bounds.number.0.is_some_and(|least| number < least) {
            let least = bounds.number.0.unwrap_or(0.0);
            invalid(format!("should be greater than or equal to {least}"));
        }
        if bounds.number.1.is_some_and(|most| number > most) {
            let most = bounds.number.1.unwrap_or(0.0);
            invalid(format!("should be less than or equal to {most}"));
        }
    } else {
        let (what, count, (least, most)) = match value {
            Value::Array(items) => ("items", items.len() as u64, bounds.items),
            Value::Object(fields) => ("properties", fields.len() as u64, bounds.properties),
            _ => return,
        };
        if let Some(least) = least.filter(|least| count < *least) {
            let message = format!(
                "Invalid value: {count}: {path} in body should have at least {least} {what}"
            );
            causes.push(cause(path.to_owned(), "FieldValueInvalid", message));
        }
        if let Some(most) = most.filter(|most| count > *most) {
            let message = format!("Too many: {count}: must have at most {most} {what}");
            causes.push(cause(path.to_owned(), "FieldValueTooMany", message));
        }
    }
    if let Some(choices) = &schema.choices
        && !choices.contains(value)
    {
        let all: Vec<String> = choices.iter().map(Value::to_string).collect();
        let message = format!(
            "Unsupported value: {value}: supported values: {}",
            all.join(", ")
        );
        causes.push(cause(path.to_owned(), "FieldValueNotSupported", message));
    }
}

fn check_combinations(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let fits = |part: &Schema| {
        let mut causes = Vec::new();
        check(part, None, value, path, &mut causes);
        causes.is_empty()
    };
    let mut invalid = |what: &str| {
        let message = format!("Invalid value: {path} in body must validate {what}");
        causes.push(cause(path.to_owned(), "FieldValueInvalid", message));
    };
    if !schema.one_of.is_empty() && schema.one_of.iter().filter(|p| fits(p)).count() != 1 {
        invalid("one and only one schema (oneOf)");
    }
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(fits) {
        invalid("at least one schema (anyOf)");
    }
    if !schema.all_of.iter().all(fits) {
        invalid("all the schemas (allOf)");
    }
    if schema.not.as_deref().is_some_and(fits) {
        invalid("the negation of a schema (not)");
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn cause(field: String, reason: &'static str, message: String) -> Cause {
    Cause {
        field,
        reason,
        message,
    }
}
