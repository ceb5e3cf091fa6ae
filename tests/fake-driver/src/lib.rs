//! A driver library that answers as a scenario file says.
//!
//! It exports the C functions of the NVIDIA management library that the exporter calls, so that the real loading and
//! calling code runs against it unchanged. `README.md` beside this crate describes the scenario file.

mod changes;
pub mod functions;
pub mod machines;
pub mod readings;
pub mod scenario;
