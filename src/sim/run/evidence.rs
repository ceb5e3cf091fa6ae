//! Tells the checks of promises what a controller was answered by Prometheus.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use hyper::Response;
use serde::Deserialize;

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

/// A point: when, and the value as a text.
type Point = (f64, String);

#[derive(Deserialize)]
struct Document {
    status: String,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default, rename = "isPartial")]
    is_partial: bool,
    data: Data,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Scalar(Point),
    Vector(Vec<One>),
}

#[derive(Deserialize)]
struct One {
    metric: Series,
    value: Point,
}

fn read(answer: &Response<Vec<u8>>) -> Option<Answer> {
    if answer.status() != 200 {
        return None;
    }
    let document: Document = serde_json::from_slice(answer.body()).ok()?;
    if document.status != "success" || !document.warnings.is_empty() || document.is_partial {
        return None;
    }
    let is_number = |point: &Point| {
        let number: Option<f64> = point.1.parse().ok();
        number.is_some_and(|number| !number.is_nan())
    };
    match document.data {
        Data::Scalar(point) => is_number(&point).then(|| Answer::Sound(vec![Series::new()])),
        Data::Vector(all) => {
            let sound = all.iter().all(|one| is_number(&one.value));
            sound.then(|| Answer::Sound(all.into_iter().map(|one| one.metric).collect()))
        }
    }
}
