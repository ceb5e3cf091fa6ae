//! How far a command is, on standard error.

use std::io::{IsTerminal, Write};

/// Takes the line away, before something else is printed.
pub(super) fn clear() {
    if std::io::stderr().is_terminal() {
        // Whether the terminal takes it is its own business.
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

/// One line that is written over on a terminal; in a pipe, a line for each hundred.
pub(super) fn progress(done: u64, total: u64, text: &str) {
    let terminal = std::io::stderr().is_terminal();
    if !terminal && !done.is_multiple_of(100) {
        return;
    }
    clear();
    let end = if terminal && done < total { "" } else { "\n" };
    let _ = write!(std::io::stderr(), "{text}{end}");
}
