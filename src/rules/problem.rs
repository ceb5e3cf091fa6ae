//! What is wrong with a rule file, where, and how to mend it.

use std::ops::Range;

/// Whether the file can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not do what is meant.
    Warning,
}

/// What kind of problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The file cannot be read, or there is none.
    Unreadable,
    /// The file is not YAML.
    Syntax,
    /// The document is of a kind that is not read.
    Kind,
    /// A field that does not exist.
    UnknownField,
    /// A field that must be there.
    MissingField,
    /// A value of the wrong type or out of its bounds.
    BadValue,
    /// Not a duration.
    BadDuration,
    /// Not PromQL as far as the parser knows. Prometheus has the last word.
    BadPromql,
    /// PromQL with a result that no rule can have.
    ResultType,
    /// PromQL whose result is probably not what is meant.
    DoubtfulPromql,
    /// Not a template of the supported kind.
    BadTemplate,
    /// A label that identifies the alert depends on the value.
    ValueInLabel,
    /// Two objects, two groups of an object, or two alerts of a group, with the same name.
    Duplicate,
    /// The policy does not exist.
    MissingPolicy,
}

impl Check {
    /// The word for the check in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::Kind => "kind",
            Self::UnknownField => "unknown-field",
            Self::MissingField => "missing-field",
            Self::BadValue => "bad-value",
            Self::BadDuration => "bad-duration",
            Self::BadPromql => "bad-promql",
            Self::ResultType => "result-type",
            Self::DoubtfulPromql => "doubtful-promql",
            Self::BadTemplate => "bad-template",
            Self::ValueInLabel => "value-in-label",
            Self::Duplicate => "duplicate",
            Self::MissingPolicy => "missing-policy",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Whether the file can be used.
    pub severity: Severity,
    /// What kind of problem it is.
    pub check: Check,
    /// The reason, in one sentence.
    pub message: String,
    /// What to write instead.
    pub mend: Option<String>,
    /// The bytes of the file that are concerned.
    pub span: Range<usize>,
    /// The line of the first of them, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
}

/// Collects the problems of one text.
#[derive(Debug)]
pub(super) struct Problems<'a> {
    text: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            text,
            found: Vec::new(),
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    pub(super) fn has_errors(&self) -> bool {
        self.found
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// Adds an error and gives it back, so that more can be said.
    pub(super) fn error(
        &mut self,
        check: Check,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> &mut Problem {
        self.add(Severity::Error, check, span, message.into())
    }

    /// Adds a warning and gives it back, so that more can be said.
    pub(super) fn warning(
        &mut self,
        check: Check,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> &mut Problem {
        self.add(Severity::Warning, check, span, message.into())
    }

    fn add(
        &mut self,
        severity: Severity,
        check: Check,
        span: Range<usize>,
        message: String,
    ) -> &mut Problem {
        let span = within(self.text, span);
        let (line, column) = position(self.text, span.start);
        let at = self.found.len();
        self.found.push(Problem {
            severity,
            check,
            message,
            mend: None,
            span,
            line,
            column,
        });
        &mut self.found[at]
    }

    /// The problem that was added last.
    pub(super) fn last(&mut self) -> Option<&mut Problem> {
        self.found.last_mut()
    }

    /// The problems in the order of the file.
    pub(super) fn into_found(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| problem.span.start);
        self.found
    }
}

impl Problem {
    /// Adds how to mend it.
    pub(super) fn mend(&mut self, mend: impl Into<String>) -> &mut Self {
        self.mend = Some(mend.into());
        self
    }
}

/// The span cut to the text and to whole characters, without the line ends behind it.
fn within(text: &str, span: Range<usize>) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(span.start);
    let end = floor(span.end).max(start);
    start..start + text[start..end].trim_end().len()
}

fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}
