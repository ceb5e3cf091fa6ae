//! The runtime of a simulation: one thread, and a clock that goes on when nothing is left to do.

use std::future::Future;

/// The runtime cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the runtime of a simulation")]
pub struct RuntimeError(#[source] std::io::Error);

/// Runs a simulation to its end. What is still under way then is dropped.
///
/// # Errors
///
/// The operating system gives no runtime.
pub fn block_on<T>(simulation: impl Future<Output = T>) -> Result<T, RuntimeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(RuntimeError)?;
    Ok(runtime.block_on(simulation))
}
