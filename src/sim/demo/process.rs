//! A controller as a process that can die: from one moment on none of its calls passes, and none is answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper::{Request, Response};
use kube::client::Body;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

use crate::prometheus::client::Exchange;

/// The connections of one controller.
#[derive(Clone, Default)]
pub(super) struct Connections {
    cut: Arc<AtomicBool>,
    /// Cut at the first eviction that is accepted: the answer does not arrive any more.
    cut_at_eviction: Arc<AtomicBool>,
    /// No answer of Prometheus arrives.
    prometheus_down: Arc<AtomicBool>,
    /// Ends the tasks of the process.
    pub stop: CancellationToken,
}

impl Connections {
    /// The process dies once its next eviction is accepted.
    pub fn die_at_next_eviction(&self) {
        self.cut_at_eviction.store(true, Ordering::Relaxed);
    }

    /// Prometheus answers no more, or again.
    pub fn prometheus_down(&self, down: bool) {
        self.prometheus_down.store(down, Ordering::Relaxed);
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    fn answered(&self, is_eviction: bool, accepted: bool) {
        if is_eviction && accepted && self.cut_at_eviction.swap(false, Ordering::Relaxed) {
            self.cut.store(true, Ordering::Relaxed);
            self.stop.cancel();
        }
    }
}

/// The way to the Kubernetes API.
#[derive(Clone)]
pub(super) struct Api<S> {
    pub inner: S,
    pub connections: Connections,
}

impl<S, A> Service<Request<Body>> for Api<S>
where
    S: Service<Request<Body>, Response = Response<A>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    A: Send + 'static,
{
    type Response = Response<A>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut inner, connections) = (self.inner.clone(), self.connections.clone());
        Box::pin(async move {
            if connections.is_cut() {
                return std::future::pending().await;
            }
            let is_eviction = request.uri().path().ends_with("/eviction");
            let answer = inner.call(request).await?;
            connections.answered(is_eviction, answer.status().is_success());
            if connections.is_cut() {
                return std::future::pending().await;
            }
            Ok(answer)
        })
    }
}

/// The way to Prometheus.
pub(super) struct Queries {
    pub inner: Arc<dyn Exchange>,
    pub connections: Connections,
}

impl Exchange for Queries {
    fn exchange(
        &self,
        request: reqwest::Request,
    ) -> BoxFuture<'_, Result<Response<Vec<u8>>, String>> {
        if self.connections.is_cut() {
            return Box::pin(std::future::pending());
        }
        if self.connections.prometheus_down.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err("connection refused".to_owned())));
        }
        self.inner.exchange(request)
    }
}
