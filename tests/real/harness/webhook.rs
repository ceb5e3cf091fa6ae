//! A receiver of Alertmanager's notifications, and a page of metrics that a
//! test writes itself.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use std::collections::BTreeMap;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::wait::eventually;

/// A loopback server that keeps what Alertmanager posts to it.
pub(crate) struct Webhook {
    server: MockServer,
}

/// One notification.
#[derive(Debug, Deserialize)]
pub(crate) struct Notification {
    /// The alerts of the group.
    pub(crate) alerts: Vec<Alert>,
}

/// One alert of a notification.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Alert {
    /// `firing` or `resolved`.
    pub(crate) status: String,
    /// Labels, `alertname` among them.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations, already expanded.
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Webhook {
    /// Starts the server; it accepts everything.
    pub(crate) async fn start() -> Self {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .and(path("/alerts"))
            .respond_with(ResponseTemplate::new(200))
            .mount(&server)
            .await;
        Self { server }
    }

    /// Where to post.
    pub(crate) fn url(&self) -> String {
        format!("{}/alerts", self.server.uri())
    }

    /// All alerts delivered so far, oldest first.
    pub(crate) async fn alerts(&self) -> Vec<Alert> {
        let requests = self.server.received_requests().await.unwrap_or_default();
        requests
            .iter()
            .flat_map(|request| {
                serde_json::from_slice::<Notification>(&request.body)
                    .unwrap_or_else(|error| panic!("a notification: {error}"))
                    .alerts
            })
            .collect()
    }

    /// Waits until the alert `name` has been delivered as firing.
    pub(crate) async fn firing(&self, within: Duration, name: &str) -> Alert {
        eventually(
            within,
            &format!("the alert {name} to be delivered"),
            async || {
                let alerts = self.alerts().await;
                alerts
                    .iter()
                    .find(|alert| {
                        alert.status == "firing"
                            && alert.labels.get("alertname").is_some_and(|is| is == name)
                    })
                    .cloned()
                    .ok_or_else(|| format!("delivered: {alerts:?}"))
            },
        )
        .await
    }
}

/// A page at `/metrics` with the text that a test gives it.
pub(crate) struct MetricsPage {
    server: MockServer,
}

impl MetricsPage {
    /// Starts the server with `text` in Prometheus' text format.
    pub(crate) async fn start(text: &str) -> Self {
        let page = Self {
            server: MockServer::start().await,
        };
        page.set(text).await;
        page
    }

    /// Shows `text` from now on.
    pub(crate) async fn set(&self, text: &str) {
        self.server.reset().await;
        Mock::given(method("GET"))
            .and(path("/metrics"))
            .respond_with(
                ResponseTemplate::new(200)
                    .set_body_raw(text.to_owned(), "text/plain; version=0.0.4"),
            )
            .mount(&self.server)
            .await;
    }

    /// Where to scrape.
    pub(crate) fn address(&self) -> SocketAddr {
        *self.server.address()
    }
}
