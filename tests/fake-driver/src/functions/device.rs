//! The device file that the library holds open between its initialisation and its shutdown, as the real one holds
//! `/dev/nvidiactl`: while it does, a GPU cannot be reset.

use crate::scenario::{self, DEVICE};
use std::fs::File;
use std::sync::{Mutex, PoisonError};

static HELD: Mutex<Option<File>> = Mutex::new(None);

/// Opens it, where there is one beside the scenario.
pub(super) fn hold() {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.is_none()
        && let Some(scenario) = scenario::path()
    {
        *held = File::open(scenario.with_file_name(DEVICE)).ok();
    }
}

/// Closes it.
pub(super) fn let_go() {
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = None;
}
