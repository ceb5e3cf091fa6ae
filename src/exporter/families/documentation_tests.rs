//! `docs/metrics.md` is written from the families: `UPDATE_DOCS=1 cargo test --lib documentation`.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::family::{Described, Kind, Scope};
use super::*;
use std::collections::BTreeSet;
use std::fmt::Write;

const BEGIN: &str =
    "<!-- families of the exporter: written by `UPDATE_DOCS=1 cargo test --lib documentation` -->";
const END: &str = "<!-- end of the families of the exporter -->";

/// The subjects, in the order in which they are documented.
const SUBJECTS: [(&str, &[Described]); 13] = [
    ("The driver", driver::FAMILIES),
    ("How many there are", presence::FAMILIES),
    ("Health and identity", health::FAMILIES),
    ("Xids", xids::FAMILIES),
    ("NVSwitches and GPUs that do not start", switches::FAMILIES),
    ("Memory errors", memory::FAMILIES),
    ("Temperatures and clocks", thermal::FAMILIES),
    ("Load", load::FAMILIES),
    ("NVLink and fabric", links::FAMILIES),
    ("MIG instances", instances::FAMILIES),
    ("Who holds a GPU", pods::FAMILIES),
    ("The asking itself", collection::FAMILIES),
    ("The kernel log", log::FAMILIES),
];

fn all() -> impl Iterator<Item = &'static Described> {
    SUBJECTS.iter().flat_map(|(_, families)| families.iter())
}

/// The unit that a family's name ends with.
fn unit(family: &Described) -> &'static str {
    let name = family.name.strip_suffix("_total").unwrap_or(family.name);
    let units = [
        ("_bytes_per_second", "bytes per second"),
        ("_timestamp_seconds", "Unix time"),
        ("_seconds", "seconds"),
        ("_celsius", "degrees Celsius"),
        ("_bytes", "bytes"),
        ("_watts", "watts"),
        ("_joules", "joules"),
        ("_hertz", "hertz"),
        ("_ratio", "0 to 1"),
    ];
    let found = units.iter().find(|(ending, _)| name.ends_with(ending));
    found.map_or("", |(_, unit)| unit)
}

fn row(family: &Described) -> String {
    let kind = match family.kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
    };
    let scope = match family.scope {
        Scope::Node => "node",
        Scope::Gpu => "GPU",
    };
    let labels = family.labels.iter().map(|label| match label.values {
        "" => format!("`{}`", label.name),
        values => format!("`{}` ({values})", label.name),
    });
    let labels = labels.collect::<Vec<_>>().join("; ");
    // A bar would end the cell.
    let example = family.example.replace('|', "\\|");
    let cells = [
        format!("`{}`", family.name),
        kind.to_owned(),
        scope.to_owned(),
        labels,
        unit(family).to_owned(),
        family.help.to_owned(),
        family.source.to_owned(),
        format!("`{example}`"),
    ];
    format!("| {} |", cells.join(" | ").replace("  ", " "))
}

fn written() -> String {
    let mut text = String::new();
    for (subject, families) in SUBJECTS {
        write!(
            text,
            "\n### {subject}\n\n| family | type | per | more labels | unit | meaning | source | example |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        )
        .unwrap();
        for family in families {
            writeln!(text, "{}", row(family)).unwrap();
        }
    }
    text
}

#[test]
fn the_documentation_lists_each_family_as_it_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the first marker");
    let (now, after) = rest.split_once(END).expect("the second marker");
    let wanted = format!("\n{}\n", written());
    if now == wanted {
        return;
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
        return;
    }
    let differs = (wanted
        .lines()
        .zip(now.lines())
        .find(|(new, old)| new != old))
    .map_or(("", ""), |differs| differs);
    panic!(
        "docs/metrics.md is not what the code says. Mend it with `UPDATE_DOCS=1 cargo test --lib documentation`.\n\
         code: {}\nfile: {}",
        differs.0, differs.1
    );
}

#[test]
fn names_are_as_the_field_has_them() {
    let mut names = BTreeSet::new();
    for family in all() {
        let name = family.name;
        assert!(names.insert(name), "{name} is declared twice");
        assert!(
            name.starts_with("gpu_")
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
            "{name}"
        );
        assert_eq!(
            name.ends_with("_total"),
            family.kind == Kind::Counter,
            "{name}: counters and nothing else end with _total"
        );
        for other in [
            "_milli",
            "_mega",
            "_count_total",
            "_percent",
            "_ms",
            "_info_total",
        ] {
            assert!(!name.contains(other), "{name}: base units");
        }
        let base = name.strip_suffix("_total").unwrap_or(name);
        for reserved in ["_bucket", "_sum", "_count", "_created"] {
            assert!(
                !base.ends_with(reserved),
                "{name}: OpenMetrics keeps {reserved}"
            );
        }
        assert!(
            family.help.ends_with('.') && !family.source.is_empty(),
            "{name}"
        );
        assert!(
            family.example.contains(base),
            "{name}: its example is about it"
        );
        let parsed = promql_parser::parser::parse(family.example);
        assert!(parsed.is_ok(), "{name}: {:?}", parsed.err());
        for label in family.labels {
            let of_scope: &[&str] = match family.scope {
                Scope::Node => &["node"],
                Scope::Gpu => &["node", "gpu", "UUID", "pci_bus_id", "device", "modelName"],
            };
            assert!(
                !of_scope.contains(&label.name),
                "{name}: {} is a label of the scope",
                label.name
            );
        }
    }
}
