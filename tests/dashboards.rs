//! The dashboard can be imported, provisioned and loaded by a sidecar as it is, and asks for nothing that the product does
//! not export.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "dashboards/document.rs"]
mod document;
#[path = "dashboards/expression.rs"]
mod expression;
#[path = "dashboards/families.rs"]
mod families;

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::parser::parse;
use serde_json::{Value, json};

use document::{
    BUILTIN, FILE, dashboard, list, number, panels, substituted, targets, text, variables, walk,
    word,
};
use expression::Check;
use families::Family;

const COPY: &str = "charts/gpu-remediator/files/dashboards/gpu-health.json";

/// Panels that every Grafana since 10 has.
const PANELS: [&str; 6] = [
    "row",
    "timeseries",
    "stat",
    "table",
    "bargauge",
    "state-timeline",
];

fn families() -> BTreeMap<String, Family> {
    families::read(&text("docs/metrics.md"))
}

#[test]
fn the_chart_has_the_dashboard_that_stands_beside_it() {
    assert!(text(FILE) == text(COPY), "copy {FILE} to {COPY}");
}

#[test]
fn it_is_a_classic_dashboard_that_needs_no_wizard() {
    let dashboard = dashboard();
    let raw = text(FILE);
    for wizard in ["__inputs", "__requires", "${DS_"] {
        assert!(
            !raw.contains(wizard),
            "{wizard} is replaced by the import wizard alone"
        );
    }
    // A ConfigMap takes 1 MiB.
    assert!(raw.len() < 512 * 1024, "{} bytes", raw.len());
    assert_eq!(dashboard["id"], Value::Null, "an id belongs to one Grafana");
    let uid = word(&dashboard, "uid");
    assert!(
        uid.starts_with("gpu-remediator-") && uid.len() <= 40,
        "{uid}"
    );
    assert_eq!(dashboard["editable"], false);
    let model = number(&dashboard, "schemaVersion");
    assert!((39..=42).contains(&model), "{model}");
    for field in ["title", "description"] {
        assert!(!word(&dashboard, field).is_empty());
    }
}

#[test]
fn each_data_source_is_the_one_that_was_chosen() {
    let dashboard = dashboard();
    let mut references = 0;
    walk(&dashboard, &mut |value| {
        if let Some(source) = value.get("datasource") {
            references += 1;
            assert_eq!(
                source,
                &json!({"type": "prometheus", "uid": "${datasource}"}),
                "{value}"
            );
        }
    });
    let queries = list(&dashboard["templating"], "list")
        .iter()
        .filter(|v| v["type"] == "query");
    assert_eq!(
        references,
        queries.count() + panels(&dashboard).count() + targets(&dashboard).count(),
    );
}

