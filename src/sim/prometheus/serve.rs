//! The query API on a socket, for `curl` and for dashboards.

use std::convert::Infallible;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Prometheus, QueryRequest};

/// No expression is longer.
const MOST_BYTES: usize = 1 << 20;

impl Prometheus {
    /// Serves until the token is cancelled. Connections that are open then are cut.
    pub async fn serve(&self, listener: TcpListener, stop: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            // A connection that ended before it was accepted concerns nobody.
            let Ok((stream, _)) = accepted else {
                continue;
            };
            let (prometheus, stop) = (self.clone(), stop.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| respond(prometheus.clone(), request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    // How a client ends its connection is its own affair.
                    _ = connection => {}
                }
            });
        }
    }
}

async fn respond(
    prometheus: Prometheus,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let (status, body) = match Limited::new(body, MOST_BYTES).collect().await {
        Ok(form) => {
            let query = parts.uri.query().unwrap_or_default();
            let form = form.to_bytes();
            prometheus.answer(&QueryRequest::new(
                parts.method,
                parts.uri.path(),
                query,
                &form,
            ))
        }
        Err(_) => (413, b"the request is too large\n".to_vec()),
    };
    let kind = if body.starts_with(b"{") {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    if let Ok(status) = hyper::StatusCode::from_u16(status) {
        *response.status_mut() = status;
    }
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}
