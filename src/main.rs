//! The entry of the `gpu-remediator` binary.

fn main() {}