#[test]
fn each_variable_that_is_used_is_defined_and_each_that_is_defined_is_used() {
    let dashboard = dashboard();
    let defined: BTreeMap<&str, &Value> = list(&dashboard["templating"], "list")
        .iter()
        .map(|variable| (word(variable, "name"), variable))
        .collect();
    assert_eq!(
        defined.keys().copied().collect::<Vec<_>>(),
        ["datasource", "gpu", "node"]
    );
    assert_eq!(defined["datasource"]["type"], "datasource");
    assert_eq!(defined["datasource"]["query"], "prometheus");
    let mut used = BTreeSet::new();
    walk(&dashboard, &mut |value| {
        if let Value::String(text) = value {
            used.extend(variables(text));
        }
    });
    let builtin = BUILTIN.map(|(name, _)| name);
    // A value of `current`, not a variable.
    used.remove("__all");
    let unknown: Vec<&String> = used
        .iter()
        .filter(|name| !defined.contains_key(name.as_str()) && !builtin.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for name in defined.keys() {
        assert!(used.contains(*name), "{name} is not used");
    }

    let families = families();
    for (name, label) in [("node", "node"), ("gpu", "UUID")] {
        let variable = defined[name];
        assert_eq!(variable["multi"], true, "{name}");
        assert_eq!(variable["includeAll"], true, "{name}");
        // Also what has no such label.
        assert_eq!(variable["allValue"], ".*", "{name}");
        // 2: whenever the time of the dashboard changes.
        assert_eq!(variable["refresh"], 2, "{name}");
        let query = word(variable, "definition");
        assert_eq!(variable["query"]["query"], query, "{name}");
        let (expr, asked) = query
            .strip_prefix("label_values(")
            .and_then(|query| query.strip_suffix(')'))
            .and_then(|query| query.rsplit_once(", "))
            .unwrap_or_else(|| panic!("{query}"));
        assert_eq!(asked, label);
        let metric = expr.split('{').next().unwrap();
        assert!(families[metric].labels.contains_key(label), "{query}");
        parse(&substituted(expr)).unwrap_or_else(|error| panic!("{query}: {error}"));
    }
}

#[test]
fn each_panel_says_what_it_shows_and_in_which_unit() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    let mut titles = BTreeSet::new();
    let mut rows = Vec::new();
    for panel in list(&dashboard, "panels") {
        let kind = word(panel, "type");
        let title = word(panel, "title");
        assert!(
            ids.insert(number(panel, "id")),
            "{title}: its id is another's"
        );
        assert!(PANELS.contains(&kind), "{title}: {kind}");
        assert!(
            !title.is_empty() && titles.insert(title),
            "two panels are called {title:?}"
        );
        if kind == "row" {
            assert_eq!(panel["panels"], json!([]), "{title}");
            rows.push(title);
            continue;
        }
        assert!(
            word(panel, "description").ends_with('.'),
            "{title}: no description"
        );
        assert!(
            !word(&panel["fieldConfig"]["defaults"], "unit").is_empty(),
            "{title}"
        );
        let targets = list(panel, "targets");
        assert!(!targets.is_empty(), "{title}");
        let names: BTreeSet<&str> = targets.iter().map(|target| word(target, "refId")).collect();
        assert_eq!(
            names.len(),
            targets.len(),
            "{title}: two queries of one name"
        );
        // "no value" would be shown for what nobody knows as well.
        assert_eq!(
            panel["fieldConfig"]["defaults"]["noValue"],
            Value::Null,
            "{title}"
        );
    }
    assert_eq!(rows, ["Fleet", "Health", "Load", "Exporter"]);
    assert_eq!(list(&dashboard, "panels")[0]["type"], "row");
}

#[test]
fn no_panel_lies_on_another() {
    let dashboard = dashboard();
    let mut taken: BTreeMap<(u64, u64), &str> = BTreeMap::new();
    let mut row = 0;
    for panel in list(&dashboard, "panels") {
        let title = word(panel, "title");
        let at = &panel["gridPos"];
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|field| number(at, field));
        assert!(w > 0 && h > 0 && x + w <= 24, "{title}: {at}");
        if panel["type"] == "row" {
            row = y;
        }
        assert!(y >= row, "{title} stands above its row");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            if let Some(other) = taken.insert(cell, title) {
                panic!("{title} lies on {other} at {cell:?}");
            }
        }
    }
    // Nor is there a hole.
    let lowest = taken.keys().map(|(_, y)| y + 1).max().unwrap();
    assert_eq!(taken.len() as u64, 24 * lowest);
}

