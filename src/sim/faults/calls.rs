//! The API server behind a bad line: another `tower::Service` before its own.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, pending};
use hyper::{Request, Response};
use tower::{BoxError, Service};

use super::asked::Asked;
use super::frames;
use super::gate::Gate;
use super::injector::Injector;
use super::kinds::CallFault;
use crate::sim::api_server::{AnswerBody, ApiService, Refusal};

/// The server as one process sees it, through its gate.
#[derive(Clone)]
pub struct FaultyApi {
    server: ApiService,
    actor: Arc<str>,
    gate: Gate,
    injector: Injector,
}

impl Injector {
    /// The way of one process to the API server.
    #[must_use]
    pub fn service(&self, actor: &str, server: ApiService, gate: &Gate) -> FaultyApi {
        FaultyApi {
            server,
            actor: Arc::from(actor),
            gate: gate.clone(),
            injector: self.clone(),
        }
    }
}

impl Service<Request<kube::client::Body>> for FaultyApi {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let this = self.clone();
        // A dead process hears nothing, not even of what was under way.
        let gate = self.gate.clone();
        async move {
            let answer = this.answer(request);
            tokio::select! {
                biased;
                () = gate.until_cut() => pending().await,
                answer = answer => answer,
            }
        }
        .boxed()
    }
}

impl FaultyApi {
    async fn answer(
        mut self,
        request: Request<kube::client::Body>,
    ) -> Result<Response<AnswerBody>, BoxError> {
        let asked = Asked::of(&request);
        let Some((number, last)) = self.gate.pass() else {
            return pending().await;
        };
        if self.gate.is_partitioned() {
            return pending().await;
        }
        let fault = self.injector.for_call(&self.actor, number, &asked);
        if let Some(CallFault::Delay(delay)) = fault {
            tokio::time::sleep(delay).await;
        }
        let refuse = |code, reason, message: &str, retry_after: Option<u32>| {
            refused(&Refusal::new(code, reason, message), retry_after)
        };
        match fault {
            Some(CallFault::Conflict) => {
                return refuse(
                    409,
                    "Conflict",
                    "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
                    None,
                );
            }
            Some(CallFault::Gone) => {
                return refuse(
                    410,
                    "Expired",
                    "The resourceVersion for the provided watch is too old.",
                    None,
                );
            }
            Some(CallFault::TooMany { retry_after }) => {
                return refuse(
                    429,
                    "TooManyRequests",
                    "The server has received too many requests and has asked us to try again later",
                    retry_after,
                );
            }
            Some(CallFault::Internal) => {
                return refuse(
                    500,
                    "InternalError",
                    "Internal error occurred: etcdserver: request timed out",
                    None,
                );
            }
            Some(CallFault::Unavailable) => {
                return refuse(
                    503,
                    "ServiceUnavailable",
                    "the server is currently unable to handle the request",
                    None,
                );
            }
            Some(CallFault::NoAnswer) => return pending().await,
            Some(CallFault::Refused) => return Err("connection reset by peer".into()),
            Some(CallFault::CutAfter | CallFault::SilentAfter | CallFault::Delay(_)) | None => {}
        }
        let answer = self.server.call(request).await;
        if last {
            self.gate.cut();
            return pending().await;
        }
        match fault {
            Some(CallFault::CutAfter) => {
                return Err("connection closed before message completed".into());
            }
            Some(CallFault::SilentAfter) => return pending().await,
            _ => {}
        }
        Ok(answer?.map(|body| match body {
            AnswerBody::Frames(inner) => {
                frames::faulty(inner, &self.actor, self.gate.clone(), self.injector.clone())
            }
            whole @ AnswerBody::Whole(_) => whole,
        }))
    }
}

fn refused(refusal: &Refusal, retry_after: Option<u32>) -> Result<Response<AnswerBody>, BoxError> {
    let mut status = refusal.status();
    let mut answer = Response::builder()
        .status(refusal.code)
        .header(hyper::header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        status["details"] = serde_json::json!({ "retryAfterSeconds": seconds });
        answer = answer.header(hyper::header::RETRY_AFTER, seconds);
    }
    Ok(answer.body(AnswerBody::whole(status.to_string()))?)
}

/// How long after a lost event a watch is ended at the latest.
pub(super) const LOSS_IS_NOTICED_WITHIN: Duration = Duration::from_secs(60);
