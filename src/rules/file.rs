//! Rule files: manifests of `GpuFaultRule`, or plain Prometheus rule files with `remediation` blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::policy::meant_kind;
use super::problem::{Check, Problem, Problems, Severity};
use super::reader::Reader;
use super::syntax::place;
use super::tree::{Node, Value, bytes};
use crate::api::rule::GpuFaultRuleSpec;
use crate::yaml;

const API_VERSION: &str = "gpu-remediator.dev/v1alpha1";

/// What a file holds.
#[derive(Debug, Default)]
pub struct RuleFile {
    /// The rules, by object. Empty when the file has errors: nothing is half-applied.
    pub objects: Vec<RuleObject>,
    /// The names of the policies that the file defines.
    pub policies: Vec<String>,
    /// The objects that the file defines.
    pub defined: Vec<Defined>,
    /// Which policies the rules name, and where.
    pub wanted: Vec<WantedPolicy>,
    /// The expressions of the rules.
    pub expressions: Vec<Expression>,
    /// How many rules of a plain Prometheus file have no `remediation`, and so are none of ours.
    pub without_remediation: usize,
    /// How many rules have one.
    pub with_remediation: usize,
    /// Everything that is wrong, in the order of the file.
    pub problems: Vec<Problem>,
}

/// The rules of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleObject {
    /// The name of the object; a plain Prometheus file has none.
    pub name: Option<String>,
    /// Its rules.
    pub spec: GpuFaultRuleSpec,
}

/// The expression of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The PromQL.
    pub expr: String,
    /// The bytes of the file that it covers.
    pub span: Range<usize>,
    /// Whether the parser reads it.
    pub understood: bool,
}

/// An object that a file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defined {
    kind: &'static str,
    name: String,
    span: Range<usize>,
}

/// A policy that a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPolicy {
    /// The name of the policy.
    pub name: String,
    span: Range<usize>,
}

impl RuleFile {
    /// A file whose text is not known, for the reason given.
    pub fn unreadable(message: &str) -> Self {
        let mut problems = Problems::of("");
        problems.error(Check::Unreadable, 0..0, message);
        Self {
            problems: problems.into_found(),
            ..Self::default()
        }
    }

    /// Reads a file to its end and collects everything that is wrong with it.
    pub fn read(text: &str) -> Self {
        let mut file = Self::default();
        let mut problems = Problems::of(text);
        match serde_saphyr::from_multiple::<Node>(text) {
            Ok(documents) => {
                for document in &documents {
                    file.document(document, &mut problems);
                }
                if documents
                    .iter()
                    .all(|document| document.value == Value::Null)
                {
                    problems
                        .error(Check::Kind, 0..0, "the file is empty")
                        .mend("write a GpuFaultRule, or `groups:` as in a Prometheus rule file");
                }
            }
            Err(error) => {
                let span = error
                    .location()
                    .map_or(0..0, |location| place(text, location));
                let message = yaml::plain_message(&error);
                problems.error(Check::Syntax, span, message);
            }
        }
        if problems.has_errors() {
            file.objects.clear();
        }
        file.problems = problems.into_found();
        file
    }

    /// The rules that name a policy which is not among `known`.
    pub fn missing_policies(&self, text: &str, known: &BTreeSet<String>) -> Vec<Problem> {
        let mut problems = Problems::of(text);
        for wanted in &self.wanted {
            if known.contains(&wanted.name) {
                continue;
            }
            let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
            problems
                .error(
                    Check::MissingPolicy,
                    wanted.span.clone(),
                    format!("there is no RemediationPolicy `{}`", wanted.name),
                )
                .mend(if names.is_empty() {
                    "give the file that defines it as well".to_owned()
                } else {
                    format!(
                        "name one of {}, or give the file that defines it",
                        names.join(", ")
                    )
                });
        }
        problems.into_found()
    }

