//! Proof of the phase machine, in a small simulated world.

mod simulated;
