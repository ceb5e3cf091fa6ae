//! `gpu-remediator`: closes the loop between a GPU fault and a healthy GPU.

/// The kernel log.
pub mod kmsg;
/// What the driver said: kernel-log grammar and Xid catalogue. Pure.
pub mod xid;
