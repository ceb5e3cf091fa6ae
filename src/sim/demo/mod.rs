//! The story that `gpu-remediator demo` tells.
//!
//! ```text
//! scenario     the stories' names
//! happening    what can happen, and the sentence that tells it
//! narration    what the API server's history means for the story   pure
//! history      all that has happened, in order
//! expectation  what a story says about its end
//! ending       the end: times, faults, the whole as one document
//! summary      the last page; table: as kubectl shows objects
//! teller       lines for people; progress: what is waited for; pace: how fast the clock runs
//! ```

pub mod ending;
pub mod expectation;
pub mod happening;
pub mod history;
mod narration;
pub mod pace;
pub mod progress;
pub mod scenario;
pub mod summary;
mod table;
pub mod teller;
