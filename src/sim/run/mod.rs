//! Joins the pieces into a simulation: worlds by chance, a crash at each call, what is left of a story that fails.

mod cluster_page;
pub mod crash;
mod digest;
mod evidence;
pub mod runtime;
pub mod shipped;
pub mod simulation;

pub use runtime::block_on;
pub use simulation::{Process, Setup, Simulation, StartError, TooLate};
