//! One file per subcommand.

pub mod rules_check;
