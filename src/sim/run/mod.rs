//! Joins the pieces into a simulation: worlds by chance, a crash at each call, what is left of a story that fails.

pub mod acts;
mod answered;
mod chronicle;
mod cluster_page;
pub mod crash;
mod digest;
mod evidence;
pub mod play;
pub mod random;
pub mod runtime;
pub mod setup;
pub mod shipped;
pub mod shrink;
pub mod simulation;

pub use play::{Outcome, play};
pub use random::{Plan, random_world};
pub use runtime::block_on;
pub use setup::{Setup, StartError, TooLate};
pub use shrink::shrink;
pub use simulation::{Process, Simulation};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod clock_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod guard_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod outage_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod pod_watches_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod random_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod rejoin_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod second_term_tests;
