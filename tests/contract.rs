//! The contract of `tests/contract`, on the simulated API server: each case has a server of its own, and a clock that
//! jumps to whatever is waited for.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use gpu_remediator::clock::Clock;
use gpu_remediator::sim::api_server::ApiServer;
use suite::ground::Ground;

#[macro_use]
#[path = "contract/mod.rs"]
mod suite;

macro_rules! tests {
    ($($group:ident { $($case:ident)* })*) => {
        $(mod $group {
            $(#[tokio::test(start_paused = true)]
            async fn $case() {
                crate::hold(stringify!($case), crate::suite::$group::$case).await;
            })*
        })*
    };
}

cases!(tests);

/// Runs one case on a new simulated server.
async fn hold(name: &str, case: impl AsyncFnOnce(&Ground)) {
    let origin = "2026-01-01T00:00:00Z".parse().expect("a time");
    let server = ApiServer::new(Clock::starting_at(origin));
    let client = server.client("tester");
    let ground = Ground::new(client, name, Arc::new(move || server.compact())).await;
    case(&ground).await;
}
