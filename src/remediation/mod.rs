//! What next: the phase machine, the drain plan, recovery. Pure: [`decide`] is a function of the fault, the world as it
//! was observed, and the time.

pub mod admission;
pub mod decide;
pub mod decision;
pub mod draft;
pub mod drain;
pub mod mark;
pub mod proof;
pub mod recovery;
pub mod refire;
pub mod steps;
pub mod world;

pub use decide::decide;
pub use decision::{Decision, Effect, Next, Notice, Observation};
pub use world::{Fault, World};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;
