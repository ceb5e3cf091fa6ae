//! The kernel log: `/dev/kmsg`, or a file that something else writes it to.

mod follow;
mod former;
mod journal;
mod lines;
mod place;
mod prefix;
mod record;
mod time;
mod wait;

pub use follow::{CHECK, Counters, Entry, KernelLog};
pub use record::{Line, Stamp};
