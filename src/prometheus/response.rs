//! Reading the JSON of the query API.

use jiff::Timestamp;
use serde::Deserialize;

use super::error::QueryError;
use crate::rules::answer::{Answer, Labels, ResultType, Sample, SampleValue};

/// One series of a range query.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The labels of the series.
    pub labels: Labels,
    /// Time and value of each step that has a sample.
    pub points: Vec<(Timestamp, SampleValue)>,
}

#[derive(Deserialize)]
struct Envelope {
    status: Status,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default, rename = "errorType")]
    error_type: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    warnings: Option<Vec<String>>,
    #[serde(default)]
    infos: Option<Vec<String>>,
    /// VictoriaMetrics says here that not every storage node answered.
    #[serde(default, rename = "isPartial")]
    is_partial: bool,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Status {
    Success,
    Error,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    result_type: String,
    result: serde_json::Value,
}

#[derive(Deserialize)]
struct VectorElement {
    metric: Labels,
    #[serde(default)]
    value: Option<Point>,
    #[serde(default)]
    histogram: Option<(f64, serde::de::IgnoredAny)>,
}

#[derive(Deserialize)]
struct MatrixElement {
    metric: Labels,
    #[serde(default)]
    values: Vec<Point>,
    #[serde(default)]
    histograms: Vec<(f64, serde::de::IgnoredAny)>,
}

/// Seconds, and the value as text.
#[derive(Deserialize)]
struct Point(f64, String);

impl Point {
    fn read(&self) -> Result<(Timestamp, SampleValue), QueryError> {
        Ok((time(self.0)?, SampleValue::Float(number(&self.1)?)))
    }
}

fn number(text: &str) -> Result<f64, QueryError> {
    // Prometheus writes +Inf, -Inf and NaN; Rust reads all three.
    text.parse()
        .map_err(|_| QueryError::BadAnswer(format!("`{text}` is not a sample value")))
}

fn time(seconds: f64) -> Result<Timestamp, QueryError> {
    // Timestamps have millisecond precision in Prometheus.
    let milliseconds = (seconds * 1000.0).round();
    if !milliseconds.is_finite() || milliseconds.abs() > 2.0_f64.powi(53) {
        return Err(QueryError::BadAnswer(format!("{seconds} is not a time")));
    }
    #[allow(clippy::cast_possible_truncation)]
    Timestamp::from_millisecond(milliseconds as i64)
        .map_err(|_| QueryError::BadAnswer(format!("{seconds} is not a time")))
}

fn bad(error: serde_json::Error) -> QueryError {
    QueryError::BadAnswer(error.to_string())
}

struct Complete {
    data: Data,
    infos: Vec<String>,
}

fn open(body: &[u8]) -> Result<Complete, QueryError> {
    let envelope: Envelope = serde_json::from_slice(body).map_err(bad)?;
    if envelope.status == Status::Error {
        return Err(QueryError::BadAnswer(format!(
            "an error with status 200: {}",
            envelope.error.unwrap_or_default()
        )));
    }
    let warnings = envelope.warnings.unwrap_or_default();
    if !warnings.is_empty() {
        return Err(QueryError::Partial(warnings.join("; ")));
    }
    if envelope.is_partial {
        return Err(QueryError::Partial("isPartial is set".to_owned()));
    }
    Ok(Complete {
        data: envelope
            .data
            .ok_or_else(|| QueryError::BadAnswer("there is no data".to_owned()))?,
        infos: envelope.infos.unwrap_or_default(),
    })
}

/// Reads the body of a successful instant query.
///
/// # Errors
///
/// When it is partial, not in the form of the query API, or neither a vector nor a scalar.
pub fn instant(body: &[u8]) -> Result<Answer, QueryError> {
    let complete = open(body)?;
    let (result_type, samples) = match complete.data.result_type.as_str() {
        "vector" => {
            let elements: Vec<VectorElement> =
                serde_json::from_value(complete.data.result).map_err(bad)?;
            let samples = elements
                .into_iter()
                .map(|element| {
                    let (at, value) = match (element.value, element.histogram) {
                        (Some(point), None) => point.read()?,
                        (None, Some((seconds, _))) => (time(seconds)?, SampleValue::Histogram),
                        _ => {
                            return Err(QueryError::BadAnswer(
                                "a series has not exactly one of value and histogram".to_owned(),
                            ));
                        }
                    };
                    Ok(Sample {
                        labels: element.metric,
                        value,
                        at,
                    })
                })
                .collect::<Result<_, _>>()?;
            (ResultType::Vector, samples)
        }
        "scalar" => {
            let point: Point = serde_json::from_value(complete.data.result).map_err(bad)?;
            let (at, value) = point.read()?;
            (
                ResultType::Scalar,
                vec![Sample {
                    labels: Labels::new(),
                    value,
                    at,
                }],
            )
        }
        other => return Err(QueryError::WrongResultType(other.to_owned())),
    };
    Ok(Answer {
        result_type,
        samples,
        infos: complete.infos,
    })
}

