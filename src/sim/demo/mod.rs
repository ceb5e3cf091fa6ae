//! The story that `gpu-remediator demo` tells.
//!
//! ```text
//! scenario     the stories' names; scripts: what happens in each, and what must come of it
//! stage        a story on its cluster, with a clock that a reader can follow; acts, views: what is done and looked at
//! cluster      the simulated cluster with two controllers; cast: what is in it; service: a part of it
//! keep         the cluster, left running on addresses for curl and kubectl
//! happening    what can happen, and the sentence that tells it
//! narration    what the API server's history means for the story   pure
//! history      all that has happened, in order
//! expectation  what a story says about its end
//! ending       the end: times, faults, the whole as one document
//! summary      the last page; table: as kubectl shows objects
//! teller       lines for people; progress: what is waited for; pace: how fast the clock runs
//! ```

mod acts;
mod cast;
mod cluster;
pub mod ending;
pub mod expectation;
pub mod happening;
pub mod history;
pub mod keep;
mod narration;
pub mod pace;
pub mod progress;
pub mod scenario;
mod scripts;
mod service;
pub mod stage;
pub mod summary;
mod table;
pub mod teller;
mod views;
