//! Reading groups and rules out of a tree.

use std::collections::BTreeSet;
use std::ops::Range;

use super::file::Expression;
use super::lint::{Finding, expression};
use super::problem::{Check, Problems};
use super::template::Dialect;
use super::tree::{Node, Value, bytes};

const GROUP_FIELDS: [&str; 6] = [
    "name",
    "interval",
    "limit",
    "query_offset",
    "labels",
    "rules",
];
const RULE_FIELDS: [&str; 7] = [
    "alert",
    "expr",
    "for",
    "keep_firing_for",
    "labels",
    "annotations",
    "remediation",
];

/// What a rule that is not ours may hold, in a plain Prometheus file.
const FOREIGN_RULE_FIELDS: [&str; 8] = [
    "alert",
    "record",
    "expr",
    "for",
    "keep_firing_for",
    "labels",
    "annotations",
    "remediation",
];

/// Reads the rules of one document.
pub(super) struct Reader<'a, 'text> {
    pub(super) problems: &'a mut Problems<'text>,
    /// The policies that the rules name.
    pub(super) wanted: Vec<(String, Range<usize>)>,
    /// The expressions of the rules.
    pub(super) expressions: Vec<Expression>,
    /// Rules that are ours.
    pub(super) with_remediation: usize,
    /// Rules that Prometheus alone is concerned with.
    pub(super) without_remediation: usize,
    /// Whether the document is a plain Prometheus file, in which such rules are welcome.
    plain: bool,
}

impl<'a, 'text> Reader<'a, 'text> {
    pub(super) fn new(problems: &'a mut Problems<'text>, plain: bool) -> Self {
        Self {
            problems,
            wanted: Vec::new(),
            expressions: Vec::new(),
            with_remediation: 0,
            without_remediation: 0,
            plain,
        }
    }

    pub(super) fn groups(&mut self, node: &Node) {
        let mut names = BTreeSet::new();
        for group in self.list(node, "`groups`") {
            let entries = self.fields(group, "a group", &GROUP_FIELDS, &["name", "rules"]);
            for (key, value) in entries {
                match key.value.as_str() {
                    "name" => {
                        if let Some(name) = self.text(value, "the name of the group")
                            && !names.insert(name)
                        {
                            self.problems.error(
                                Check::Duplicate,
                                bytes(value.referenced),
                                format!("there is another group `{name}` before"),
                            );
                        }
                    }
                    "interval" => self.duration(value, "`interval`"),
                    "query_offset" => self.duration(value, "`query_offset`"),
                    "limit" => self.number(value, "`limit`", 100_000),
                    "labels" => self.labels(value),
                    "rules" => self.rules(value),
                    _ => {}
                }
            }
        }
    }

    fn rules(&mut self, node: &Node) {
        let mut alerts = BTreeSet::new();
        for rule in self.list(node, "`rules`") {
            let foreign = rule.value.get("remediation").is_none();
            if self.plain && foreign {
                // Prometheus and its own tools judge these, but a misspelt `remediation` must not make a rule one of them.
                self.fields(rule, "a rule", &FOREIGN_RULE_FIELDS, &[]);
                self.without_remediation += 1;
                continue;
            }
            if let (Value::Map(entries), Some(_)) = (&rule.value, rule.value.get("record")) {
                let span = entries
                    .iter()
                    .find(|(key, _)| key.value == "record")
                    .map_or(0..0, |(key, _)| bytes(key.referenced));
                self.problems
                    .error(
                        Check::UnknownField,
                        span,
                        "a recording rule remediates nothing",
                    )
                    .mend("leave recording rules to Prometheus");
                continue;
            }
            self.with_remediation += 1;
            self.rule(rule, &mut alerts);
        }
    }

