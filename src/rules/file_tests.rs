#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

const GOOD: &str = r#"
apiVersion: gpu-remediator.dev/v1alpha1
kind: GpuFaultRule
metadata: {name: r}
spec:
  groups:
    - name: g
      rules:
        - alert: A
          expr: gpu_up == 0
          for: 1m
          remediation: {policy: p}
---
apiVersion: gpu-remediator.dev/v1alpha1
kind: RemediationPolicy
metadata: {name: p}
spec:
  steps: [{cordon: {}}]
  recovery: {healthy: {expr: gpu_up == 1, for: 1m}}
"#;

fn found(text: &str) -> Vec<(Check, usize, usize)> {
    RuleFile::read(text)
        .problems
        .iter()
        .map(|problem| (problem.check, problem.line, problem.column))
        .collect()
}

#[test]
fn a_good_file_is_read() {
    let file = RuleFile::read(GOOD);
    assert!(file.problems.is_empty(), "{:#?}", file.problems);
    assert_eq!(file.objects[0].name.as_deref(), Some("r"));
    assert_eq!(file.objects[0].spec.groups[0].rules[0].alert, "A");
    assert_eq!(file.policies, ["p"]);
    assert!(
        file.missing_policies(GOOD, &BTreeSet::from(["p".to_owned()]))
            .is_empty()
    );
    let missing = file.missing_policies(GOOD, &BTreeSet::from(["q".to_owned()]));
    assert_eq!((missing[0].line, missing[0].column), (12, 33));
    assert_eq!(&GOOD[missing[0].span.clone()], "p");
}

#[test]
fn the_shipped_rules_have_no_problem() {
    let file = RuleFile::read(include_str!("../../rules/xid-fatal.yaml"));
    assert!(file.problems.is_empty(), "{:#?}", file.problems);
    assert_eq!(file.objects.len(), 1);
}

#[test]
fn a_plain_prometheus_file_may_hold_other_rules() {
    let file = RuleFile::read(
        "groups:\n- name: g\n  rules:\n  - record: a:b\n    expr: sum(x)\n  - alert: O\n    expr: up == 0\n  - alert: A\n    expr: gpu_up == 0\n    remediation: {policy: p}\n",
    );
    assert!(file.problems.is_empty(), "{:#?}", file.problems);
    assert_eq!((file.with_remediation, file.without_remediation), (1, 2));
    assert_eq!(file.objects[0].spec.groups[0].rules.len(), 1);
}

#[test]
fn a_misspelt_remediation_does_not_make_a_rule_somebody_elses() {
    let file = RuleFile::read(
        "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: gpu_up == 0\n    remediaton: {policy: p}\n",
    );
    assert_eq!(file.problems.len(), 1, "{:#?}", file.problems);
}

#[test]
fn all_problems_are_found_each_at_its_place_and_nothing_is_half_applied() {
    let text = r#"groups:
- name: g
  interval: 5
  rules:
  - alert: A
    expr: gpu_up ==
    for: 5 m
    keepFiringFor: 1m
    labels: {v: "{{ $value }}", n: 3, "0a": x}
    annotations: {s: "at {{ $labels.node | title }}"}
    remediation: {policy: p, xid: "79"}
  - alert: A
    expr: gpu_up[5m]
    remediation: {xid: 70000}
  - alert: B
    expr: sum(gpu_up) == 0
    remediation: {policy: p}
- name: g
  rules: []
"#;
    assert_eq!(
        found(text),
        [
            (Check::BadDuration, 3, 13),
            (Check::BadPromql, 6, 11),
            (Check::BadDuration, 7, 10),
            (Check::UnknownField, 8, 5),
            (Check::ValueInLabel, 9, 17),
            (Check::BadValue, 9, 36),
            (Check::BadValue, 9, 39),
            (Check::BadTemplate, 10, 26),
            (Check::BadValue, 11, 35),
            (Check::Duplicate, 12, 12),
            (Check::ResultType, 13, 11),
            (Check::MissingField, 14, 19),
            (Check::BadValue, 14, 24),
            (Check::DoubtfulPromql, 16, 11),
            (Check::Duplicate, 18, 9),
            (Check::BadValue, 19, 10),
        ]
    );
    assert!(RuleFile::read(text).objects.is_empty());
}

#[test]
fn the_word_of_prometheus_takes_the_place_of_the_parsers() {
    let text = "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: |\n      rate(x[5m+1m])\n    remediation: {policy: p}\n";
    let read = || {
        let file = RuleFile::read(text);
        let expression = file.expressions[0].clone();
        (file, expression)
    };
    let (mut file, expression) = read();
    assert!(!expression.understood);
    file.judged(
        text,
        &expression,
        Some("invalid parameter \"query\": 1:8: parse error"),
    );
    assert_eq!(file.problems.len(), 1);
    assert_eq!(
        file.problems[0].message,
        "Prometheus refuses the expression: 1:8: parse error"
    );
    let (mut file, expression) = read();
    file.judged(text, &expression, None);
    assert_eq!(file.problems.len(), 1);
    assert_eq!(file.problems[0].severity, Severity::Warning);
}

#[test]
fn a_field_in_another_spelling_is_recognised() {
    let file = RuleFile::read(
        "groups:\n- name: g\n  queryOffset: 1s\n  rules: [{alert: A, expr: x, remediation: {policy: p}}]\n",
    );
    assert_eq!(
        file.problems[0].mend.as_deref(),
        Some("write `query_offset`")
    );
}

#[test]
fn what_is_not_a_rule_file_says_so() {
    assert_eq!(found("")[0].0, Check::Kind);
    assert_eq!(found("- a\n")[0].0, Check::Kind);
    assert_eq!(found("a: b\n")[0].0, Check::Kind);
    assert_eq!(found("a: [b\n")[0].0, Check::Syntax);
    assert_eq!(found("groups: []\ngroups: []\n")[0].0, Check::Syntax);
    let file = RuleFile::read("kind: Pod\n");
    assert_eq!(file.problems[0].severity, Severity::Warning);
    let versions = found("apiVersion: v1\nkind: GpuFaultRule\nmetadata: {}\nspec: {groups: 3}\n");
    assert_eq!(
        versions,
        [
            (Check::BadValue, 1, 13),
            (Check::MissingField, 3, 11),
            (Check::BadValue, 4, 16)
        ]
    );
}

#[test]
fn a_node_that_a_template_or_label_names_needs_no_label_node() {
    let rule = |extra: &str, remediation: &str| {
        found(&format!(
            "groups: [{{name: g, rules: [{{alert: A, expr: 'sum by (host) (x) > 1'{extra}, remediation: {{policy: p{remediation}}}}}]}}]"
        ))
    };
    assert_eq!(rule("", "").len(), 1);
    assert_eq!(rule("", ", node: '{{ $labels.host }}'"), []);
    assert_eq!(rule(", labels: {node: '{{ $labels.host }}'}", ""), []);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(groups|kind|rules|alert|expr|remediation|[ :{}\\[\\]\n\\-\"'|&*!é0-9a-z]){0,60}") {
        let _ = RuleFile::read(&text);
    }
}

#[test]
fn a_syntax_error_is_where_it_is() {
    for (text, line) in [
        ("groups:\n  - name: a\n    rules:\n\t- alert: x\n", 4),
        ("groups:\n  - name: a\n    rules: [\n      {alert: x}\n", 3),
    ] {
        let file = RuleFile::read(text);
        let problem = &file.problems[0];
        assert_eq!(problem.check, Check::Syntax, "{problem:?}");
        assert_eq!(problem.line, line, "{text}: {problem:?}");
    }
}
