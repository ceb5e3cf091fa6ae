//! One file per subcommand.

pub mod exporter;
pub mod rules_check;
