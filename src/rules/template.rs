//! The small part of Go templates that rules and policies may use.
//!
//! Labels and annotations of a rule: `{{ $labels.name }}` and `{{ $value }}`. Expressions of a policy: `{{ .node }}`,
//! `{{ .gpu }}`, `{{ .uuid }}` and `{{ .xid }}`. Everything else is an error with its position.

use std::fmt::Write as _;

use super::answer::Labels;

/// Who wrote the text, and so which variables there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A label, annotation, `node` or `gpu` of a rule.
    Alert,
    /// An expression of a policy.
    Policy,
}

/// The variables of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// `{{ .node }}`: the name of the node.
    Node,
    /// `{{ .gpu }}`: the index of the GPU.
    Gpu,
    /// `{{ .uuid }}`: the UUID of the GPU.
    Uuid,
    /// `{{ .xid }}`: the Xid.
    Xid,
}

impl Field {
    const ALL: [(&'static str, Self); 4] = [
        ("node", Self::Node),
        ("gpu", Self::Gpu),
        ("uuid", Self::Uuid),
        ("xid", Self::Xid),
    ];

    /// The name as written after the dot.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Gpu => "gpu",
            Self::Uuid => "uuid",
            Self::Xid => "xid",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Label(String),
    Value,
    Field(Field),
}

/// A parsed template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// Where in the text, in bytes.
    pub offset: usize,
    /// How many bytes are concerned.
    pub length: usize,
    /// What is wrong and what may be written.
    pub message: String,
}

/// A variable that has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the template needs `{variable}`, which has no value here")]
pub struct MissingVariable {
    /// The variable as written in the template.
    pub variable: String,
}

/// What the variables of a policy stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyVariables {
    /// The name of the node.
    pub node: String,
    /// The index of the GPU, when the fault is about one.
    pub gpu: Option<String>,
    /// The UUID of the GPU, when the fault is about one.
    pub uuid: Option<String>,
    /// The Xid, when there is one.
    pub xid: Option<u32>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// When an action is not closed, or names anything but the variables of the dialect.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(open) = text[at..].find("{{").map(|found| at + found) {
            if open > at {
                pieces.push(Piece::Text(text[at..open].to_owned()));
            }
            let Some(close) = text[open..].find("}}").map(|found| open + found) else {
                return Err(TemplateError {
                    offset: open,
                    length: text.len() - open,
                    message: "`{{` is not closed by `}}`".to_owned(),
                });
            };
            let end = close + 2;
            let action = text[open + 2..close].trim();
            pieces.push(
                parse_action(action, dialect).map_err(|message| TemplateError {
                    offset: open,
                    length: end - open,
                    message,
                })?,
            );
            at = end;
        }
        if at < text.len() {
            pieces.push(Piece::Text(text[at..].to_owned()));
        }
        Ok(Self { pieces })
    }

    /// Whether the text depends on the value of the sample.
    pub fn uses_value(&self) -> bool {
        self.pieces.contains(&Piece::Value)
    }

    /// The labels that the text takes from the sample.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Label(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The text for one sample. A label that the sample lacks is empty, as in Prometheus.
    pub fn expand(&self, labels: &Labels, value: f64) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Label(name) => {
                    text.push_str(labels.get(name).map_or("", String::as_str));
                }
                Piece::Value => {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{value}");
                }
                Piece::Field(_) => {}
            }
        }
        text
    }

    /// The expression for one fault, with each value escaped for a PromQL string in double or single quotes.
    ///
    /// # Errors
    ///
    /// When the fault lacks a value that the expression needs: an empty text in its place would select other series.
    pub fn expand_query(&self, variables: &PolicyVariables) -> Result<String, MissingVariable> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Field(field) => {
                    let value = match field {
                        Field::Node => Some(variables.node.clone()).filter(|node| !node.is_empty()),
                        Field::Gpu => variables.gpu.clone(),
                        Field::Uuid => variables.uuid.clone(),
                        Field::Xid => variables.xid.map(|xid| xid.to_string()),
                    };
                    let value = value.ok_or_else(|| MissingVariable {
                        variable: format!(".{}", field.name()),
                    })?;
                    push_escaped(&mut text, &value);
                }
                Piece::Label(_) | Piece::Value => {}
            }
        }
        Ok(text)
    }
}

