//! The way out of one process. When it is cut the process is dead to everybody else, whatever its tasks still do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// On which side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The server does not get it any more.
    Before,
    /// The server has applied it; nobody gets the answer.
    After,
}

/// The way out of one process. Clones are the same gate.
#[derive(Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

struct Shared {
    cut: CancellationToken,
    partitioned: watch::Sender<bool>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    passed: u64,
    cut_at: Option<(u64, Side)>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                cut: CancellationToken::new(),
                partitioned: watch::Sender::new(false),
                calls: Mutex::default(),
            }),
        }
    }
}

impl Gate {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        let calls = &self.shared.calls;
        calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing passes, in neither direction, for ever.
    pub fn cut(&self) {
        self.shared.cut.cancel();
    }

    /// Cuts when this call of the API comes, counted from 1.
    pub fn cut_at(&self, call: u64, side: Side) {
        self.calls().cut_at = Some((call, side));
    }

    /// Is it cut?
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.shared.cut.is_cancelled()
    }

    /// Waits until it is cut.
    pub async fn until_cut(&self) {
        self.shared.cut.cancelled().await;
    }

    /// Between the process and the API server nothing passes while this is true.
    pub fn partition(&self, yes: bool) {
        self.shared.partitioned.send_replace(yes);
    }

    /// Is the process apart from the API server?
    #[must_use]
    pub fn is_partitioned(&self) -> bool {
        *self.shared.partitioned.borrow()
    }

    /// Waits until the process is apart from the API server.
    pub(super) async fn until_partitioned(&self) {
        let mut partitioned = self.shared.partitioned.subscribe();
        // The sender lives as long as this gate.
        let _ = partitioned.wait_for(|yes| *yes).await;
    }

    /// How many calls of the API have come so far.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.calls().passed
    }

    /// A call comes: its number, and whether the gate is to be cut after it. `None` when it does not pass.
    pub(super) fn pass(&self) -> Option<(u64, bool)> {
        if self.is_cut() {
            return None;
        }
        let mut calls = self.calls();
        calls.passed += 1;
        let number = calls.passed;
        let side = calls
            .cut_at
            .filter(|(at, _)| *at == number)
            .map(|(_, side)| side);
        drop(calls);
        if side == Some(Side::Before) {
            self.cut();
            return None;
        }
        Some((number, side == Some(Side::After)))
    }
}
