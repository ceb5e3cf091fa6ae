//! stub
use super::*;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
pub struct Metrics;
impl Metrics {
    pub fn register(_: &mut prometheus_client::registry::Registry) -> Self {
        Self
    }
}
pub async fn run(
    _: &Arc<context::Context>,
    _: &crate::prometheus::client::Client,
    _: &Metrics,
    _: Arc<open::Opener>,
    t: CancellationToken,
) {
    t.cancelled().await
}
