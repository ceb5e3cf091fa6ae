//! The runtime of a simulation: one thread, and a clock that goes on when nothing is left to do.

use std::cell::Cell;
use std::future::Future;
use std::sync::Once;

/// A simulation cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The operating system gives no runtime.
    #[error("cannot make the runtime of a simulation")]
    Make(#[source] std::io::Error),
    /// A task panicked, which ends a process that is no simulation.
    #[error("{0} tasks of the simulation panicked")]
    Panicked(u32),
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts the panics of each thread. A simulation has one, and the runtime keeps what a task of it does to itself.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            told(panic);
        }));
    });
}

/// Runs a simulation to its end. What is still under way then is dropped.
///
/// # Errors
///
/// See [`RuntimeError`].
pub fn block_on<T>(simulation: impl Future<Output = T>) -> Result<T, RuntimeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(RuntimeError::Make)?;
    count_panics();
    let before = PANICS.get();
    let ended = runtime.block_on(simulation);
    match PANICS.get() - before {
        0 => Ok(ended),
        panics => Err(RuntimeError::Panicked(panics)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_panics_does_not_go_unnoticed() {
        let spawned = block_on(async {
            let task = tokio::spawn(async { panic!("on purpose") });
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            task.is_finished()
        });
        assert!(matches!(spawned, Err(RuntimeError::Panicked(1))));
        assert!(block_on(async { true }).unwrap());
    }
}
