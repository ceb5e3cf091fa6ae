//! Waiting for conditions, never for a fixed time.

use std::time::{Duration, Instant};

/// Time between two looks. Short, so that a wait adds little to what it
/// measures.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until `probe` answers `Ok`, and returns what it answered.
///
/// # Panics
///
/// When `within` has passed, with `what` was waited for and the last reason.
pub(crate) async fn eventually<T>(
    within: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let began = Instant::now();
    let mut last = "nothing was seen yet".to_owned();
    loop {
        let left = within.saturating_sub(began.elapsed());
        match tokio::time::timeout(left.max(PAUSE), probe()).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(reason)) => last = reason,
            Err(_) => last = format!("the look itself did not end; before it: {last}"),
        }
        assert!(
            began.elapsed() < within,
            "{what}: not within {within:?}; last seen: {last}"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks again and again for the whole of `during` and fails at the first
/// `Err`: for what must not happen.
///
/// # Panics
///
/// At the first `Err`, with `what` should have stayed true and the reason.
pub(crate) async fn throughout(
    during: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<(), String>,
) {
    let began = Instant::now();
    while began.elapsed() < during {
        if let Err(reason) = probe().await {
            panic!(
                "{what}: no longer true after {:?}: {reason}",
                began.elapsed()
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// `Duration::from_secs`, short enough to be read inside an assertion.
pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
