//! One file per subcommand.

pub mod exporter;
