//! Objects as `kubectl get` shows them: by the printer columns of their definition.

use jiff::{SignedDuration, Timestamp};
use kube::CustomResourceExt;
use serde_json::Value;

use crate::api::GpuFault;

/// The columns of `kubectl get gpufaults`: heading, JSON path, type.
fn columns() -> Vec<(String, String, String)> {
    let definition = GpuFault::crd();
    let versions = definition.spec.versions.into_iter();
    versions
        .flat_map(|version| version.additional_printer_columns.unwrap_or_default())
        .filter(|column| column.priority.unwrap_or(0) == 0)
        .map(|column| (column.name, column.json_path, column.type_))
        .collect()
}

/// The faults as `kubectl get gpufaults` prints them.
#[must_use]
pub fn faults(objects: &[Value], now: Timestamp) -> String {
    if objects.is_empty() {
        return "No resources found\n".to_owned();
    }
    let columns = columns();
    let mut rows = vec![
        std::iter::once("NAME".to_owned())
            .chain(columns.iter().map(|(name, ..)| name.to_uppercase()))
            .collect::<Vec<_>>(),
    ];
    for object in objects {
        let name = cell(object, ".metadata.name", "string", now);
        let cells = columns
            .iter()
            .map(|(_, path, kind)| cell(object, path, kind, now));
        rows.push(std::iter::once(name).chain(cells).collect());
    }
    aligned(&rows)
}

/// Columns as wide as their longest cell, three spaces between them, as kubectl has it.
fn aligned(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<_> = cells
            .map(|(cell, &width)| format!("{cell:width$}"))
            .collect();
        text.push_str(line.join("   ").trim_end());
        text.push('\n');
    }
    text
}

/// One cell. The paths of our columns are plain member paths.
fn cell(object: &Value, path: &str, kind: &str, now: Timestamp) -> String {
    match object.pointer(&path.replace('.', "/")) {
        Some(Value::String(text)) if kind == "date" => text
            .parse::<Timestamp>()
            .map_or_else(|_| "<unknown>".to_owned(), |at| age(now.duration_since(at))),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(value) => value.to_string(),
    }
}

/// An age as kubectl writes it: two units while it is young, one later.
fn age(age: SignedDuration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |whole: i64, unit: char, rest: i64, small: char| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    match seconds {
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_have_the_columns_of_their_definition() {
        let now: Timestamp = "2026-01-01T00:12:30Z".parse().unwrap();
        let faults = [
            json!({
                "metadata": {"name": "gpu-1-gpufelloffthebus-0123", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"nodeName": "gpu-1", "gpu": {"index": "3"}, "xid": 79, "ruleRef": {"alert": "GpuFellOffTheBus"}},
                "status": {"phase": "Recovered", "reason": "Recovered"},
            }),
            json!({"metadata": {"name": "by-hand", "creationTimestamp": "2026-01-01T00:12:00Z"}, "spec": {"nodeName": "gpu-22"}}),
        ];
        insta::assert_snapshot!(super::faults(&faults, now), @r"
        NAME                          NODE     GPU   XID   RULE               PHASE       REASON      AGE
        gpu-1-gpufelloffthebus-0123   gpu-1    3     79    GpuFellOffTheBus   Recovered   Recovered   12m
        by-hand                       gpu-22                                                          30s
        ");
        assert_eq!(super::faults(&[], now), "No resources found\n");
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        let shown = |seconds| age(SignedDuration::from_secs(seconds));
        let shown: Vec<_> = [119, 120, 599, 600, 10_800, 28_799, 28_800, 172_800]
            .map(shown)
            .into();
        assert_eq!(
            shown,
            ["119s", "2m", "9m59s", "10m", "3h", "7h59m", "8h", "2d"]
        );
    }
}
