//! The JSON of the query API.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::evaluate::{Failure, Labels, Point, Value};

/// Status and body.
pub(super) type Answer = (u16, Vec<u8>);

/// An error, as an answer.
pub(super) fn refused(failure: &Failure) -> Answer {
    let (status, kind) = match failure {
        Failure::BadData(_) => (400, "bad_data"),
        Failure::Execution(_) => (422, "execution"),
    };
    let body = json!({ "status": "error", "errorType": kind, "error": failure.to_string() });
    (status, body.to_string().into_bytes())
}

/// Data, as an answer.
pub(super) fn succeeded(data: &Json) -> Answer {
    (
        200,
        json!({ "status": "success", "data": data })
            .to_string()
            .into_bytes(),
    )
}

/// A result. It is written by hand, because a time has exactly three decimals or none.
pub(super) fn evaluated(value: &Value) -> Answer {
    let mut body = String::from("{\"status\":\"success\",\"data\":{\"resultType\":\"");
    match value {
        Value::Scalar(point) => {
            body.push_str("scalar\",\"result\":");
            write_point(&mut body, point);
        }
        Value::String(at, text) => {
            body.push_str("string\",\"result\":[");
            write_time(&mut body, *at);
            let _ = write!(body, ",{}]", Json::from(text.as_str()));
        }
        Value::Vector(series) => {
            body.push_str("vector\",\"result\":[");
            for (number, (labels, point)) in series.iter().enumerate() {
                write_metric(&mut body, number, labels);
                body.push_str("\"value\":");
                write_point(&mut body, point);
                body.push('}');
            }
            body.push(']');
        }
        Value::Matrix(series) => {
            body.push_str("matrix\",\"result\":[");
            for (number, (labels, points)) in series.iter().enumerate() {
                write_metric(&mut body, number, labels);
                body.push_str("\"values\":[");
                for (number, point) in points.iter().enumerate() {
                    if number > 0 {
                        body.push(',');
                    }
                    write_point(&mut body, point);
                }
                body.push_str("]}");
            }
            body.push(']');
        }
    }
    body.push_str("}}");
    (200, body.into_bytes())
}

fn write_metric(body: &mut String, number: usize, labels: &Labels) {
    if number > 0 {
        body.push(',');
    }
    body.push_str("{\"metric\":{");
    for (number, (name, value)) in labels.iter().enumerate() {
        if number > 0 {
            body.push(',');
        }
        let _ = write!(
            body,
            "{}:{}",
            Json::from(name.as_str()),
            Json::from(value.as_str())
        );
    }
    body.push_str("},");
}

fn write_point(body: &mut String, point: &Point) {
    body.push('[');
    write_time(body, point.at);
    let value = point.value;
    let _ = if value.is_infinite() {
        write!(body, ",\"{}Inf\"]", if value > 0.0 { '+' } else { '-' })
    } else {
        write!(body, ",\"{value}\"]")
    };
}

fn write_time(body: &mut String, at: i64) {
    let sign = if at < 0 { "-" } else { "" };
    let (seconds, rest) = (at.unsigned_abs() / 1000, at.unsigned_abs() % 1000);
    let _ = if rest == 0 {
        write!(body, "{sign}{seconds}")
    } else {
        write!(body, "{sign}{seconds}.{rest:03}")
    };
}
