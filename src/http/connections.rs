//! The connections that are open, and which of them has to go when there are too many.

use super::router::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
struct Table {
    /// Of connections that wait for a request, by when they began to.
    idle: BTreeMap<u64, CancellationToken>,
    /// How many are being answered.
    busy: usize,
    /// Of answers that are being sent, by when that began: how many bytes each has, and what closes its connection.
    unsent: BTreeMap<u64, (usize, CancellationToken)>,
    /// Counts these beginnings.
    clock: u64,
}

impl Table {
    fn begin_idle(&mut self, close: CancellationToken) -> u64 {
        self.clock += 1;
        self.idle.insert(self.clock, close);
        self.clock
    }

    /// Takes in one more answer. Where all have too many bytes, those that have waited longest go: whoever reads is done soon.
    fn begin_sending(&mut self, bytes: usize, most: usize, close: CancellationToken) -> u64 {
        let mut all: usize = self.unsent.values().map(|(bytes, _)| bytes).sum();
        while all + bytes > most
            && let Some((_, (oldest, close))) = self.unsent.pop_first()
        {
            close.cancel();
            all -= oldest;
        }
        self.clock += 1;
        self.unsent.insert(self.clock, (bytes, close));
        self.clock
    }
}

#[derive(Debug)]
struct Shared {
    most: usize,
    most_unsent: usize,
    table: Mutex<Table>,
    /// Told when room may have come.
    room: Notify,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Connections {
    shared: Arc<Shared>,
}

impl Connections {
    /// At most so many, and so many bytes of answers that are not taken yet.
    pub(super) fn new(most: usize, most_unsent: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                most: most.max(1),
                most_unsent,
                table: Mutex::default(),
                room: Notify::new(),
            }),
        }
    }

    /// Takes in one more. Where there is no room, the one that has been idle longest is closed; while all are being
    /// answered, which does not take long, this waits.
    pub(super) async fn open(&self) -> Connection {
        loop {
            // Begun before the look, so that room that comes between is not missed.
            let room = self.shared.room.notified();
            {
                let mut table = self.shared.table();
                let full = table.busy + table.idle.len() >= self.shared.most;
                let oldest = if full { table.idle.pop_first() } else { None };
                if let Some((_, close)) = &oldest {
                    close.cancel();
                }
                if !full || oldest.is_some() {
                    let close = CancellationToken::new();
                    let since = table.begin_idle(close.clone());
                    return Connection {
                        shared: Arc::clone(&self.shared),
                        close,
                        since: Mutex::new(Some(since)),
                    };
                }
            }
            room.await;
        }
    }
}

/// One that is open. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    close: CancellationToken,
    /// Since when it is idle; `None` while it is being answered.
    since: Mutex<Option<u64>>,
}

impl Connection {
    fn since(&self) -> MutexGuard<'_, Option<u64>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when the connection has to make room for another.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// A request is being answered until what this returns is dropped. HTTP/1 answers one at a time.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        if let Some(since) = self.since().take() {
            let mut table = self.shared.table();
            table.idle.remove(&since);
            table.busy += 1;
        }
        Busy(Arc::clone(self))
    }

    /// The same answer, which counts until it is sent or the connection ends. Hyper asks for the next one only after that.
    pub(super) async fn send(self: &Arc<Self>, response: Response) -> Response {
        let (parts, body) = response.into_parts();
        // It is whole, so this neither waits nor fails.
        let Ok(body) = body.collect().await;
        let bytes = body.to_bytes();
        let (most, close) = (self.shared.most_unsent, self.close.clone());
        let number = (self.shared.table()).begin_sending(bytes.len(), most, close);
        let unsent = Unsent {
            bytes,
            number,
            connection: Arc::clone(self),
        };
        Response::from_parts(parts, Full::new(Bytes::from_owner(unsent)))
    }
}

/// The body of an answer that is being sent.
#[derive(Debug)]
struct Unsent {
    bytes: Bytes,
    number: u64,
    connection: Arc<Connection>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.connection.shared.table().unsent.remove(&self.number);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(since) = self.since().take() {
            self.shared.table().idle.remove(&since);
        }
        self.shared.room.notify_one();
    }
}

/// See [`Connection::busy`].
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        let connection = &self.0;
        {
            let mut since = connection.since();
            if since.is_none() {
                let mut table = connection.shared.table();
                table.busy = table.busy.saturating_sub(1);
                *since = Some(table.begin_idle(connection.close.clone()));
            }
        }
        connection.shared.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(10);

    /// Opens one if there is room now.
    async fn open(connections: &Connections) -> Option<Arc<Connection>> {
        let opened = tokio::time::timeout(Duration::ZERO, connections.open()).await;
        opened.ok().map(Arc::new)
    }

    #[tokio::test]
    async fn the_one_that_was_idle_longest_makes_room() {
        let connections = Connections::new(2, 0);
        let first = open(&connections).await.unwrap();
        let second = open(&connections).await.unwrap();
        // The first asked something since.
        drop(first.busy());
        let _third = open(&connections).await.unwrap();
        tokio::time::timeout(SOON, second.closed()).await.unwrap();
        assert!(!first.close.is_cancelled());
    }

    #[tokio::test]
    async fn one_that_is_being_answered_makes_no_room() {
        let connections = Connections::new(1, 0);
        let first = open(&connections).await.unwrap();
        let busy = first.busy();
        assert!(open(&connections).await.is_none());
        drop(busy);
        assert!(open(&connections).await.is_some());
        assert!(first.close.is_cancelled());
    }

    #[tokio::test]
    async fn what_has_ended_takes_no_room() {
        let connections = Connections::new(1, 0);
        for ends_while_busy in [false, true, false] {
            let opened = open(&connections).await.unwrap();
            drop(ends_while_busy.then(|| opened.busy()));
            assert!(!opened.close.is_cancelled());
        }
        assert!(connections.shared.table().idle.is_empty());
        assert_eq!(connections.shared.table().busy, 0);
    }
}
