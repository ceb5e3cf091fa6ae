//! One file per subcommand.

pub mod controller;
pub mod crds;
#[cfg(feature = "sim")]
pub mod demo;
pub mod exporter;
pub mod rules_check;
#[cfg(feature = "sim")]
pub mod simulate;
pub mod xid;
