//! The query API, in the forms of Prometheus.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use hyper::Method;
use jiff::Timestamp;
use promql_parser::label::Matcher;
use promql_parser::parser::Expr;
use serde_json::{Value as Json, json};

use super::Prometheus;
use super::answer::{Answer, evaluated, refused, succeeded};
use super::evaluate::{Failure, Labels};
use super::plan::matches;
use crate::rules::promql;

/// A request, with its parameters from the address and the form together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryRequest {
    /// GET or POST.
    pub method: Method,
    /// The path, without the prefix of the server.
    pub path: String,
    /// Parameters in the order in which they came.
    pub parameters: Vec<(String, String)>,
}

impl QueryRequest {
    /// Reads the parameters out of an address and a form.
    #[must_use]
    pub fn new(method: Method, path: &str, query: &str, form: &[u8]) -> Self {
        let mut parameters = Vec::new();
        for encoded in [form, query.as_bytes()] {
            let pairs = form_urlencoded::parse(encoded).filter(|(name, _)| !name.is_empty());
            parameters.extend(pairs.map(|(a, b)| (a.into_owned(), b.into_owned())));
        }
        Self {
            method,
            path: path.to_owned(),
            parameters,
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().filter(|(known, _)| known == name);
        found
            .next()
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

impl Prometheus {
    /// Answers a request of the HTTP API: status and body. Everything but a few plain texts is JSON.
    #[must_use]
    pub fn answer(&self, request: &QueryRequest) -> Answer {
        let path = request.path.as_str();
        let known = matches!(request.method, Method::GET | Method::POST);
        match path.strip_prefix("/api/v1/") {
            _ if !known => (405, b"Method Not Allowed\n".to_vec()),
            None => match path {
                "/-/ready" => (200, b"Prometheus Server is Ready.\n".to_vec()),
                "/-/healthy" => (200, b"Prometheus Server is Healthy.\n".to_vec()),
                _ => not_found(),
            },
            Some(endpoint) => self
                .api(endpoint, request)
                .unwrap_or_else(|failure| refused(&failure)),
        }
    }

    fn api(&self, endpoint: &str, request: &QueryRequest) -> Result<Answer, Failure> {
        match endpoint {
            "query" => {
                timeout(request)?;
                let at = self.time(request, "time")?;
                Ok(evaluated(
                    &self.shared.evaluator.instant(expr(request)?, at)?,
                ))
            }
            "query_range" => {
                timeout(request)?;
                let [start, end] = ["start", "end"].map(|name| {
                    request.get(name).map_or_else(
                        || Err(invalid(name, "cannot parse \"\" to a valid timestamp")),
                        |text| time(name, text),
                    )
                });
                let step = request.get("step").unwrap_or_default();
                let step = duration("step", step)?;
                let window = (start?, end?);
                Ok(evaluated(&self.shared.evaluator.range(
                    expr(request)?,
                    window,
                    step,
                )?))
            }
            "parse_query" => {
                let plan = self.shared.evaluator.plan(expr(request)?)?;
                Ok(succeeded(&json!({ "type": plan.node_type() })))
            }
            "series" => {
                if !request.parameters.iter().any(|(name, _)| name == "match[]") {
                    return Err(Failure::BadData("no match[] parameter provided".to_owned()));
                }
                Ok(succeeded(&json!(self.series(request)?)))
            }
            "labels" => {
                let names: BTreeSet<String> = self
                    .series(request)?
                    .into_iter()
                    .flat_map(Labels::into_keys)
                    .collect();
                Ok(succeeded(&json!(names)))
            }
            "status/buildinfo" => Ok(succeeded(&json!({
                "version": "3.0.0",
                "revision": "simulated",
                "branch": "",
                "buildUser": "",
                "buildDate": "",
                "goVersion": "",
            }))),
            "rules" => Ok(succeeded(&json!({ "groups": [] }))),
            "alerts" => Ok(succeeded(&json!({ "alerts": [] }))),
            "targets" => Ok(succeeded(&self.targets())),
            _ => match endpoint
                .strip_prefix("label/")
                .and_then(|rest| rest.strip_suffix("/values"))
            {
                Some(name) => {
                    let mut series = self.series(request)?;
                    let values: BTreeSet<String> = series
                        .iter_mut()
                        .filter_map(|labels| labels.remove(name))
                        .collect();
                    Ok(succeeded(&json!(values)))
                }
                None => Ok(not_found()),
            },
        }
    }

    fn time(&self, request: &QueryRequest, name: &str) -> Result<i64, Failure> {
        match request.get(name) {
            None => Ok(self.shared.clock.now().as_millisecond()),
            Some(text) => time(name, text),
        }
    }

    /// The series that the request asks for; those without a sample in its time are left out.
    fn series(&self, request: &QueryRequest) -> Result<Vec<Labels>, Failure> {
        let chosen = |name| request.get(name).map(|text| time(name, text)).transpose();
        let (start, end) = (chosen("start")?, chosen("end")?);
        let window = (start.map_or(i64::MIN, |at| at - 1), end.unwrap_or(i64::MAX));
        let selectors: Vec<Vec<Matcher>> = (request.parameters.iter())
            .filter(|(name, _)| name == "match[]")
            .map(|(_, text)| selector(text))
            .collect::<Result<_, _>>()?;
        let database = self
            .shared
            .database
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let all = database.all().filter(|(id, _)| {
            (selectors.is_empty()
                || selectors
                    .iter()
                    .any(|matchers| matches(&database, *id, matchers)))
                && database.latest(*id, window.0, window.1).is_some()
        });
        let mut found: Vec<Labels> = all
            .map(|(_, series)| {
                let labels = series.labels.iter();
                let mut labels: Labels = labels
                    .map(|label| (label.name.clone(), label.value.clone()))
                    .collect();
                labels.insert("__name__".to_owned(), series.name.to_string());
                labels
            })
            .collect();
        found.sort();
        Ok(found)
    }

    fn targets(&self) -> Json {
        let targets = self
            .shared
            .targets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let active: Vec<Json> = (targets.iter())
            .map(|target| {
                let (job, instance) = target.name();
                let (health, error) = match &target.health {
                    None => ("unknown", ""),
                    Some(Ok(())) => ("up", ""),
                    Some(Err(error)) => ("down", error.as_str()),
                };
                json!({
                    "labels": { "job": job, "instance": instance },
                    "scrapePool": job,
                    "health": health,
                    "lastError": error,
                })
            })
            .collect();
        json!({ "activeTargets": active, "droppedTargets": [] })
    }
}

fn expr(request: &QueryRequest) -> Result<&str, Failure> {
    let text = request.get("query");
    text.ok_or_else(|| {
        invalid(
            "query",
            "unknown position: parse error: no expression found in input",
        )
    })
}

fn invalid(name: &str, what: &str) -> Failure {
    Failure::BadData(format!("invalid parameter \"{name}\": {what}"))
}

fn timeout(request: &QueryRequest) -> Result<(), Failure> {
    request
        .get("timeout")
        .map_or(Ok(()), |text| duration("timeout", text).map(drop))
}

#[allow(clippy::cast_possible_truncation)]
fn rounded(name: &str, seconds: f64, text: &str) -> Result<i64, Failure> {
    let milliseconds = (seconds * 1000.0).round();
    if milliseconds.abs() > 2.0_f64.powi(53) || milliseconds.is_nan() {
        return Err(invalid(
            name,
            &format!("cannot parse \"{text}\": it is out of range"),
        ));
    }
    Ok(milliseconds as i64)
}

/// Seconds since 1970, or a date and time.
fn time(name: &str, text: &str) -> Result<i64, Failure> {
    if let Ok(seconds) = text.parse() {
        return rounded(name, seconds, text);
    }
    let parsed: Result<Timestamp, _> = text.parse();
    parsed.map(Timestamp::as_millisecond).map_err(|_| {
        invalid(
            name,
            &format!("cannot parse \"{text}\" to a valid timestamp"),
        )
    })
}

/// Seconds, or a duration as in PromQL.
fn duration(name: &str, text: &str) -> Result<i64, Failure> {
    if let Ok(seconds) = text.parse() {
        return rounded(name, seconds, text);
    }
    // Clients say this in each request, and the reader of durations takes its time.
    let milliseconds = text.strip_suffix("ms").and_then(|n| n.parse::<u32>().ok());
    if let Some(milliseconds) = milliseconds {
        return Ok(milliseconds.into());
    }
    let parsed = promql_parser::util::parse_duration(text).ok();
    parsed
        .and_then(|duration| i64::try_from(duration.as_millis()).ok())
        .ok_or_else(|| {
            invalid(
                name,
                &format!("cannot parse \"{text}\" to a valid duration"),
            )
        })
}

fn selector(text: &str) -> Result<Vec<Matcher>, Failure> {
    let bad = |what: &str| invalid("match[]", what);
    match promql::parse(text).map_err(|error| bad(&format!("parse error: {error}")))? {
        Expr::VectorSelector(selector) => {
            let mut matchers = selector.matchers.matchers;
            if let Some(name) = selector.name {
                let op = promql_parser::label::MatchOp::Equal;
                matchers.push(Matcher {
                    op,
                    name: "__name__".to_owned(),
                    value: name,
                });
            }
            Ok(matchers)
        }
        _ => Err(bad("parse error: it is no selector")),
    }
}

fn not_found() -> Answer {
    (404, b"404 page not found\n".to_vec())
}
