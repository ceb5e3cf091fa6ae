//! The server on a loopback port, for `kubectl` and `curl`.

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{ApiServer, ApiService};

impl ApiServer {
    /// Answers plain HTTP on that listener until `stop`; whoever connects is `actor`. Not for a paused clock.
    pub async fn serve(&self, listener: TcpListener, actor: &str, stop: CancellationToken) {
        let service: ApiService = self.service(actor);
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "a connection could not be accepted");
                    continue;
                }
            };
            let service = TowerToHyperService::new(service.clone());
            let stop = stop.clone();
            tokio::spawn(async move {
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new());
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    ended = connection => {
                        if let Err(error) = ended {
                            tracing::debug!(%error, "a connection broke");
                        }
                    }
                }
            });
        }
    }
}
