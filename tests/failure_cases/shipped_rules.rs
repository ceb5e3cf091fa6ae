//! What the shipped rules look at.

use std::path::Path;

use gpu_remediator::api::GpuFaultRule;
use gpu_remediator::rules::promql;
use gpu_remediator::xid::{self, Class};

/// Every rule that comes with the product, with its file.
fn shipped() -> Vec<(String, GpuFaultRule)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "yaml") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((name, serde_saphyr::from_str(&text).unwrap()));
        }
    }
    assert!(!found.is_empty());
    found
}

/// One program that crashes leaves Xid 45 on every GPU that it used. No shipped rule that acts looks at a code that is
/// anything but evidence against the hardware, and none looks at all codes.
#[test]
fn a13_no_shipped_rule_that_acts_looks_at_what_programs_cause() {
    let mut seen = 0;
    for (file, object) in shipped() {
        for rule in object.spec.groups.iter().flat_map(|group| &group.rules) {
            let what = format!("{file}: {}", rule.alert);
            let expr = promql::parse(&rule.expr).unwrap();
            for selector in promql::selectors(&expr) {
                let is_xid = selector
                    .name
                    .as_deref()
                    .is_some_and(|n| n.starts_with("gpu_xid_"));
                if !is_xid {
                    continue;
                }
                let matchers = &selector.matchers.matchers;
                let code = matchers.iter().find(|m| m.name == "xid").expect(&what);
                assert!(
                    matches!(code.op, promql_parser::label::MatchOp::Equal),
                    "{what}: one code, named"
                );
                let entry = xid::find(code.value.parse().unwrap()).expect(&what);
                assert!(
                    matches!(
                        entry.class,
                        Class::Hardware | Class::Fabric | Class::RecoveryAction
                    ),
                    "{what}: {entry:?}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen >= 6, "{seen} rules look at Xids");
}
