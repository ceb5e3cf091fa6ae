//! What can be wrong with a web configuration.

use crate::yaml::Place;
use std::io;
use std::path::PathBuf;

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
