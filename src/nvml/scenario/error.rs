//! What can be wrong with a scenario.

use serde_saphyr::Location;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Where in the file something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    /// Line and column, from 1 on.
    at: Option<(u64, u64)>,
}

impl Place {
    pub(super) fn new(path: &Path, location: Option<Location>) -> Self {
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

/// Why a scenario cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read the scenario {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not YAML of the known form.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
    },
    /// Something is of the known form and cannot be.
    #[error("{place}: {subject}: {problem}")]
    Value {
        /// Where.
        place: Place,
        /// The key, the GPU or the step that it is about.
        subject: String,
        /// What is wrong, and what could be there instead.
        problem: String,
    },
}