    /// The objects that another file, or this one, has defined before. `seen` holds the file of each, and takes up this one's.
    pub fn defined_before(
        &self,
        text: &str,
        name: &str,
        seen: &mut BTreeMap<(&'static str, String), String>,
    ) -> Vec<Problem> {
        let mut problems = Problems::of(text);
        for defined in &self.defined {
            let object = (defined.kind, defined.name.clone());
            if let Some(before) = seen.get(&object) {
                problems
                    .error(
                        Check::Duplicate,
                        defined.span.clone(),
                        format!("{before} has a {} `{}` already", defined.kind, defined.name),
                    )
                    .mend("give it another name: the one applied last would replace the other");
            } else {
                seen.insert(object, name.to_owned());
            }
        }
        problems.into_found()
    }

    /// Takes what Prometheus says of an expression: its word counts more than the parser's.
    ///
    /// `verdict` is why Prometheus refuses the expression, or `None` when it accepts it.
    pub fn judged(&mut self, text: &str, expression: &Expression, verdict: Option<&str>) {
        self.problems.retain(|problem| {
            problem.check != Check::BadPromql || problem.span.start != expression.span.start
        });
        let mut problems = Problems::of(text);
        match verdict {
            Some(message) => {
                // The place in front is in the words of the request that was sent.
                let message = message
                    .strip_prefix("invalid parameter \"query\": ")
                    .unwrap_or(message);
                problems.error(
                    Check::BadPromql,
                    expression.span.clone(),
                    format!("Prometheus refuses the expression: {message}"),
                );
            }
            None if !expression.understood => {
                problems
                    .warning(
                        Check::DoubtfulPromql,
                        expression.span.clone(),
                        "Prometheus accepts the expression, but it cannot be checked further here",
                    )
                    .mend("make sure that its result has a label that names the node");
            }
            None => {}
        }
        self.problems.extend(problems.into_found());
        self.problems.sort_by_key(|problem| problem.span.start);
    }

    /// Whether the file cannot be used.
    pub fn has_errors(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    fn document(&mut self, document: &Node, problems: &mut Problems<'_>) {
        let whole = bytes(document.referenced);
        let Value::Map(entries) = &document.value else {
            if document.value != Value::Null {
                problems
                    .error(
                        Check::Kind,
                        whole,
                        format!("the document is {}, not a mapping", document.value.kind()),
                    )
                    .mend("write a GpuFaultRule, or `groups:` as in a Prometheus rule file");
            }
            return;
        };
        let kind = document
            .value
            .get("kind")
            .and_then(|kind| kind.value.as_text());
        match kind {
            Some("GpuFaultRule") => self.manifest(document, problems),
            Some("RemediationPolicy") => self.policy(document, problems),
            Some(other) if meant_kind(other).is_some() => {
                let meant = meant_kind(other).unwrap_or_default();
                problems
                    .error(
                        Check::Kind,
                        document
                            .value
                            .get("kind")
                            .map_or(whole, |kind| bytes(kind.referenced)),
                        format!("there is no kind `{other}`"),
                    )
                    .mend(format!("did you mean `{meant}`?"));
            }
            Some(other) => {
                problems.warning(
                    Check::Kind,
                    document.value.get("kind").map_or(whole, |kind| bytes(kind.referenced)),
                    format!("`{other}` is neither a GpuFaultRule nor a RemediationPolicy, and is not checked"),
                );
            }
            None if document.value.get("groups").is_some() => {
                let mut reader = Reader::new(problems, true);
                reader.fields(document, "a Prometheus rule file", &["groups"], &[]);
                self.spec(document, None, reader);
            }
            None => {
                let span = entries
                    .first()
                    .map_or(whole, |(key, _)| bytes(key.referenced));
                problems
                    .error(
                        Check::Kind,
                        span,
                        "the document has neither `kind` nor `groups`",
                    )
                    .mend("write a GpuFaultRule, or `groups:` as in a Prometheus rule file");
            }
        }
    }

    fn manifest(&mut self, document: &Node, problems: &mut Problems<'_>) {
        let mut reader = Reader::new(problems, false);
        let name = self.head(document, "GpuFaultRule", &mut reader);
        let Some(spec) = document.value.get("spec") else {
            return;
        };
        reader.fields(spec, "the spec of a GpuFaultRule", &["groups"], &["groups"]);
        self.spec(spec, name, reader);
    }

    fn policy(&mut self, document: &Node, problems: &mut Problems<'_>) {
        let mut reader = Reader::new(problems, false);
        let name = self.head(document, "RemediationPolicy", &mut reader);
        self.policies.extend(name);
        if let Some(spec) = document.value.get("spec") {
            reader.policy(spec);
        }
        self.expressions.append(&mut reader.expressions);
    }

    /// Reads what every object has, and gives back its name.
    fn head(
        &mut self,
        document: &Node,
        kind: &'static str,
        reader: &mut Reader<'_, '_>,
    ) -> Option<String> {
        reader.fields(
            document,
            &format!("a {kind}"),
            &["apiVersion", "kind", "metadata", "spec", "status"],
            &["apiVersion", "metadata", "spec"],
        );
        if let Some(version) = document.value.get("apiVersion")
            && version.value.as_text() != Some(API_VERSION)
        {
            reader
                .problems
                .error(
                    Check::BadValue,
                    bytes(version.referenced),
                    "this version of the API does not exist",
                )
                .mend(format!("write `apiVersion: {API_VERSION}`"));
        }
        let metadata = document.value.get("metadata")?;
        let Some(node) = metadata.value.get("name") else {
            reader
                .problems
                .error(
                    Check::MissingField,
                    bytes(metadata.referenced),
                    "`metadata` has no `name`",
                )
                .mend("add `name:`");
            return None;
        };
        let name = reader.text(node, "the name")?.to_owned();
        self.defined.push(Defined {
            kind,
            name: name.clone(),
            span: bytes(node.referenced),
        });
        Some(name)
    }

    /// Reads the groups below `spec`, which is the whole document of a plain file.
    fn spec(&mut self, spec: &Node, name: Option<String>, mut reader: Reader<'_, '_>) {
        if let Some(groups) = spec.value.get("groups") {
            reader.groups(groups);
        }
        self.with_remediation += reader.with_remediation;
        self.expressions.append(&mut reader.expressions);
        self.without_remediation += reader.without_remediation;
        self.wanted.extend(
            reader
                .wanted
                .drain(..)
                .map(|(name, span)| WantedPolicy { name, span }),
        );
        if reader.problems.has_errors() {
            return;
        }
        let mut json = spec.value.to_json();
        drop_foreign_rules(&mut json);
        match serde_json::from_value(json) {
            Ok(spec) => self.objects.push(RuleObject { name, spec }),
            Err(error) => {
                reader
                    .problems
                    .error(Check::BadValue, bytes(spec.referenced), error.to_string());
            }
        }
    }
}

/// Drops the rules without `remediation`, and the groups that are empty then.
fn drop_foreign_rules(spec: &mut serde_json::Value) {
    let Some(groups) = spec["groups"].as_array_mut() else {
        return;
    };
    for group in groups.iter_mut() {
        if let Some(rules) = group["rules"].as_array_mut() {
            rules.retain(|rule| rule.get("remediation").is_some());
        }
    }
    groups.retain(|group| {
        group["rules"]
            .as_array()
            .is_some_and(|rules| !rules.is_empty())
    });
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
