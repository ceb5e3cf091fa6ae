//! The metric families that `docs/metrics.md` lists, with their labels.

use std::collections::{BTreeMap, BTreeSet};

/// One family.
#[derive(Debug, Default)]
pub struct Family {
    /// Whether it only grows.
    pub is_counter: bool,
    /// Whether its series end in `_bucket`, `_sum` and `_count`.
    pub is_histogram: bool,
    /// Its labels, and the values that the document lists for some of them.
    pub labels: BTreeMap<String, BTreeSet<String>>,
}

/// Labels of each series about a GPU, as the document says above its tables.
const OF_A_GPU: [&str; 6] = ["node", "gpu", "UUID", "pci_bus_id", "device", "modelName"];

/// What both processes or one of them have besides, which the document tells outside its tables.
const BESIDES: [(&str, &str); 2] = [
    ("gpu_remediator_build_info", "version"),
    ("gpu_exporter_web_config_reload_success", "node"),
];

/// The families of the document.
pub fn read(document: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    for (name, label) in BESIDES {
        assert!(
            document.contains(&format!("`{name}")),
            "the document does not know {name} any more"
        );
        families.insert(name.to_owned(), with_labels([label]));
    }
    let mut columns: Vec<String> = Vec::new();
    for line in document.lines() {
        let Some(cells) = cells(line) else {
            columns.clear();
            continue;
        };
        if cells.first().is_some_and(|first| first == "family") {
            columns = cells;
            continue;
        }
        let name = cells[0].trim_matches('`');
        if columns.is_empty() || !name.starts_with("gpu_") {
            continue;
        }
        let column = |heading: &str| {
            let at = columns.iter().position(|column| column == heading);
            at.map(|at| cells[at].as_str())
        };
        let mut family = match column("per") {
            Some("GPU") => with_labels(OF_A_GPU),
            Some("node") => with_labels(["node"]),
            Some(other) => panic!("{name}: unknown `per`: {other:?}"),
            None => Family::default(),
        };
        let more = column("more labels").or_else(|| column("labels"));
        family.labels.extend(labels(more.unwrap_or_default()));
        match column("type") {
            Some("counter") => family.is_counter = true,
            Some("gauge") => {}
            // The table of the histograms has no such column.
            None => family.is_histogram = true,
            Some(other) => panic!("{name}: unknown type {other:?}"),
        }
        let before = families.insert(name.to_owned(), family);
        assert!(before.is_none(), "{name} is listed twice");
    }
    families
}

fn with_labels<const N: usize>(labels: [&str; N]) -> Family {
    Family {
        labels: labels
            .into_iter()
            .map(|label| (label.to_owned(), BTreeSet::new()))
            .collect(),
        ..Family::default()
    }
}

/// The cells of a line of a table, in which `\|` is no border.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    let inner = inner.replace("\\|", "\u{0}");
    Some(
        inner
            .split('|')
            .map(|cell| cell.trim().replace('\u{0}', "|"))
            .collect(),
    )
}

/// `` `a`; `b` (`one`, `two`) `` and `` `a, b` (`one`, `two`) ``: what stands in parentheses are values of the label before.
fn labels(cell: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut last = String::new();
    let mut depth = 0;
    for (index, part) in cell.split('`').enumerate() {
        // Every second part stood between two backticks.
        if index % 2 == 0 {
            for c in part.chars() {
                match c {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => {}
                }
            }
        } else if depth > 0 {
            found
                .get_mut(&last)
                .expect("values follow their label")
                .insert(part.to_owned());
        } else {
            for label in part.split(", ") {
                label.clone_into(&mut last);
                found.entry(last.clone()).or_default();
            }
        }
    }
    assert_eq!(depth, 0, "{cell}");
    found
}
