//! Tells the checks of promises what a controller was answered by Prometheus.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use hyper::Response;
use serde_json::Value;

use crate::clock::Clock;
use crate::prometheus::client::Exchange;
use crate::sim::promises::{Answer, Series, Shared};

/// An exchange that is listened to.
pub(super) struct Told {
    pub(super) inner: Arc<dyn Exchange>,
    pub(super) actor: String,
    pub(super) clock: Clock,
    pub(super) promises: Shared,
}

impl Exchange for Told {
    fn exchange(
        &self,
        request: reqwest::Request,
    ) -> BoxFuture<'_, Result<Response<Vec<u8>>, String>> {
        async move {
            let query = query(&request);
            let answer = self.inner.exchange(request).await;
            if let Some(query) = query {
                let read = answer
                    .as_ref()
                    .ok()
                    .and_then(read)
                    .unwrap_or(Answer::Unsound);
                let now = self.clock.now();
                self.promises
                    .with(|p| p.evidence(now, &self.actor, &query, read));
            }
            answer
        }
        .boxed()
    }
}

/// The expression of an instant query.
fn query(request: &reqwest::Request) -> Option<String> {
    if !request.url().path().ends_with("/api/v1/query") {
        return None;
    }
    let form = request.body().and_then(reqwest::Body::as_bytes);
    let in_address = request.url().query().unwrap_or_default().as_bytes();
    let all = [form.unwrap_or_default(), in_address].map(form_urlencoded::parse);
    let query = all.into_iter().flatten().find(|(name, _)| name == "query");
    query.map(|(_, value)| value.into_owned())
}

fn read(answer: &Response<Vec<u8>>) -> Option<Answer> {
    if answer.status() != 200 {
        return None;
    }
    let document: Value = serde_json::from_slice(answer.body()).ok()?;
    let warned = document["warnings"]
        .as_array()
        .is_some_and(|w| !w.is_empty());
    if document["status"] != "success" || warned || document["isPartial"] == true {
        return None;
    }
    let data = &document["data"];
    let is_number = |point: &Value| {
        let text = point[1].as_str()?;
        let number: f64 = text.parse().ok()?;
        (!number.is_nan()).then_some(())
    };
    if data["resultType"] == "scalar" {
        is_number(&data["result"])?;
        return Some(Answer::Sound(vec![Series::new()]));
    }
    let mut series = Vec::new();
    for one in data["result"].as_array()? {
        is_number(&one["value"])?;
        series.push(serde_json::from_value(one["metric"].clone()).ok()?);
    }
    Some(Answer::Sound(series))
}
