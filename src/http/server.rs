//! The server: HTTP/1 with limits, ended by a token.

use super::connections::{Connection, Connections};
use super::router::{Router, text};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What one client may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once. For one more, the one that has been idle longest is closed; while none is, it waits.
    pub connections: usize,
    /// How long the head of a request may take, and an idle connection stay.
    pub header: Duration,
    /// How long an answer may take.
    pub request: Duration,
    /// How long connections have to end after the server was told to.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            header: Duration::from_secs(30),
            request: Duration::from_secs(10),
            shutdown: Duration::from_secs(5),
        }
    }
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {hint}")]
pub struct BindError {
    address: SocketAddr,
    hint: &'static str,
    #[source]
    source: io::Error,
}

impl BindError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::AddrInUse => "another process already uses this port",
            io::ErrorKind::PermissionDenied => "this process may not use this port",
            io::ErrorKind::AddrNotAvailable => "this machine has no such address",
            _ => "the system refused",
        };
        Self {
            address,
            hint,
            source,
        }
    }
}

/// A server that listens already and has not yet begun to answer.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    limits: Limits,
}

impl Server {
    /// Listens on an address; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// The address is taken, forbidden, or not this machine's.
    pub async fn bind(address: SocketAddr, limits: Limits) -> Result<Self, BindError> {
        match TcpListener::bind(address).await {
            Ok(listener) => Ok(Self { listener, limits }),
            Err(source) => Err(BindError::new(address, source)),
        }
    }

    /// The address that is listened on, with the port that was taken.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until the token is cancelled; then lets those that are under way end.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let router = Arc::new(router);
        let connections = Connections::new(self.limits.connections);
        let graceful = GracefulShutdown::new();
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header)
            .max_headers(64);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let (stream, _) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, for example: trying again at once would only burn time.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            // Answers are written whole; waiting for more to send would only delay them.
            let _ = stream.set_nodelay(true);
            let opened = tokio::select! {
                () = stop.cancelled() => break,
                opened = connections.open() => Arc::new(opened),
            };
            let (router, limit) = (Arc::clone(&router), self.limits.request);
            let service = service_fn({
                let opened = Arc::clone(&opened);
                move |request: Request<Incoming>| {
                    answer(Arc::clone(&router), limit, Arc::clone(&opened), request)
                }
            });
            let connection =
                graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
            tokio::spawn(async move {
                tokio::select! {
                    ended = connection => if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended early");
                    },
                    () = opened.closed() => tracing::debug!("an idle connection made room for another"),
                }
            });
        }
        drop(self.listener);
        if tokio::time::timeout(self.limits.shutdown, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("some connections did not end in time");
        }
    }
}

async fn answer(
    router: Arc<Router>,
    limit: Duration,
    opened: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<super::Response, Infallible> {
    let _busy = opened.busy();
    let (parts, _) = request.into_parts();
    let answered = tokio::time::timeout(limit, router.answer(parts)).await;
    Ok(answered.unwrap_or_else(|_| text(StatusCode::SERVICE_UNAVAILABLE, "this took too long\n")))
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
