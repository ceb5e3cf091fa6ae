//! The page about the failure cases names tests that exist, and every one that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All cases.
const CASES: [&str; 32] = [
    "A1", "A3", "A4", "A6", "A7", "A9", "A11", "A13", "A16", "B1", "B2", "B4", "B8", "B10", "B12",
    "B17", "B18", "C1", "C2", "C4", "C5", "C7", "C11", "D1", "D3", "D5", "D7", "D9", "D10", "D12",
    "D14", "D18",
];

/// What the page says of one case.
#[derive(Debug, Default, PartialEq)]
struct Row {
    /// Names of tests.
    tests: BTreeSet<String>,
    /// Something of it cannot be tested yet.
    not_yet: bool,
}

/// The rows of the page's tables, by the id of the case.
fn rows(page: &str) -> Result<BTreeMap<String, Row>, String> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(id), Some(last)) = (cells.first(), cells.last()) else {
            continue;
        };
        if case(&format!("{}_", id.to_lowercase())).is_none() {
            continue;
        }
        // Between backticks stand names; every other piece of the cell is text.
        let names = last.split('`').skip(1).step_by(2);
        let row = Row {
            tests: names
                .filter(|name| case(name).is_some())
                .map(str::to_owned)
                .collect(),
            not_yet: last.to_lowercase().contains("not yet:"),
        };
        if rows.insert((*id).to_owned(), row).is_some() {
            return Err(format!("{id} stands on the page twice"));
        }
    }
    Ok(rows)
}

/// The case that a test is about, by its name: `b2_a_person_…` is about B2.
fn case(name: &str) -> Option<String> {
    let (id, _) = name.split_once('_')?;
    let (letter, number) = id.split_at_checked(1)?;
    let is_id = matches!(letter, "a" | "b" | "c" | "d")
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit());
    is_id.then(|| id.to_uppercase())
}

/// The names of the tests in a source that are about a case. A test follows its attribute, perhaps after others; inside
/// `proptest!` as well.
fn tests_in(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("async fn ").or(line.strip_prefix("fn ")) {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            if is_test && case(name).is_some() {
                found.push(name.to_owned());
            }
            is_test = false;
        }
    }
    found
}

fn sources(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.extend(tests_in(&std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// What is wrong with the page.
fn complaints(page: &str, there: &BTreeSet<String>) -> Vec<String> {
    let rows = match rows(page) {
        Ok(rows) => rows,
        Err(twice) => return vec![twice],
    };
    let mut complaints = Vec::new();
    for id in CASES {
        match rows.get(id) {
            None => complaints.push(format!("{id} is not on the page")),
            Some(row) if row.tests.is_empty() && !row.not_yet => {
                complaints.push(format!("{id} has no test, and the page does not say why"));
            }
            Some(row) => {
                for test in &row.tests {
                    if case(test).as_deref() != Some(id) {
                        complaints.push(format!("{test} stands at {id}"));
                    }
                    if !there.contains(test) {
                        complaints.push(format!("there is no test {test}"));
                    }
                }
            }
        }
    }
    let named: BTreeSet<_> = rows.values().flat_map(|row| &row.tests).collect();
    for test in there.iter().filter(|test| !named.contains(test)) {
        complaints.push(format!("{test} is not on the page"));
    }
    complaints
}

#[test]
fn each_case_has_its_tests_or_the_reason_why_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut there = BTreeSet::new();
    sources(&root.join("src"), &mut there);
    sources(&root.join("tests"), &mut there);
    let page = std::fs::read_to_string(root.join("docs/failure-cases.md")).unwrap();
    let complaints = complaints(&page, &there);
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn a_page_that_is_wrong_is_noticed() {
    let page: String = CASES
        .iter()
        .map(|id| format!("| {id} | what | `{}_happens` |\n", id.to_lowercase()))
        .collect();
    let there: BTreeSet<String> = CASES
        .iter()
        .map(|id| format!("{}_happens", id.to_lowercase()))
        .collect();
    assert_eq!(complaints(&page, &there), Vec::<String>::new());
    let changed = |from: &str, to: &str| complaints(&page.replace(from, to), &there);
    assert_eq!(
        changed("`b2_happens`", "Not yet: no such step."),
        ["b2_happens is not on the page"]
    );
    assert_eq!(
        changed("`b2_happens`", "`b2_happens`, `b2_is_so`"),
        ["there is no test b2_is_so"]
    );
    assert_eq!(
        changed("`b2_happens`", "`b4_happens`"),
        ["b4_happens stands at B2", "b2_happens is not on the page"]
    );
    assert_eq!(
        changed("| B2 | what | `b2_happens` |\n", ""),
        ["B2 is not on the page", "b2_happens is not on the page"]
    );
    assert_eq!(
        changed("| B2 | what | `b2_happens` |\n", "| B2 | what | |\n"),
        [
            "B2 has no test, and the page does not say why",
            "b2_happens is not on the page"
        ]
    );
    assert_eq!(changed("| B4 |", "| B2 |"), ["B2 stands on the page twice"]);
    let source = "#[test]\n    fn b2_x() {}\nfn b4_helper() {}\n/// #[test]\n#[tokio::test]\nasync fn d18_y() {}\n#[test]\nfn c_z() {}\n";
    assert_eq!(tests_in(source), ["b2_x", "d18_y"]);
}
