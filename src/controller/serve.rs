//! The controller's endpoints.

use std::sync::Arc;

use hyper::StatusCode;
use prometheus_client::registry::Registry;

use super::caches::Caches;
use crate::http::{Exposition, Parts, Router, text};

/// `/metrics`, `/healthz`, `/readyz`. Readiness does not depend on being the leader: with two replicas a rollout could
/// never end.
pub fn router(
    registry: Registry,
    caches: Arc<Caches>,
    stopping: tokio_util::sync::CancellationToken,
) -> Router {
    let metrics = Exposition::new(registry);
    Router::new()
        .get("/metrics", move |parts: Parts| {
            let metrics = metrics.clone();
            async move { metrics.answer(&parts.headers).await }
        })
        .get("/healthz", |_| async { text(StatusCode::OK, "ok\n") })
        .get("/readyz", move |_| {
            let answer = match (stopping.is_cancelled(), caches.are_ready()) {
                (true, _) => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
                (false, true) => text(StatusCode::OK, "ok\n"),
                (false, false) => text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the Kubernetes API has not been listed yet\n",
                ),
            };
            async move { answer }
        })
}