    fn rule<'n>(&mut self, rule: &'n Node, alerts: &mut BTreeSet<&'n str>) {
        let entries = self.fields(
            rule,
            "a rule",
            &RULE_FIELDS,
            &["alert", "expr", "remediation"],
        );
        let mut node_labels = vec!["node".to_owned()];
        for (key, value) in entries {
            match key.value.as_str() {
                "alert" => {
                    if let Some(name) = self.text(value, "the name of the alert")
                        && !alerts.insert(name)
                    {
                        self.problems
                            .error(
                                Check::Duplicate,
                                bytes(value.referenced),
                                format!("the group has another alert `{name}` before"),
                            )
                            .mend("give it another name: the state of a rule is found by its name");
                    }
                }
                "for" => self.duration(value, "`for`"),
                "keep_firing_for" => self.duration(value, "`keep_firing_for`"),
                "labels" => self.labels(value),
                "annotations" => self.annotations(value),
                "remediation" => {
                    if let Some(labels) = self.remediation(value) {
                        node_labels = labels;
                    }
                }
                _ => {}
            }
        }
        // A label that the rule itself sets need not come from the expression.
        if let Some(Value::Map(labels)) = rule.value.get("labels").map(|labels| &labels.value) {
            node_labels.retain(|needed| !labels.iter().any(|(name, _)| name.value == *needed));
        }
        if let Some(expr) = rule.value.get("expr") {
            self.expr(expr, &node_labels);
        }
    }

    fn expr(&mut self, node: &Node, labels: &[String]) {
        let Some(expr) = self.text(node, "the expression") else {
            return;
        };
        let span = bytes(node.referenced);
        let findings = expression(expr, labels);
        self.expressions.push(Expression {
            expr: expr.to_owned(),
            span: span.clone(),
            understood: !matches!(findings.as_slice(), [Finding::Refused(_)]),
        });
        for finding in findings {
            match finding {
                Finding::Refused(message) => {
                    self.problems
                        .error(
                            Check::BadPromql,
                            span.clone(),
                            format!("bad PromQL: {message}"),
                        )
                        .mend("if it is newer syntax, let a server judge: --prometheus URL");
                }
                Finding::ResultType(kind) => {
                    self.problems
                        .error(
                            Check::ResultType,
                            span.clone(),
                            format!("the result is a {kind}; a rule needs a vector or scalar"),
                        )
                        .mend("put it into a function such as rate() or last_over_time(), or compare it");
                }
                Finding::LosesLabel(label) => {
                    self.problems
                        .warning(
                            Check::DoubtfulPromql,
                            span.clone(),
                            format!(
                                "the result has no label `{label}`, so that no node can be found"
                            ),
                        )
                        .mend(format!(
                            "keep it with `by ({label}, …)`, or name the node in `remediation.node`"
                        ));
                }
                Finding::TopLevelBool => {
                    self.problems
                        .warning(
                            Check::DoubtfulPromql,
                            span.clone(),
                            "with `bool` every series is returned, and the alert fires although the comparison is false",
                        )
                        .mend("leave out `bool`");
                }
            }
        }
    }

    fn labels(&mut self, node: &Node) {
        for (name, value) in self.texts(node, "`labels`") {
            if !is_label_name(&name.value) || name.value == "__name__" {
                self.problems.error(
                    Check::BadValue,
                    bytes(name.referenced),
                    format!("`{}` is not a label name", name.value),
                );
            }
            if let Some(template) = self.template(value, Dialect::Alert)
                && template.uses_value()
            {
                self.problems
                    .error(
                        Check::ValueInLabel,
                        bytes(value.referenced),
                        "a label identifies the alert and must not depend on `$value`: each new value would be a new alert",
                    )
                    .mend("move it to `annotations`");
            }
        }
    }

    fn annotations(&mut self, node: &Node) {
        for (_, value) in self.texts(node, "`annotations`") {
            self.template(value, Dialect::Alert);
        }
    }

    /// The labels of the alert that the name of the node is made of, where a template says so.
    fn remediation(&mut self, node: &Node) -> Option<Vec<String>> {
        let entries = self.fields(
            node,
            "`remediation`",
            &["policy", "xid", "node", "gpu"],
            &["policy"],
        );
        let mut node_labels = None;
        for (key, value) in entries {
            match key.value.as_str() {
                "policy" => {
                    if let Some(name) = self.text(value, "the name of the policy") {
                        self.wanted.push((name.to_owned(), bytes(value.referenced)));
                    }
                }
                "xid" => self.number(value, "`xid`", 65_535),
                "node" | "gpu" => {
                    if self.text(value, &format!("`{}`", key.value)).is_none() {
                        continue;
                    }
                    let Some(template) = self.template(value, Dialect::Alert) else {
                        continue;
                    };
                    if template.uses_value() {
                        self.problems.error(
                            Check::BadTemplate,
                            bytes(value.referenced),
                            format!("`{}` must not depend on `$value`", key.value),
                        );
                    }
                    if key.value == "node" {
                        node_labels = Some(template.labels().map(str::to_owned).collect());
                    }
                }
                _ => {}
            }
        }
        node_labels
    }
}

fn is_label_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
