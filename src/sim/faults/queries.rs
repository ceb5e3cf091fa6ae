//! Prometheus behind a bad line, or on a bad day.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, pending};
use hyper::Response;
use serde_json::{Value, json};

use super::gate::Gate;
use super::injector::Injector;
use super::kinds::QueryFault;
use crate::prometheus::client::Exchange;

struct FaultyExchange {
    inner: Arc<dyn Exchange>,
    actor: String,
    gate: Gate,
    injector: Injector,
}

impl Injector {
    /// The way of one process to Prometheus.
    #[must_use]
    pub fn exchange(
        &self,
        actor: &str,
        inner: Arc<dyn Exchange>,
        gate: &Gate,
    ) -> Arc<dyn Exchange> {
        Arc::new(FaultyExchange {
            inner,
            actor: actor.to_owned(),
            gate: gate.clone(),
            injector: self.clone(),
        })
    }
}

impl Exchange for FaultyExchange {
    fn exchange(
        &self,
        request: reqwest::Request,
    ) -> BoxFuture<'_, Result<Response<Vec<u8>>, String>> {
        async move {
            tokio::select! {
                biased;
                () = self.gate.until_cut() => pending().await,
                answer = self.answer(request) => answer,
            }
        }
        .boxed()
    }
}

impl FaultyExchange {
    async fn answer(&self, mut request: reqwest::Request) -> Result<Response<Vec<u8>>, String> {
        let Some(fault) = self.injector.for_query(&self.actor) else {
            return self.inner.exchange(request).await;
        };
        let refused = |code: u16, kind: &str, error: &str| {
            let body = json!({"status": "error", "errorType": kind, "error": error});
            made(code, body.to_string().into_bytes())
        };
        match fault {
            QueryFault::Refused => return Err("connection refused".to_owned()),
            QueryFault::NoAnswer => return pending().await,
            QueryFault::Internal => return refused(500, "internal", "opening storage failed"),
            QueryFault::Unavailable => return made(503, b"Service Unavailable".to_vec()),
            QueryFault::Garbage => {
                return made(200, b"<html><body>It works!</body></html>".to_vec());
            }
            QueryFault::Lagging(seconds) => lag(&mut request, seconds),
            QueryFault::Warning
            | QueryFault::Partial
            | QueryFault::NotANumber
            | QueryFault::Empty
            | QueryFault::CutShort => {}
        }
        let answer = self.inner.exchange(request).await?;
        if answer.status() != 200 {
            return Ok(answer);
        }
        // The head stays as it was: it says when Prometheus answered.
        let (head, mut body) = answer.into_parts();
        if fault == QueryFault::CutShort {
            body.truncate(body.len() / 2);
        } else if let Ok(mut document) = serde_json::from_slice::<Value>(&body) {
            spoil(&mut document, fault);
            body = document.to_string().into_bytes();
        }
        Ok(Response::from_parts(head, body))
    }
}

fn made(code: u16, body: Vec<u8>) -> Result<Response<Vec<u8>>, String> {
    let answer = Response::builder().status(code).body(body);
    answer.map_err(|error| error.to_string())
}

/// Leaves nothing of a result that may be empty: a scalar always has a value.
fn empty(document: &mut Value) {
    let data = &mut document["data"];
    if data["result"].is_array() && data["resultType"] != "scalar" {
        data["result"] = json!([]);
    }
}

/// Changes a whole answer into one that the fault makes of it.
fn spoil(document: &mut Value, fault: QueryFault) {
    match fault {
        QueryFault::Warning => {
            document["warnings"] = json!(["No StoreAPIs matched for this query"]);
        }
        QueryFault::Partial => document["isPartial"] = json!(true),
        QueryFault::Empty => empty(document),
        QueryFault::NotANumber => {
            for pointer in ["value", "values"] {
                for series in document["data"]["result"]
                    .as_array_mut()
                    .into_iter()
                    .flatten()
                {
                    if let Some(points) = series.get_mut(pointer) {
                        not_numbers(points);
                    }
                }
            }
            if document["data"]["resultType"] == "scalar" {
                not_numbers(&mut document["data"]["result"]);
            }
        }
        QueryFault::Lagging(seconds) => shift(&mut document["data"]["result"], f64::from(seconds)),
        _ => {}
    }
}

/// Makes the text of each `[time, text]` NaN.
fn not_numbers(points: &mut Value) {
    match points.as_array_mut().map(Vec::as_mut_slice) {
        Some([time, text]) if time.is_number() => *text = json!("NaN"),
        Some(many) => many.iter_mut().for_each(not_numbers),
        None => {}
    }
}

/// Moves the time of each `[time, text]`: the server believes that the old data is of now.
fn shift(value: &mut Value, seconds: f64) {
    match value {
        Value::Array(items) => {
            if let [time, Value::String(_)] = items.as_mut_slice()
                && let Some(at) = time.as_f64()
            {
                *time = json!(at + seconds);
                return;
            }
            items.iter_mut().for_each(|item| shift(item, seconds));
        }
        Value::Object(fields) => fields.values_mut().for_each(|item| shift(item, seconds)),
        _ => {}
    }
}

/// Asks for an earlier time.
fn lag(request: &mut reqwest::Request, seconds: u32) {
    let Some(form) = request.body().and_then(reqwest::Body::as_bytes) else {
        return;
    };
    let Ok(form) = std::str::from_utf8(form) else {
        return;
    };
    let earlier: Vec<String> = form
        .split('&')
        .map(|field| match field.split_once('=') {
            Some((name @ ("time" | "start" | "end"), at)) => match at.parse::<f64>() {
                Ok(at) => format!("{name}={:.3}", at - f64::from(seconds)),
                Err(_) => field.to_owned(),
            },
            _ => field.to_owned(),
        })
        .collect();
    *request.body_mut() = Some(reqwest::Body::from(earlier.join("&")));
}
