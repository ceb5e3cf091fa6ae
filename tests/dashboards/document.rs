//! The dashboard as a document: its panels, queries and variables.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// The dashboard.
pub const FILE: &str = "dashboards/gpu-health.json";

/// What `$node` stands for while an expression is looked at.
pub const NODE: &str = "a-node";

/// What Grafana defines itself, with what it could stand for.
pub const BUILTIN: [(&str, &str); 2] = [("__rate_interval", "5m"), ("__range", "6h")];

/// The file of the repository.
pub fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The dashboard, read.
pub fn dashboard() -> Value {
    serde_json::from_str(&text(FILE)).expect("JSON")
}

/// That field, which is a list.
pub fn list<'a>(value: &'a Value, field: &str) -> &'a Vec<Value> {
    value[field]
        .as_array()
        .unwrap_or_else(|| panic!("no list {field} in {value}"))
}

/// That field, which is a text.
pub fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no text {field} in {value}"))
}

/// That field, which is a number.
pub fn number(value: &Value, field: &str) -> u64 {
    value[field]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {field} in {value}"))
}

/// The panels that show something.
pub fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    list(dashboard, "panels")
        .iter()
        .filter(|panel| panel["type"] != "row")
}

/// Each query, with its panel.
pub fn targets(dashboard: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    panels(dashboard).flat_map(|panel| {
        list(panel, "targets")
            .iter()
            .map(move |target| (panel, target))
    })
}

/// Calls `see` with each value of the tree.
pub fn walk(value: &Value, see: &mut impl FnMut(&Value)) {
    see(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, see)),
        Value::Object(fields) => fields.values().for_each(|field| walk(field, see)),
        _ => {}
    }
}

/// The names of the variables in a text, as Grafana finds them: `$a`, `${a}`, `${a:csv}` and `[[a]]`.
pub fn variables(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for begin in ["$", "[["] {
        for (at, _) in text.match_indices(begin) {
            let rest = &text[at + begin.len()..];
            let rest = rest.strip_prefix('{').unwrap_or(rest);
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            if end > 0 {
                found.insert(rest[..end].to_owned());
            }
        }
    }
    found
}

/// The expression as Prometheus gets it.
pub fn substituted(expr: &str) -> String {
    let mut expr = expr.replace("$node", NODE).replace("$gpu", ".*");
    for (name, value) in BUILTIN {
        expr = expr.replace(&format!("${name}"), value);
    }
    assert!(!expr.contains('$') && !expr.contains("[["), "{expr}");
    expr
}
