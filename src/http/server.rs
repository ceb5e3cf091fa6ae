//! The server: HTTP/1 with limits, over TLS where that is asked for, ended by a token.

use super::connections::Connections;
use super::exchange::Exchange;
use super::router::Router;
use super::web_config::{Protection, WebConfig};
use super::write_deadline::WriteDeadline;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use prometheus_client::metrics::gauge::Gauge;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// What one client may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once. For one more, the one that has been idle longest is closed; while none is, it waits.
    pub connections: usize,
    /// How long the head of a request or a TLS handshake may take, and an idle connection stay.
    pub header: Duration,
    /// Bytes of the head of a request: the first line and the headers; at least 8192. A longer one is answered with 431.
    pub head: usize,
    /// Bytes of the body of a request, of which nothing is kept. A longer one is answered with 413.
    pub body: u64,
    /// Bytes of answers that their clients have not taken yet, of all connections. For one more, the connection whose answer
    /// has waited longest is closed.
    pub unsent: usize,
    /// How long an answer may take, from the head of the request on; and then, how long the client may take to read it.
    pub request: Duration,
    /// How long connections have to end after the server was told to.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            header: Duration::from_secs(30),
            head: 16 * 1024,
            body: 64 * 1024,
            unsent: 8 * 1024 * 1024,
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
    config: Option<Arc<WebConfig>>,
}

impl Server {
    /// Listens on an address; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// The address is taken, forbidden, or not this machine's.
    pub async fn bind(address: SocketAddr, limits: Limits) -> Result<Self, BindError> {
        match TcpListener::bind(address).await {
            Ok(listener) => Ok(Self {
                listener,
                limits,
                config: None,
            }),
            Err(source) => Err(BindError::new(address, source)),
        }
    }

    /// Answers as a web configuration says, and follows its changes.
    #[must_use]
    pub fn with_web_config(mut self, config: Option<WebConfig>) -> Self {
        self.config = config.map(Arc::new);
        self
    }

    /// Whether the web configuration was good when it was last looked at, if there is one.
    #[must_use]
    pub fn web_config_reload_success(&self) -> Option<Gauge> {
        self.config.as_ref().map(|config| config.reload_success())
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
        let graceful = GracefulShutdown::new();
        let following = async {
            match &self.config {
                Some(config) => config.follow().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.accept(Arc::new(router), &graceful, &stop) => {}
            () = following => {}
        }
        let shutdown = self.limits.shutdown;
        drop(self);
        if tokio::time::timeout(shutdown, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("some connections did not end in time");
        }
    }

    async fn accept(
        &self,
        router: Arc<Router>,
        graceful: &GracefulShutdown,
        stop: &CancellationToken,
    ) {
        let connections = Connections::new(self.limits.connections, self.limits.unsent);
        let unprotected = Arc::new(Protection::none());
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
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
                () = stop.cancelled() => return,
                opened = connections.open() => Arc::new(opened),
            };
            let exchange = Exchange {
                router: Arc::clone(&router),
                limits: self.limits,
                opened: Arc::clone(&opened),
                peer: peer.ip(),
                config: self.config.clone(),
                began: match &self.config {
                    Some(config) => config.current(),
                    None => Arc::clone(&unprotected),
                },
            };
            let (watcher, stop) = (graceful.watcher(), stop.clone());
            // A task of its own already for the handshake: whoever is slow with it is waited for by nobody.
            tokio::spawn(async move {
                tokio::select! {
                    ended = converse(stream, exchange, watcher, stop) => if let Err(error) = ended {
                        tracing::debug!(error = &*error, "a connection ended early");
                    },
                    () = opened.closed() => tracing::debug!("an idle connection made room for another"),
                }
            });
        }
    }
}

type Ended = Result<(), Box<dyn Error + Send + Sync>>;

/// Answers on one connection until it ends.
async fn converse(
    stream: TcpStream,
    exchange: Exchange,
    watcher: Watcher,
    stop: CancellationToken,
) -> Ended {
    let Some(tls) = exchange.began.tls().cloned() else {
        return answer_all(stream, exchange, watcher).await;
    };
    let handshake = TlsAcceptor::from(tls).accept(stream);
    let stream = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        stream = tokio::time::timeout(exchange.limits.header, handshake) => stream??,
    };
    answer_all(stream, exchange, watcher).await
}

async fn answer_all<S>(stream: S, exchange: Exchange, watcher: Watcher) -> Ended
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = exchange.limits;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        // Hyper takes no less.
        .max_buf_size(limits.head.max(8192))
        .max_headers(64);
    let service = service_fn(move |request| exchange.clone().answer(request));
    let stream = TokioIo::new(WriteDeadline::new(stream, limits.request));
    let connection = builder.serve_connection(stream, service);
    Ok(watcher.watch(connection).await?)
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
