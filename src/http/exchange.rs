//! One request and its answer.

use super::connections::Connection;
use super::router::{Response, Router, text};
use super::server::Limits;
use super::web_config::{Admission, Protection, WebConfig};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// What the requests of one connection are answered with.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) router: Arc<Router>,
    pub(super) limits: Limits,
    pub(super) opened: Arc<Connection>,
    /// Who sends them.
    pub(super) peer: IpAddr,
    /// Where what protects the server may change, and to what.
    pub(super) config: Option<Arc<WebConfig>>,
    /// What protected the server when this connection came.
    pub(super) began: Arc<Protection>,
}

/// There is no answer, and the connection ends: it came before TLS was asked for.
#[derive(Debug, thiserror::Error)]
#[error("only TLS is answered since this connection came")]
pub(super) struct NoLongerPlain;

impl Exchange {
    pub(super) async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response, NoLongerPlain> {
        let protection = match &self.config {
            Some(config) => config.current(),
            None => Arc::clone(&self.began),
        };
        if self.began.tls().is_none() && protection.tls().is_some() {
            return Err(NoLongerPlain);
        }
        let response = self.make(&protection, request).await;
        let mut response = self.opened.send(response).await;
        let headers = response.headers_mut();
        for (name, value) in protection.headers() {
            headers.insert(name, value.clone());
        }
        // The next request comes on a connection with the new certificate.
        if !Arc::ptr_eq(&self.began, &protection) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    async fn make(&self, protection: &Protection, request: Request<Incoming>) -> Response {
        let by = Instant::now() + self.limits.request;
        let late = |_| text(StatusCode::SERVICE_UNAVAILABLE, "this took too long\n");
        let (parts, body) = request.into_parts();
        let admission = {
            // Idle connections would push out who waits for this. The queue is short, so there is room for others.
            let _busy = self.opened.busy();
            timeout_at(by, protection.admits(&parts.headers, self.peer)).await
        };
        match admission {
            Ok(Admission::Admitted) => {}
            Ok(Admission::Refused) => return unknown(),
            Ok(Admission::TooMany) => return too_many(),
            Err(elapsed) => return late(elapsed),
        }
        if let Err(refused) = discard(body, self.limits.body, by).await {
            return refused.answer(self.limits.body);
        }
        // Only from here on: whoever sends a body slowly has to make room for others.
        let _busy = self.opened.busy();
        let answered = timeout_at(by, self.router.answer(parts)).await;
        answered.unwrap_or_else(late)
    }
}

fn unknown() -> Response {
    let said = "a user name and a password are needed\n";
    let mut response = text(StatusCode::UNAUTHORIZED, said);
    let asked = HeaderValue::from_static("Basic realm=\"gpu-remediator\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, asked);
    response
}

fn too_many() -> Response {
    let said = "too many passwords wait to be checked; try again\n";
    text(StatusCode::TOO_MANY_REQUESTS, said)
}

/// Why the body of a request cannot be passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    TooLong,
    TooSlow,
    Broken,
}

impl Refused {
    /// An answer after which what else the client sends is not read.
    fn answer(self, most: u64) -> Response {
        let mut response = match self {
            Self::TooLong => text(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body of a request may have {most} bytes\n"),
            ),
            Self::TooSlow => text(
                StatusCode::REQUEST_TIMEOUT,
                "the body of the request took too long\n",
            ),
            Self::Broken => text(
                StatusCode::BAD_REQUEST,
                "the body of the request did not come whole\n",
            ),
        };
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
        response
    }
}

/// Reads a body and keeps nothing of it: no path takes one.
async fn discard(mut body: Incoming, most: u64, by: Instant) -> Result<(), Refused> {
    if body.size_hint().lower() > most {
        return Err(Refused::TooLong);
    }
    let mut read = 0;
    while let Some(frame) = timeout_at(by, body.frame())
        .await
        .map_err(|_| Refused::TooSlow)?
    {
        let frame = frame.map_err(|_| Refused::Broken)?;
        read += frame.data_ref().map_or(0, |data| data.len() as u64);
        if read > most {
            return Err(Refused::TooLong);
        }
    }
    Ok(())
}
