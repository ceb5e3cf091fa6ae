//! What an answer looks like on the wire.

use std::sync::Arc;

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::ApiServer;
use super::body::AnswerBody;
use super::delete::Deleted;
use super::events;
use super::list::Page;
use super::refusal::Refusal;
use super::resources::{PODS, Resource, SERVICES};
use super::route::{Query, Target};
use super::state::{Entry, text_of};
use super::table::{self, Style};
use super::watching::Wanted;

/// An answer that is good.
pub(super) enum Answer {
    Object(u16, Arc<Entry>),
    Plain(u16, Value),
    List(Page),
    Watch(Box<Wanted>),
}

impl ApiServer {
    /// Writes an answer.
    pub(super) fn response(
        &self,
        result: Result<Answer, Refusal>,
        target: Option<&Target>,
        query: &Query,
        as_table: bool,
    ) -> Response<AnswerBody> {
        let resource = target.map(|t| t.resource);
        let style = Style {
            now: self.clock().now(),
            whole: query.get("includeObject") == Some("Object"),
        };
        match (result, resource) {
            (Ok(Answer::Object(code, entry)), Some(resource)) => {
                let text = if as_table {
                    text_of(&table::table(
                        resource,
                        &[&entry.value],
                        &Value::Null,
                        style,
                    ))
                } else {
                    events::shown(resource, &entry)
                };
                json_response(code, AnswerBody::whole(text))
            }
            (Ok(Answer::List(page)), Some(resource)) => {
                let body = if as_table {
                    let objects: Vec<&Value> = page.entries.iter().map(|e| &*e.value).collect();
                    text_of(&table::table(resource, &objects, &page.meta(), style))
                } else {
                    list_text(resource, &page)
                };
                json_response(200, AnswerBody::whole(body))
            }
            (Ok(Answer::Watch(wanted)), _) => {
                json_response(200, AnswerBody::frames(self.watch(*wanted)))
            }
            (Ok(Answer::Plain(code, value)), _) => {
                json_response(code, AnswerBody::whole(text_of(&value)))
            }
            (Ok(Answer::Object(code, entry)), None) => {
                json_response(code, AnswerBody::whole(entry.text()))
            }
            (Ok(Answer::List(_)), None) => json_response(404, AnswerBody::whole(Bytes::new())),
            (Err(refusal), _) => refused(&refusal),
        }
    }
}

/// An answer that says no.
pub(super) fn refused(refusal: &Refusal) -> Response<AnswerBody> {
    let text = text_of(&refusal.status());
    let mut response = json_response(refusal.code, AnswerBody::whole(text));
    if let Some(seconds) = refusal.retry_after_seconds() {
        response
            .headers_mut()
            .insert(hyper::header::RETRY_AFTER, seconds.into());
    }
    response
}

fn json_response(code: u16, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() =
        hyper::StatusCode::from_u16(code).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn list_text(resource: &Resource, page: &Page) -> Bytes {
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(resource.kind.as_bytes());
    out.extend_from_slice(b"List\",\"apiVersion\":\"");
    out.extend_from_slice(resource.api_version().as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    out.extend_from_slice(&text_of(&page.meta()));
    out.extend_from_slice(b",\"items\":[");
    for (at, entry) in page.entries.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        events::append(resource, entry, &mut out);
    }
    out.extend_from_slice(b"]}");
    Bytes::from(out)
}

/// What is answered to a removal.
pub(super) fn deleted_answer(resource: &Resource, name: &str, deleted: Deleted) -> Answer {
    match deleted {
        Deleted::Marked(entry) => Answer::Object(200, entry),
        Deleted::Gone(entry) if [PODS, SERVICES].contains(&resource) => Answer::Object(200, entry),
        Deleted::Gone(entry) => {
            let mut status = success();
            status["details"] = json!({
                "name": name,
                "kind": resource.plural,
                "uid": entry.value["metadata"]["uid"],
            });
            if !resource.group.is_empty() {
                status["details"]["group"] = json!(resource.group);
            }
            Answer::Plain(200, status)
        }
    }
}

/// The Status of a success.
pub(super) fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}
