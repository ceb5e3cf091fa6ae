//! What can be wrong with a scenario.

use crate::yaml::Place;
use std::io;
use std::path::PathBuf;

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
