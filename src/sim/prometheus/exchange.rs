//! The way from the product's client to the simulated server, without a connection.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, ready};
use jiff::fmt::rfc2822::DateTimePrinter;

use super::{Prometheus, QueryRequest};
use crate::prometheus::client::Exchange;

struct InProcess {
    prometheus: Prometheus,
}

static PRINTER: DateTimePrinter = DateTimePrinter::new();

impl Prometheus {
    /// The time, as an HTTP server tells it.
    fn date(&self) -> Result<String, jiff::Error> {
        PRINTER.timestamp_to_rfc9110_string(&self.shared.clock.now())
    }

    /// A way for a client to this server. The client's name is there for those who tell clients apart.
    #[must_use]
    pub fn exchange(&self, _client: &str) -> Arc<dyn Exchange> {
        Arc::new(InProcess {
            prometheus: self.clone(),
        })
    }
}

impl Exchange for InProcess {
    fn exchange(
        &self,
        request: reqwest::Request,
    ) -> BoxFuture<'_, Result<hyper::Response<Vec<u8>>, String>> {
        let form = request
            .body()
            .and_then(reqwest::Body::as_bytes)
            .unwrap_or_default();
        let url = request.url();
        let method = request.method().clone();
        let query = QueryRequest::new(method, url.path(), url.query().unwrap_or_default(), form);
        let (status, body) = self.prometheus.answer(&query);
        let mut answer = hyper::Response::builder().status(status);
        if let Ok(date) = self.prometheus.date() {
            answer = answer.header(hyper::header::DATE, date);
        }
        let answer = answer.body(body);
        ready(answer.map_err(|error| error.to_string())).boxed()
    }
}
