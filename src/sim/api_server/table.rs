//! Tables: what `kubectl get` prints.

use hyper::header::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::{Column, columns};
use super::requests::accepted;
use super::resources::Resource;

/// How a table is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// What ages are counted from.
    pub(super) now: Timestamp,
    /// Do rows carry the whole object, and not its metadata alone?
    pub(super) whole: bool,
}

/// Is a table asked for before anything else that the server can give?
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let first = accepted(headers)
        .split(',')
        .find(|media| media.trim().starts_with("application/json"));
    first.is_some_and(|media| media.contains("as=Table") && media.contains("v=v1"))
}

/// The objects as a table.
pub(super) fn table(resource: &Resource, objects: &[&Value], meta: &Value, style: Style) -> Value {
    let columns = columns(resource);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells: Vec<Value> = columns.iter().map(|c| c.cell(object, style.now)).collect();
            let carried = if style.whole {
                (*object).clone()
            } else {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
            };
            json!({"cells": cells, "object": carried})
        })
        .collect();
    let definition = |column: &Column| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": if column.name == "Name" { "name" } else { "" },
            "description": "",
            "priority": column.priority,
        })
    };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": if meta.is_null() { json!({}) } else { meta.clone() },
        "columnDefinitions": columns.iter().map(definition).collect::<Vec<_>>(),
        "rows": rows,
    })
}

/// How long ago, as `kubectl` writes it.
pub(super) fn age(since: &Value, now: Timestamp) -> Value {
    let Some(since) = since.as_str().and_then(|t| t.parse::<Timestamp>().ok()) else {
        return json!("<unknown>");
    };
    json!(short_duration(now.duration_since(since).as_secs()))
}

/// Two units at most, and the smaller one only while it matters.
pub(super) fn short_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let both = |large: i64, unit: &str, small: i64, part: &str| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{part}")
        }
    };
    match seconds {
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => both(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => both(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => both(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ => both(days / 365, "y", days % 365, "d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_kubectl_does() {
        for (seconds, text) in [
            (-1, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (3600, "60m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
        ] {
            assert_eq!(short_duration(seconds), text, "{seconds}");
        }
    }
}
