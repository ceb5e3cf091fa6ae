//! The threads that listen to what the driver tells of a GPU by itself, one for each GPU.

use super::sampler::{Shared, lock};
use super::state::State;
use crate::nvml::{DriverError, Event, Events};
use crate::xid::PciAddress;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait for an event: it is how long the session may still be held after it is to be closed.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A GPU that could not be listened to is tried again after so long.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Listens to the GPU at one index, for as long as the process lives.
pub(super) fn listen(shared: &Shared, index: u32) {
    let step = shared.pace().interval().min(LONGEST_WAIT);
    let longest_wait = longest_wait(step, shared.pace().deadline);
    // The session that has nothing to tell, or did not let itself be listened to, and when it may be tried again.
    let mut left: Option<(u64, Option<Instant>)> = None;
    let mut said: Option<DriverError> = None;
    loop {
        let session = shared.session_of(index);
        let open = session.filter(|session| match left {
            Some((number, again)) if number == session.number => {
                again.is_some_and(|again| Instant::now() >= again)
            }
            _ => true,
        });
        // Before a GPU has told who it is, its events would be nobody's.
        let place = lock(shared.state_mutex()).place_of(index);
        if let (Some(session), Some(pci)) = (open, place) {
            let number = session.number;
            match Arc::clone(&session.driver).events(index) {
                Ok(None) => left = Some((number, None)),
                Ok(Some(mut events)) => {
                    drop(session);
                    listened_to(&mut lock(shared.state_mutex()), pci, &events.others());
                    said = None;
                    let ended = follow(shared, index, number, pci, events.as_mut(), longest_wait);
                    left_alone(shared, pci, ended.is_ok());
                    left = ended
                        .is_err()
                        .then(|| (number, Some(Instant::now() + TRY_AGAIN)));
                }
                Err(error) => {
                    left_alone(shared, pci, false);
                    left = Some((number, Some(Instant::now() + TRY_AGAIN)));
                    if said.as_ref() != Some(&error) {
                        tracing::warn!(gpu = index, %error, "NVML tells no events of this GPU; trying again");
                        said = Some(error);
                    }
                }
            }
        }
        if !shared.wait(step) {
            return;
        }
    }
}

/// Whoever ends the session waits for us no longer than a call may take: until then it is to be let go.
fn longest_wait(step: Duration, deadline: Duration) -> Duration {
    step.min(deadline / 2)
}

/// From now on a GPU is listened to, and these events of it count.
fn listened_to(state: &mut State, pci: PciAddress, others: &[&'static str]) {
    for name in others {
        state.ledger.other(pci, name, 0);
    }
    state.listening.insert(pci, true);
}

/// Nobody listens to a GPU any more: because the session has ended, or because the driver refuses.
fn left_alone(shared: &Shared, pci: PciAddress, session_ended: bool) {
    let mut state = lock(shared.state_mutex());
    if session_ended {
        state.listening.remove(&pci);
    } else {
        state.listening.insert(pci, false);
    }
}

/// Takes in events until the session ends.
fn follow(
    shared: &Shared,
    index: u32,
    number: u64,
    pci: PciAddress,
    events: &mut dyn Events,
    longest_wait: Duration,
) -> Result<(), DriverError> {
    while shared.is_session(number) && !shared.is_stopped() {
        if let Some(event) = events.next(longest_wait)? {
            let at = Timestamp::now();
            match event {
                Event::Xid {
                    code,
                    gpu_instance,
                    compute_instance,
                } => {
                    tracing::debug!(
                        gpu = index,
                        code,
                        ?gpu_instance,
                        ?compute_instance,
                        "NVML told of an Xid"
                    );
                }
                Event::Other(name) => tracing::debug!(gpu = index, name, "NVML told of an event"),
            }
            let log_is_read = shared.log_is_read();
            lock(shared.state_mutex()).gpu_event(pci, event, at, log_is_read);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_let_go_before_its_end_is_waited_for_in_vain() {
        for milliseconds in [10, 400, 1000, 1500, 5000] {
            let deadline = Duration::from_millis(milliseconds);
            let wait = longest_wait(LONGEST_WAIT, deadline);
            assert!(wait <= deadline / 2 && wait <= LONGEST_WAIT, "{deadline:?}");
        }
    }
}
