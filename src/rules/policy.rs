//! Reading a `RemediationPolicy` out of a tree: everything that is wrong with it, each at its place.

use std::collections::BTreeSet;

use super::fields::letters;
use super::file::Expression;
use super::problem::Check;
use super::reader::Reader;
use super::template::{Dialect, PolicyVariables, Template};
use super::tree::{Node, Value, bytes};
use crate::api::policy::RemediationPolicySpec;
use crate::guards::condition::Condition;

const ACTIONS: [&str; 3] = ["cordon", "evictPods", "verify"];

/// As many as the schema of the resource allows.
const MOST_GUARDS: usize = 32;
const MOST_STEPS: usize = 16;
const LONGEST_EXPR: usize = 4096;
const LONGEST_NAME: usize = 63;

impl Reader<'_, '_> {
    /// Reads the spec of a policy.
    pub(super) fn policy(&mut self, spec: &Node) {
        let before = self.problems.count();
        let entries = self.fields(
            spec,
            "the spec of a RemediationPolicy",
            &[
                "mode",
                "nodeSelector",
                "guards",
                "budget",
                "steps",
                "recovery",
            ],
            &["steps", "recovery"],
        );
        for (key, value) in entries {
            match key.value.as_str() {
                "mode" => self.mode(value),
                "nodeSelector" => {
                    self.fields(
                        value,
                        "`nodeSelector`",
                        &["matchLabels", "matchExpressions"],
                        &[],
                    );
                }
                "guards" => self.guards(value),
                "budget" => self.budget(value),
                "steps" => self.steps(value),
                "recovery" => self.recovery(value),
                _ => {}
            }
        }
        if self.problems.count() > before {
            return;
        }
        // What is left, such as the inside of the selector, is read as the controller reads it.
        if let Err(error) = serde_json::from_value::<RemediationPolicySpec>(spec.value.to_json()) {
            self.problems
                .error(Check::BadValue, bytes(spec.referenced), error.to_string());
        }
    }

    fn mode(&mut self, node: &Node) {
        if let Some(mode) = self.text(node, "`mode`")
            && !["Observe", "Enforce"].contains(&mode)
        {
            self.problems
                .error(
                    Check::BadValue,
                    bytes(node.referenced),
                    format!("there is no mode `{mode}`"),
                )
                .mend("write Observe or Enforce");
        }
    }

    fn guards(&mut self, node: &Node) {
        for (key, value) in self.fields(node, "`guards`", &["pauseIf", "stopIf"], &[]) {
            if !["pauseIf", "stopIf"].contains(&key.value.as_str()) {
                continue;
            }
            let what = format!("`{}`", key.value);
            let mut names = BTreeSet::new();
            let list = match &value.value {
                Value::List(items) if items.is_empty() => continue,
                _ => self.list(value, &what),
            };
            self.at_most(value, &what, list.len(), MOST_GUARDS);
            for guard in list {
                for (key, value) in
                    self.fields(guard, "a guard", &["name", "expr"], &["name", "expr"])
                {
                    match key.value.as_str() {
                        "name" => {
                            let Some(name) = self.text(value, "the name of the guard") else {
                                continue;
                            };
                            self.at_most(value, "the name", name.chars().count(), LONGEST_NAME);
                            if !names.insert(name) {
                                self.problems.error(
                                    Check::Duplicate,
                                    bytes(value.referenced),
                                    format!("{what} has another guard `{name}` before"),
                                );
                            }
                        }
                        "expr" => self.condition(value, false),
                        _ => {}
                    }
                }
            }
        }
    }

    fn budget(&mut self, node: &Node) {
        let allowed = ["maxUnavailable", "maxConcurrent"];
        for (key, value) in self.fields(node, "`budget`", &allowed, &[]) {
            let (fits, message) = match key.value.as_str() {
                "maxUnavailable" => (
                    match &value.value {
                        Value::Integer(number) => (1..=i64::from(i32::MAX)).contains(number),
                        Value::Text(text) => text.strip_suffix('%').is_some_and(|number| {
                            !number.starts_with(['0', '+'])
                                && number.parse().is_ok_and(|n: u8| (1..=100).contains(&n))
                        }),
                        _ => false,
                    },
                    "`maxUnavailable` is a positive number of nodes, or a percentage from 1% to 100%",
                ),
                "maxConcurrent" => (
                    matches!(value.value, Value::Integer(1..=100_000)),
                    "`maxConcurrent` is a number from 1 to 100000",
                ),
                _ => continue,
            };
            if !fits {
                self.problems
                    .error(Check::BadValue, bytes(value.referenced), message);
            }
        }
    }

