//! What can be wrong with a web configuration.

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

/// Why a web configuration cannot be used. None of these tells a secret.
#[derive(Debug, thiserror::Error)]
pub enum WebConfigError {
    /// The file cannot be read.
    #[error("cannot read the web configuration {}", path.display())]
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
    /// A field has a value that cannot be honoured.
    #[error("{place}: {field}: {problem}")]
    Value {
        /// Where.
        place: Place,
        /// The field, with the section that it is in.
        field: &'static str,
        /// What is wrong, and what could be there instead.
        problem: String,
    },
    /// A file that a field names cannot be read.
    #[error("{place}: {field}: cannot read {}", path.display())]
    Named {
        /// Where.
        place: Place,
        /// The field.
        field: &'static str,
        /// The file that it names.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The certificate, the key and the versions do not make a server.
    #[error("{place}: tls_server_config: this cannot be served")]
    Tls {
        /// Where.
        place: Place,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
    /// A changed file asks for less protection than the one in use.
    #[error("{}: {what} would be switched off, which needs a restart", path.display())]
    Weaker {
        /// The file.
        path: PathBuf,
        /// What would be lost.
        what: &'static str,
    },
}
