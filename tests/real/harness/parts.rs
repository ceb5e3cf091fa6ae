//! Where the real servers and tools are.

use std::path::{Path, PathBuf};

/// The environment variable that names the folder of parts, as printed by
/// `tests/parts/build.sh`.
const VARIABLE: &str = "GPU_REMEDIATOR_PARTS";

/// Path of the part `name`.
///
/// # Panics
///
/// When the variable is unset or the part is not there: a test without its
/// parts fails, it is never skipped.
pub(crate) fn part(name: &str) -> PathBuf {
    let folder = std::env::var_os(VARIABLE).unwrap_or_else(|| {
        panic!("{VARIABLE} is not set: set it to the folder that tests/parts/build.sh prints")
    });
    let path = Path::new(&folder).join(name);
    assert!(
        path.is_file(),
        "{VARIABLE}={} has no {name}: run tests/parts/build.sh",
        folder.display()
    );
    path
}