    fn steps(&mut self, node: &Node) {
        let steps = self.list(node, "`steps`");
        self.at_most(node, "`steps`", steps.len(), MOST_STEPS);
        for step in steps {
            let entries = self.fields(step, "a step", &ACTIONS, &[]);
            let actions = entries
                .iter()
                .filter(|(key, _)| ACTIONS.contains(&key.value.as_str()));
            if matches!(step.value, Value::Map(_)) && actions.count() != 1 {
                self.problems
                    .error(
                        Check::BadValue,
                        bytes(step.referenced),
                        format!("a step names exactly one action: {}", ACTIONS.join(", ")),
                    )
                    .mend("begin a list item for each action");
            }
            for (key, value) in entries {
                match key.value.as_str() {
                    "cordon" => {
                        self.fields(value, "`cordon`", &[], &[]);
                    }
                    "evictPods" => {
                        for (key, value) in self.fields(value, "`evictPods`", &["timeout"], &[]) {
                            if key.value == "timeout" {
                                self.duration(value, "`timeout`");
                            }
                        }
                    }
                    "verify" => {
                        let allowed = ["expr", "for", "timeout"];
                        self.proof(value, "`verify`", &allowed);
                    }
                    _ => {}
                }
            }
        }
    }

    fn recovery(&mut self, node: &Node) {
        let allowed = ["healthy", "rescheduleDeadline", "retention"];
        for (key, value) in self.fields(node, "`recovery`", &allowed, &["healthy"]) {
            match key.value.as_str() {
                "healthy" => self.proof(value, "`healthy`", &["expr", "for"]),
                "rescheduleDeadline" | "retention" => {
                    self.duration(value, &format!("`{}`", key.value));
                }
                _ => {}
            }
        }
    }

    fn proof(&mut self, node: &Node, what: &str, allowed: &[&str]) {
        for (key, value) in self.fields(node, what, allowed, &["expr", "for"]) {
            match key.value.as_str() {
                "expr" => self.condition(value, true),
                "for" | "timeout" => self.duration(value, &format!("`{}`", key.value)),
                _ => {}
            }
        }
    }

    /// A guard's expression, which stands as it is, or the template of a proof.
    fn condition(&mut self, node: &Node, is_proof: bool) {
        let Some(text) = self.text(node, "the expression") else {
            return;
        };
        self.at_most(node, "the expression", text.len(), LONGEST_EXPR);
        let span = bytes(node.referenced);
        let condition = if is_proof {
            let Some(template) = self.template(node, Dialect::Policy) else {
                return;
            };
            match sample(&template) {
                Some(expr) => Condition::proof(&expr),
                None => return,
            }
        } else {
            Condition::guard(text)
        };
        match condition.not_understood() {
            Some(message) => {
                let what = if is_proof {
                    "this proves nothing"
                } else {
                    "the guard can only hold"
                };
                self.problems.error(
                    Check::BadPromql,
                    span,
                    format!("{what}: {}", message.trim_end_matches('.')),
                );
            }
            None => self.expressions.push(Expression {
                expr: condition.expr().to_owned(),
                span,
                understood: true,
            }),
        }
    }

    fn at_most(&mut self, node: &Node, what: &str, length: usize, most: usize) {
        if length > most {
            self.problems.error(
                Check::BadValue,
                bytes(node.referenced),
                format!("{what} has {length}, and at most {most} are allowed"),
            );
        }
    }
}

/// The expression as it would be asked about some fault.
fn sample(template: &Template) -> Option<String> {
    let variables = PolicyVariables {
        node: "node".to_owned(),
        gpu: Some("0".to_owned()),
        uuid: Some("GPU-0".to_owned()),
        xid: Some(79),
    };
    template.expand_query(&variables).ok()
}

/// The kind that is meant by a word that differs in its letters' case or separators alone.
pub(super) fn meant_kind(written: &str) -> Option<&'static str> {
    ["GpuFaultRule", "RemediationPolicy"]
        .into_iter()
        .find(|kind| letters(kind) == letters(written))
}
