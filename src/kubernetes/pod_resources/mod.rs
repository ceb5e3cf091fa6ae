//! Which pod holds which device, as the kubelet of this node says: the PodResources API, version 1, on its unix socket.

mod answer;
mod client;
mod messages;

pub use answer::{AnswerError, ContainerDevices, Device, PodDevices, decode};
pub use client::{AskError, PodResources};
