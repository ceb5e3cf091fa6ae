//! Events on the objects: best effort, on a bounded queue, never in the way of a decision.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::core::Resource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::clients::call;

/// How many Events may wait. Beyond that they are dropped: conditions and counters tell the same.
const QUEUE: usize = 1_000;

/// The API server refuses longer notes.
const NOTE_LENGTH: usize = 1_000;

/// One Event to publish.
struct Entry {
    event: Event,
    about: ObjectReference,
}

/// Publishes Events.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Entry>,
}

impl Events {
    /// Starts the publisher. It ends with the token.
    pub fn start(client: Client, instance: String, stop: CancellationToken) -> Self {
        let (queue, mut entries) = mpsc::channel::<Entry>(QUEUE);
        let reporter = Reporter {
            controller: "gpu-remediator".into(),
            instance: Some(instance),
        };
        let recorder = Recorder::new(client, reporter);
        tokio::spawn(async move {
            loop {
                let entry = tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    entry = entries.recv() => entry,
                };
                let Some(Entry { event, about }) = entry else {
                    break;
                };
                let published = call("publishing an event", recorder.publish(&event, &about)).await;
                if let Err(error) = published {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        reason = event.reason,
                        "event lost"
                    );
                }
            }
        });
        Self { queue }
    }

    /// Queues one Event about an object.
    pub fn publish<K>(&self, about: &K, warning: bool, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.publish_related(about, None, warning, reason, message);
    }

    /// Queues one Event about an object and another that it has to do with. Events that differ in the other one are not
    /// folded into a series.
    pub fn publish_related<K>(
        &self,
        about: &K,
        related: Option<ObjectReference>,
        warning: bool,
        reason: &str,
        message: &str,
    ) where
        K: Resource<DynamicType = ()>,
    {
        let mut note = message.to_string();
        if note.len() > NOTE_LENGTH {
            let end = (0..=NOTE_LENGTH - 3)
                .rev()
                .find(|i| note.is_char_boundary(*i))
                .unwrap_or(0);
            note.truncate(end);
            note.push('…');
        }
        let event = Event {
            type_: if warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: reason.to_string(),
            note: Some(note),
            action: reason.to_string(),
            secondary: related,
        };
        if self
            .queue
            .try_send(Entry {
                event,
                about: about.object_ref(&()),
            })
            .is_err()
        {
            tracing::debug!(reason, "event dropped: the queue is full");
        }
    }
}