/// Reads the body of a successful range query.
///
/// # Errors
///
/// When it is partial, not in the form of the query API, or not a range vector.
pub fn range(body: &[u8]) -> Result<Vec<Series>, QueryError> {
    let complete = open(body)?;
    if complete.data.result_type != "matrix" {
        return Err(QueryError::WrongResultType(complete.data.result_type));
    }
    let elements: Vec<MatrixElement> = serde_json::from_value(complete.data.result).map_err(bad)?;
    elements
        .into_iter()
        .map(|element| {
            let mut points = element
                .values
                .iter()
                .map(Point::read)
                .collect::<Result<Vec<_>, _>>()?;
            for (seconds, _) in &element.histograms {
                points.push((time(*seconds)?, SampleValue::Histogram));
            }
            points.sort_by_key(|(at, _)| *at);
            Ok(Series {
                labels: element.metric,
                points,
            })
        })
        .collect()
}

/// Reads an answer with a status that is not 200.
pub fn failure(status: u16, body: &[u8]) -> QueryError {
    let envelope = serde_json::from_slice::<Envelope>(body).ok();
    let message = match &envelope {
        Some(envelope) => envelope.error.clone().unwrap_or_default(),
        // Proxies and a starting server answer in plain text or HTML.
        None => String::from_utf8_lossy(body)
            .chars()
            .filter(|letter| !letter.is_control())
            .take(200)
            .collect(),
    };
    let error_type = envelope.and_then(|envelope| envelope.error_type);
    match (status, error_type.as_deref()) {
        (401 | 403, _) => QueryError::Refused { status, message },
        (_, Some("timeout")) => QueryError::Unavailable {
            status,
            message: format!("the server gave up: {message}"),
        },
        (400, Some(_)) => QueryError::BadData(message),
        (422, Some(_)) => QueryError::Execution(message),
        (429 | 499 | 500..=599, _) => QueryError::Unavailable { status, message },
        _ => QueryError::BadAnswer(format!("status {status}: {message}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_vectors_scalars_and_special_values() {
        let body = br#"{"status":"success","infos":["i"],"data":{"resultType":"vector","result":[
            {"metric":{"__name__":"x","node":"a"},"value":[1700000000.123,"+Inf"]},
            {"metric":{},"value":[1700000000,"NaN"]},
            {"metric":{"h":"1"},"histogram":[1700000000,{"count":"3","sum":"1","buckets":[[0,"1","2","3"]]}]}]}}"#;
        let answer = instant(body).unwrap();
        assert_eq!(answer.samples[0].value, SampleValue::Float(f64::INFINITY));
        assert_eq!(answer.samples[0].at.as_millisecond(), 1_700_000_000_123);
        assert_eq!(answer.samples[1].number(), None);
        assert_eq!(answer.samples[2].value, SampleValue::Histogram);
        assert_eq!(answer.infos, ["i"]);
        let scalar = br#"{"status":"success","data":{"resultType":"scalar","result":[1,"-2.5"]}}"#;
        assert_eq!(instant(scalar).unwrap().samples[0].number(), Some(-2.5));
    }

    #[test]
    fn nonsense_is_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"status":"success"}"#,
            r#"{"status":"error","error":"x"}"#,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"abc"]}]}}"#,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}"#,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1e300,"1"]}]}}"#,
        ] {
            assert!(
                matches!(instant(body.as_bytes()), Err(QueryError::BadAnswer(_))),
                "{body}"
            );
        }
        let matrix = br#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
        assert!(matches!(
            instant(matrix),
            Err(QueryError::WrongResultType(_))
        ));
        assert!(range(matrix).unwrap().is_empty());
    }
}