/// Escapes what would end a PromQL string, so that a value cannot become part of the expression.
fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            // By number, because `\"` is refused between single quotes and `\'` between double ones.
            '"' => text.push_str("\\x22"),
            '\'' => text.push_str("\\x27"),
            '`' => text.push_str("\\x60"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other => text.push(other),
        }
    }
}

fn parse_action(action: &str, dialect: Dialect) -> Result<Piece, String> {
    let allowed = match dialect {
        Dialect::Alert => "`{{ $labels.name }}` or `{{ $value }}`",
        Dialect::Policy => "`{{ .node }}`, `{{ .gpu }}`, `{{ .uuid }}` or `{{ .xid }}`",
    };
    let piece = match dialect {
        Dialect::Alert if action == "$value" => Some(Piece::Value),
        Dialect::Alert => action
            .strip_prefix("$labels.")
            .filter(|name| is_label_name(name))
            .map(|name| Piece::Label(name.to_owned())),
        Dialect::Policy => action.strip_prefix('.').and_then(|name| {
            Field::ALL
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, field)| Piece::Field(*field))
        }),
    };
    piece.ok_or_else(|| format!("`{{{{ {action} }}}}` is not supported; write {allowed}"))
}

fn is_label_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels() -> Labels {
        [
            ("node".to_owned(), "a1".to_owned()),
            ("gpu".to_owned(), "3".to_owned()),
        ]
        .into()
    }

    #[test]
    fn expands_labels_and_value() {
        let template = Template::parse(
            "GPU {{ $labels.gpu }} on {{$labels.node}}: {{ $value }}{{ $labels.none }}.",
            Dialect::Alert,
        )
        .unwrap();
        assert_eq!(template.expand(&labels(), 1.5), "GPU 3 on a1: 1.5.");
        assert!(template.uses_value());
        assert_eq!(
            template.labels().collect::<Vec<_>>(),
            ["gpu", "node", "none"]
        );
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_place() {
        for (text, dialect, offset) in [
            ("a {{ $value | humanize }}", Dialect::Alert, 2),
            ("a {{ .node }}", Dialect::Alert, 2),
            ("up{node=\"{{ $labels.node }}\"}", Dialect::Policy, 9),
            ("{{ .host }}", Dialect::Policy, 0),
            ("x {{ $labels.a", Dialect::Alert, 2),
            ("{{ $labels. }}", Dialect::Alert, 0),
        ] {
            let error = Template::parse(text, dialect).unwrap_err();
            assert_eq!(error.offset, offset, "{text}");
        }
    }

    #[test]
    fn a_missing_variable_is_an_error_in_a_query() {
        let template = Template::parse(r#"gpu_up{UUID="{{ .uuid }}"}"#, Dialect::Policy).unwrap();
        let variables = PolicyVariables {
            node: "a".into(),
            ..Default::default()
        };
        assert_eq!(
            template.expand_query(&variables).unwrap_err().variable,
            ".uuid"
        );
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_string(node in "\\PC{1,20}|[\"'\\\\\\n{}]{1,9}") {
            let template = Template::parse(r#"gpu_up{node="{{ .node }}"} == 1"#, Dialect::Policy).unwrap();
            let query = template
                .expand_query(&PolicyVariables { node: node.clone(), ..Default::default() })
                .unwrap();
            let parsed = promql_parser::parser::parse(&query);
            prop_assert!(parsed.is_ok(), "{query}: {parsed:?}");
            let shown = format!("{:?}", parsed.unwrap());
            prop_assert_eq!(shown.matches("Matcher {").count(), 1, "{}", shown);
        }
    }
}
