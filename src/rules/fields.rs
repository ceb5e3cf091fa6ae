//! Reading single values out of a tree, with a problem for each that is not what it should be.

use super::problem::Check;
use super::reader::Reader;
use super::template::{Dialect, Template};
use super::tree::{Key, Node, Value, bytes};
use crate::api::duration::PromDuration;

impl Reader<'_, '_> {
    /// Holds a mapping to the fields that it may and must have.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        allowed: &[&str],
        required: &[&str],
    ) -> &'n [(Key, Node)] {
        let Value::Map(entries) = &node.value else {
            self.wrong_type(node, what, "a mapping");
            return &[];
        };
        for (key, _) in entries {
            let name = key.value.as_str();
            if allowed.contains(&name) {
                continue;
            }
            let meant = allowed.iter().find(|known| letters(known) == letters(name));
            self.problems
                .error(
                    Check::UnknownField,
                    bytes(key.referenced),
                    format!("{what} has no field `{name}`"),
                )
                .mend(match meant {
                    Some(meant) => format!("write `{meant}`"),
                    None if allowed.is_empty() => "write `{}`".to_owned(),
                    None => format!("the fields are {}", allowed.join(", ")),
                });
        }
        for field in required {
            if !entries.iter().any(|(key, _)| key.value == *field) {
                let span = entries
                    .first()
                    .map_or_else(|| bytes(node.referenced), |(key, _)| bytes(key.referenced));
                self.problems
                    .error(
                        Check::MissingField,
                        span,
                        format!("{what} has no `{field}`"),
                    )
                    .mend(format!("add `{field}:`"));
            }
        }
        entries
    }

    fn wrong_type(&mut self, node: &Node, what: &str, wanted: &str) {
        let problem = self.problems.error(
            Check::BadValue,
            bytes(node.referenced),
            format!("{what} is {}, not {wanted}", node.value.kind()),
        );
        if let (Value::Bool(_) | Value::Integer(_) | Value::Float(_), "a text") =
            (&node.value, wanted)
        {
            problem.mend("put it in quotes");
        }
    }

    /// A text that is not empty.
    pub(super) fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        let Some(text) = node.value.as_text() else {
            self.wrong_type(node, what, "a text");
            return None;
        };
        if text.trim().is_empty() {
            self.problems.error(
                Check::BadValue,
                bytes(node.referenced),
                format!("{what} is empty"),
            );
            return None;
        }
        Some(text)
    }

    /// A list that is not empty.
    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.value {
            Value::List(items) if !items.is_empty() => items,
            Value::List(_) => {
                self.problems.error(
                    Check::BadValue,
                    bytes(node.referenced),
                    format!("{what} is empty"),
                );
                &[]
            }
            _ => {
                self.wrong_type(node, what, "a list");
                &[]
            }
        }
    }

    /// A duration in the form of Prometheus.
    pub(super) fn duration(&mut self, node: &Node, what: &str) {
        let written = match &node.value {
            Value::Integer(number) => number.to_string(),
            _ => match self.text(node, what) {
                Some(text) => text.to_owned(),
                None => return,
            },
        };
        if let Err(error) = written.parse::<PromDuration>() {
            self.problems.error(
                Check::BadDuration,
                bytes(node.referenced),
                format!("{what}: {error}"),
            );
        }
    }

    /// A whole number from 0 to `most`.
    pub(super) fn number(&mut self, node: &Node, what: &str, most: i64) {
        match node.value {
            Value::Integer(number) if (0..=most).contains(&number) => {}
            Value::Integer(number) => {
                self.problems.error(
                    Check::BadValue,
                    bytes(node.referenced),
                    format!("{what} is {number}, not between 0 and {most}"),
                );
            }
            _ => {
                let quoted =
                    matches!(&node.value, Value::Text(text) if text.parse::<i64>().is_ok());
                self.wrong_type(node, what, "a whole number");
                if quoted && let Some(last) = self.problems.last() {
                    last.mend("write it without quotes");
                }
            }
        }
    }

    /// The entries of a mapping of texts.
    pub(super) fn texts<'n>(&mut self, node: &'n Node, what: &str) -> Vec<(&'n Key, &'n Node)> {
        let Value::Map(entries) = &node.value else {
            self.wrong_type(node, what, "a mapping");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (name, value) in entries {
            if value.value.as_text().is_some() {
                texts.push((name, value));
            } else {
                self.wrong_type(value, &format!("`{}`", name.value), "a text");
            }
        }
        texts
    }

    /// A template of an alert, or of a policy.
    pub(super) fn template(&mut self, node: &Node, dialect: Dialect) -> Option<Template> {
        let text = node.value.as_text()?;
        match Template::parse(text, dialect) {
            Ok(template) => Some(template),
            Err(error) => {
                let whole = bytes(node.referenced);
                let source = self.problems.text().get(whole.clone()).unwrap_or("");
                // In a scalar without escapes or line folding the action is found as it stands.
                let span = text
                    .get(error.offset..error.offset + error.length)
                    .and_then(|action| source.find(action).map(|at| at + whole.start))
                    .map_or(whole, |start| start..start + error.length);
                self.problems.error(Check::BadTemplate, span, error.message);
                None
            }
        }
    }
}

/// The letters of a name, to recognise `keepFiringFor` as `keep_firing_for`.
pub(super) fn letters(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}
