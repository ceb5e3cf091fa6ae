//! What is left of a plan that breaks a promise: as few events as still break the same one.

use std::time::Duration;

use super::random::Plan;

/// A plan made small, and what it broke.
#[derive(Clone, Debug, PartialEq)]
pub struct Shrunk {
    /// The plan.
    pub plan: Plan,
    /// How often it was played for that.
    pub played: u32,
}

/// Takes away what is not needed for `breaks`, which answers the number of the promise that a plan breaks: first halves of
/// the events, then smaller parts, then single ones, as long as the same promise breaks; then what comes after the last event.
/// It plays at most `limit` times.
pub fn shrink<E>(
    plan: &Plan,
    promise: u8,
    limit: u32,
    mut breaks: impl FnMut(&Plan) -> Result<Option<u8>, E>,
) -> Result<Shrunk, E> {
    let mut best = plan.clone();
    let mut played = 0;
    let mut part = best.events.len().div_ceil(2);
    while part > 0 && played < limit {
        let mut at = 0;
        let mut less = false;
        while at < best.events.len() && played < limit {
            let mut smaller = best.clone();
            let end = (at + part).min(smaller.events.len());
            smaller.events.drain(at..end);
            played += 1;
            if breaks(&smaller)? == Some(promise) {
                best = smaller;
                less = true;
            } else {
                at = end;
            }
        }
        // Single events are tried again until none can go: one may have needed another.
        part = if part > 1 {
            part.div_ceil(2)
        } else {
            usize::from(less)
        };
    }
    let last = best.events.last().map_or(Duration::ZERO, |event| event.at);
    let mut shorter = best.clone();
    shorter.length = last + Duration::from_secs(600);
    if shorter.length < best.length && played < limit {
        played += 1;
        if breaks(&shorter)? == Some(promise) {
            best = shorter;
        }
    }
    Ok(Shrunk { plan: best, played })
}