#[test]
fn each_expression_asks_for_what_the_product_exports() {
    let dashboard = dashboard();
    let families = families();
    assert!(
        families.len() > 90,
        "only {} families are known",
        families.len()
    );
    let mut wrong = Vec::new();
    let mut metrics = BTreeSet::new();
    for (panel, target) in targets(&dashboard) {
        let place = format!("{} {}", word(panel, "title"), word(target, "refId"));
        let expr = match parse(&substituted(word(target, "expr"))) {
            Ok(expr) => expr,
            Err(error) => {
                wrong.push(format!("{place}: {error}"));
                continue;
            }
        };
        let mut check = Check::new(&families);
        let labels = check.expression(&expr);
        wrong.extend(check.wrong.iter().map(|what| format!("{place}: {what}")));
        metrics.append(&mut check.metrics);

        // A legend with a label that is not there is blank.
        let legend = target["legendFormat"].as_str().unwrap_or_default();
        for part in legend.split("{{").skip(1) {
            let label = part.split("}}").next().unwrap().trim();
            if !labels.contains(label) {
                wrong.push(format!(
                    "{place}: the legend names {label}, there is {labels:?}"
                ));
            }
        }
        if panel["type"] != "table" && legend.is_empty() && !labels.is_empty() {
            wrong.push(format!(
                "{place}: no legend tells the series {labels:?} apart"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(metrics.len() > 40, "only {metrics:?}");
}

/// A range that is shorter than two scrapes shows nothing, and a longer one than the step hides what a step is for.
#[test]
fn a_graph_takes_its_range_from_the_step_and_an_instant_query_names_its_own() {
    for (panel, target) in targets(&dashboard()) {
        let title = word(panel, "title");
        let expr = word(target, "expr");
        let graph = ["timeseries", "state-timeline"].contains(&word(panel, "type"));
        assert_eq!(target["range"], graph, "{title}");
        assert_eq!(target["instant"], !graph, "{title}");
        assert_eq!(
            target["format"] == "table",
            panel["type"] == "table",
            "{title}"
        );
        for (at, _) in expr.match_indices('[') {
            let range = &expr[at..];
            if graph {
                assert!(
                    range.starts_with("[$__rate_interval]")
                        || range.starts_with("[$__range] @ end()"),
                    "{title}: {expr}"
                );
            } else {
                assert!(!range.starts_with("[$"), "{title}: {expr}");
            }
        }
    }
}

#[test]
fn the_columns_of_a_table_are_labels_or_values_of_its_queries() {
    let dashboard = dashboard();
    let families = families();
    for panel in panels(&dashboard).filter(|panel| panel["type"] == "table") {
        let title = word(panel, "title");
        let targets = list(panel, "targets");
        let mut columns = BTreeSet::from(["Time".to_owned()]);
        for target in targets {
            let expr = parse(&substituted(word(target, "expr"))).expect("an expression");
            columns.append(&mut Check::new(&families).expression(&expr));
            columns.insert(match targets.len() {
                1 => "Value".to_owned(),
                _ => format!("Value #{}", word(target, "refId")),
            });
        }
        let organize = list(panel, "transformations")
            .last()
            .expect("a transformation");
        assert_eq!(organize["id"], "organize", "{title}");
        let options = &organize["options"];
        let keys = |field: &str| -> BTreeSet<String> {
            options[field]
                .as_object()
                .expect("fields")
                .keys()
                .cloned()
                .collect()
        };
        let hidden = keys("excludeByName");
        let ordered = keys("indexByName");
        // Each column is either shown, with its heading, or hidden.
        assert_eq!(
            hidden.union(&ordered).cloned().collect::<BTreeSet<_>>(),
            columns,
            "{title}"
        );
        assert!(hidden.is_disjoint(&ordered), "{title}");
        let renamed = options["renameByName"].as_object().expect("fields");
        assert!(
            keys("renameByName").is_subset(&ordered),
            "{title}: another column has a heading"
        );
        let shown: BTreeSet<&str> = ordered
            .iter()
            .map(|column| {
                renamed
                    .get(column)
                    .map_or(&**column, |new| new.as_str().expect("text"))
            })
            .collect();
        assert_eq!(
            shown.len(),
            ordered.len(),
            "{title}: two columns of one heading"
        );
        let overrides = list(&panel["fieldConfig"], "overrides").iter();
        let named = overrides.map(|field| word(&field["matcher"], "options"));
        let sorted = panel["options"]["sortBy"].as_array().into_iter().flatten();
        for name in named.chain(sorted.map(|by| word(by, "displayName"))) {
            assert!(shown.contains(name), "{title}: there is no column {name}");
        }
        assert_eq!(
            targets.len() > 1,
            panel["transformations"][0]["id"] == "merge",
            "{title}"
        );
    }
}
