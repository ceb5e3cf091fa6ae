//! The cluster of a story, left running in real time for people who want to look into it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::PoisonError;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::pace::{Pace, Pacer};
use super::stage::Stage;

/// The cluster cannot be left running.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// No port to listen on.
    #[error("cannot listen on a port of this machine")]
    Listen(#[source] std::io::Error),
    /// The signal that ends it cannot be waited for.
    #[error("cannot wait for Ctrl-C")]
    Signal(#[source] std::io::Error),
}

/// Where the cluster is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The Kubernetes API.
    pub kubernetes: SocketAddr,
    /// The API of Prometheus.
    pub prometheus: SocketAddr,
}

impl Stage {
    /// Lets the clock go on in real time and serves the cluster on loopback ports, until Ctrl-C. What happens meanwhile is told
    /// as before. `ready` is told the addresses.
    ///
    /// # Errors
    ///
    /// See [`KeepError`].
    pub async fn keep(&self, ready: impl FnOnce(Addresses)) -> Result<(), KeepError> {
        *self.pacer.lock().unwrap_or_else(PoisonError::into_inner) = Pacer::new(Pace::Free);
        tokio::time::resume();
        let anywhere = (Ipv4Addr::LOCALHOST, 0);
        let kubernetes = TcpListener::bind(anywhere)
            .await
            .map_err(KeepError::Listen)?;
        let prometheus = TcpListener::bind(anywhere)
            .await
            .map_err(KeepError::Listen)?;
        let addresses = Addresses {
            kubernetes: kubernetes.local_addr().map_err(KeepError::Listen)?,
            prometheus: prometheus.local_addr().map_err(KeepError::Listen)?,
        };
        let stop = CancellationToken::new();
        let cluster = &self.cluster;
        let serving = async {
            tokio::join!(
                cluster.api().serve(kubernetes, "kubectl", stop.clone()),
                cluster.prometheus().serve(prometheus, stop.clone())
            );
        };
        ready(addresses);
        let interrupted = tokio::select! {
            biased;
            interrupted = tokio::signal::ctrl_c() => interrupted,
            () = serving => Ok(()),
        };
        stop.cancel();
        interrupted.map_err(KeepError::Signal)
    }
}
