//! Proof of the phase machine, in a small simulated world. The numbers are those of the promises.

mod failure_cases;
mod failure_cases_fleet;
mod failure_cases_pods;
mod hold;
mod invariants;
mod path;
mod people;
mod simulated;
mod still_there;
