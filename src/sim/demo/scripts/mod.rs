//! What happens in each story, and what must have come of it.

mod application_error;
mod checks;
mod controller_crash;
mod eviction_fails;
mod guard_pauses;
mod pdb_blocks;
mod prometheus_down;
mod stop_guard;
mod xid_79;

use std::time::Duration;

use super::expectation::Expectations as Checks;
use super::scenario::Scenario;
use super::stage::{Stage, TooLate};

const MINUTE: Duration = Duration::from_secs(60);

/// Plays the story to its end. What does not come in time is an expectation that failed.
pub(super) async fn play(scenario: Scenario, stage: &Stage) -> Checks {
    let mut checks = Checks::default();
    let played = match scenario {
        Scenario::Xid79 => xid_79::play(stage, &mut checks).await,
        Scenario::PdbBlocks => pdb_blocks::play(stage, &mut checks).await,
        Scenario::GuardPauses => guard_pauses::play(stage, &mut checks).await,
        Scenario::StopGuard => stop_guard::play(stage, &mut checks).await,
        Scenario::EvictionFails => eviction_fails::play(stage, &mut checks).await,
        Scenario::ApplicationError => application_error::play(stage, &mut checks).await,
        Scenario::PrometheusDown => prometheus_down::play(stage, &mut checks).await,
        Scenario::ControllerCrash => controller_crash::play(stage, &mut checks).await,
    };
    if let Err(late) = played {
        let (what, found) = (late.what.clone(), late.to_string());
        checks.expect(what, false, found);
    }
    let (broken, checked) = stage.broken_promises();
    checks.expect(
        "no promise of the product was broken",
        broken.is_empty() && checked > 0,
        format!("{checked} checks: {}", broken.join("; ")),
    );
    checks
}
