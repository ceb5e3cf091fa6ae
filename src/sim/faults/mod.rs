//! Faults between a client and its servers: the API and Prometheus answer as real ones may on a bad day, and by a seed, so
//! that the same run can be repeated.
//!
//! What is injected is what a real server, or the way to it, can do: [`CallFault::may_hit`] says on which verbs. An answer
//! that no server gives (a conflict for a plain `GET`) would only test what never happens.

mod asked;
mod calls;
mod frames;
mod gate;
mod injector;
mod kinds;
mod queries;

pub use asked::Asked;
pub use calls::FaultyApi;
pub use gate::{Gate, Side};
pub use injector::{Injector, OneShot, Spell};
pub use kinds::{CallFault, Fault, FrameFault, QueryFault};

#[cfg(test)]
mod tests;
