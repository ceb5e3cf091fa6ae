//! Proof of the phase machine, in a small simulated world. The numbers are those of the promises.

mod hold;
mod invariants;
mod path;
mod people;
mod simulated;
