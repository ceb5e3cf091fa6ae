//! Reasons to look at a fault again: something that it depends on has changed.

use futures::Stream;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;

use crate::api::GpuFault;

/// Sends nudges.
#[derive(Clone)]
pub struct Nudges {
    queue: mpsc::UnboundedSender<ObjectRef<GpuFault>>,
}

impl Nudges {
    /// A sender, and the stream for the reconciler's queue. It holds references only, and the queue folds repeated
    /// ones.
    pub fn channel() -> (
        Self,
        impl Stream<Item = ObjectRef<GpuFault>> + Send + 'static,
    ) {
        let (queue, receiver) = mpsc::unbounded_channel();
        let stream = futures::stream::unfold(receiver, |mut receiver| async move {
            let fault = receiver.recv().await?;
            Some((fault, receiver))
        });
        (Self { queue }, stream)
    }

    /// The fault should be looked at.
    pub fn nudge(&self, fault: &str) {
        // The receiver is gone only when the process ends.
        let _ = self.queue.send(ObjectRef::new(fault));
    }
}
