//! Mistakes in a YAML file: where they are, and what they are in words for who wrote the file.

use serde_saphyr::{Error, Location};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where in a file something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    /// Line and column, from 1 on.
    at: Option<(u64, u64)>,
}

impl Place {
    /// The place that the parser knows, if it knows one.
    #[must_use]
    pub fn new(path: &Path, location: Option<Location>) -> Self {
        let at = location.map(|location| (location.line(), location.column()));
        Self {
            path: path.to_owned(),
            at: at.filter(|(line, _)| *line > 0),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match self.at {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// What is wrong with the form of a file, without any value from it: that may be a secret. `None` where it is none of the
/// mistakes that are often made.
#[must_use]
pub fn mistake(error: &Error) -> Option<String> {
    let told = match error.without_snippet() {
        Error::SerdeUnknownField {
            field, expected, ..
        } => format!(
            "unknown key `{field}`; known here are {}",
            expected.join(", ")
        ),
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` is missing"),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is there twice"),
        Error::DuplicateMappingKey { key: None, .. } => "a key is there twice".to_owned(),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("expected {expected}")
        }
        Error::Unexpected { expected, .. } => format!("expected {expected}"),
        Error::InvalidScalar { ty, .. } => format!("expected {ty}"),
        Error::InvalidBooleanStrict { .. } => "expected true or false".to_owned(),
        Error::MultipleDocuments { .. } => "there is more than one document".to_owned(),
        Error::NullIntoString { .. } => "expected text".to_owned(),
        _ => return None,
    };
    Some(told)
}

/// The parser's own words, without the place, which is shown in another way. They may hold a value from the file.
#[must_use]
pub fn plain_message(error: &Error) -> String {
    let message = error.without_snippet().to_string();
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let message = message.lines().next().unwrap_or("not YAML");
    // Advice for the programmer, not for the author of the file.
    let message = match message.split_once(", set ") {
        Some((said, advice)) if advice.contains(" in Options") => said,
        _ => message,
    };
    match message.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") => rest.to_owned(),
        _ => message
            .split(" at line ")
            .next()
            .unwrap_or(message)
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct File {
        name: String,
        ready: Option<bool>,
    }

    fn refused(text: &str) -> Error {
        serde_saphyr::from_str::<File>(text).unwrap_err()
    }

    #[test]
    fn a_mistake_is_told_with_its_place_and_without_values() {
        for (text, place, expected) in [
            (
                "nam: hunter2\n",
                "a.yaml:1:1",
                "unknown key `nam`; known here are name, ready",
            ),
            ("name: a\nready: hunter2\n", "a.yaml:2:8", "expected"),
            (
                "name: a\nname: hunter2\n",
                "a.yaml:2:1",
                "`name` is there twice",
            ),
            ("ready: true\n", "a.yaml:1:1", "the key `name` is missing"),
            ("name: [hunter2]\n", "a.yaml:1:7", "expected"),
        ] {
            let error = refused(text);
            let told = mistake(&error).unwrap();
            assert!(
                told.contains(expected) && !told.contains("hunter2"),
                "{told}"
            );
            let at = Place::new(Path::new("a.yaml"), error.location());
            assert_eq!(at.to_string(), place, "{text}");
        }
        assert_eq!(Place::new(Path::new("a.yaml"), None).to_string(), "a.yaml");
    }

    #[test]
    fn the_parsers_words_have_neither_its_place_nor_its_advice() {
        for text in ["name: 'open\n", "name: \"\\q\"\n", "name: *none\n"] {
            let told = plain_message(&refused(text));
            assert!(!told.is_empty() && told.lines().count() == 1, "{told:?}");
            assert!(
                !told.contains("line ") && !told.starts_with("error"),
                "{told:?}"
            );
        }
    }
}
