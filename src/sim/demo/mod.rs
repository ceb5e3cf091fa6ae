//! The story that `gpu-remediator demo` tells.
