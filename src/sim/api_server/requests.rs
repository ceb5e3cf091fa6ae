//! From a request to its answer.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Response};
use serde_json::{Value, json};

use super::ApiServer;
use super::body::AnswerBody;
use super::delete::{Deleted, Deletion};
use super::discovery;
use super::history::{Call, Verb};
use super::list::Page;
use super::patch::Patch;
use super::refusal::Refusal;
use super::resources::{PODS, Resource, SERVICES};
use super::route::{Query, Route, Target, route, verb};
use super::selector::Selection;
use super::state::{Access, Entry, Key, Note, text_of};
use super::table;
use super::watching::{Show, Wanted};

/// A request whose body has been read.
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// An answer that is good.
enum Answer {
    Object(u16, Arc<Entry>),
    Plain(u16, Value),
    List(Page),
    Watch(Box<Wanted>),
}

impl ApiServer {
    /// Answers one request.
    pub(super) fn answer(&self, actor: &Arc<str>, asked: &Asked) -> Response<AnswerBody> {
        let query = Query::parse(asked.query.as_deref());
        let body = parsed_body(&asked.body);
        let (target, verb) = match route(&asked.path) {
            Route::Objects(target) => {
                let verb = verb(&asked.method, &target, &query);
                (Some(target), verb)
            }
            Route::Other => (None, Verb::Other),
        };
        let dry_run = query.get("dryRun") == Some("All")
            || body.as_ref().is_some_and(|b| names_dry_run(b))
            || body
                .as_ref()
                .is_some_and(|b| names_dry_run(&b["deleteOptions"]));
        let access = Access {
            actor: actor.clone(),
            verb,
            subresource: None,
            dry_run,
        };
        let result = match &target {
            Some(target) => self.objects(access, target, verb, &query, asked, body.as_deref()),
            None => discovery::answer(&asked.path)
                .map(|value| Answer::Plain(200, value))
                .ok_or_else(|| {
                    Refusal::new(
                        404,
                        "NotFound",
                        "the server could not find the requested resource",
                    )
                }),
        };
        let as_table = table::is_wanted(&asked.headers);
        let response = self.response(result, target.as_ref(), &query, as_table);
        let call = || Call {
            at: self.now(),
            actor: actor.clone(),
            method: asked.method.to_string(),
            path: match &asked.query {
                Some(query) => format!("{}?{query}", asked.path),
                None => asked.path.clone(),
            },
            verb,
            resource: target.as_ref().map(|t| t.resource),
            namespace: target.as_ref().and_then(|t| t.namespace.clone()),
            name: target.as_ref().and_then(|t| t.name.clone()),
            subresource: target.as_ref().and_then(|t| t.subresource.clone()),
            dry_run,
            code: response.status().as_u16(),
            body: body.clone(),
        };
        self.write(|state| {
            if state.observed {
                state.notes.push_back(Note::Called(Box::new(call())));
            }
        });
        response
    }

    fn objects(
        &self,
        access: Access,
        target: &Target,
        verb: Verb,
        query: &Query,
        asked: &Asked,
        body: Option<&Value>,
    ) -> Result<Answer, Refusal> {
        let resource = target.resource;
        let subresource = match target.subresource.as_deref() {
            None => None,
            Some("status") if resource.status => Some("status"),
            Some(name) => match resource.subresources.iter().find(|s| **s == name) {
                Some(found) => Some(*found),
                None => {
                    return Err(Refusal::new(
                        404,
                        "NotFound",
                        "the server could not find the requested resource",
                    ));
                }
            },
        };
        let access = Access {
            subresource,
            ..access
        };
        let needs_body = || body.ok_or_else(|| Refusal::bad_request("the body is not JSON"));
        let namespace = target.namespace.as_deref();
        let Some(name) = &target.name else {
            return match verb {
                Verb::List => self.list(target, query).map(Answer::List),
                Verb::Watch => self.wanted_watch(target, query, asked),
                Verb::Create => {
                    if resource.namespaced && namespace.is_none() {
                        return Err(not_allowed());
                    }
                    let object = needs_body()?.clone();
                    let made =
                        self.write(|state| state.create(&access, resource, namespace, object))?;
                    Ok(Answer::Object(201, made))
                }
                Verb::Delete => self.delete_all(&access, target, query, body),
                _ => Err(not_allowed()),
            };
        };
        let key: Key = (namespace.unwrap_or_default().to_owned(), name.clone());
        match (verb, subresource) {
            (Verb::Create, Some("eviction")) => {
                let eviction = needs_body()?;
                self.write(|state| state.evict(&access, &key, eviction))?;
                Ok(Answer::Plain(201, success()))
            }
            (Verb::Create, Some("binding")) => {
                let node = needs_body()?["target"]["name"].as_str().unwrap_or_default();
                self.write(|state| state.bind(&access, &key, node))?;
                Ok(Answer::Plain(201, success()))
            }
            (_, Some("eviction" | "binding")) => Err(not_allowed()),
            (_, Some("scale")) => {
                let scale = self.scale(&access, resource, &key, verb, asked)?;
                Ok(Answer::Plain(200, scale))
            }
            (Verb::Get, _) => {
                let found = self.read(|state| state.get(resource, &key).cloned());
                let found = found.ok_or_else(|| Refusal::not_found(resource, name))?;
                Ok(Answer::Object(200, found))
            }
            (Verb::Update, _) => {
                let wanted = needs_body()?.clone();
                let changed =
                    self.write(|state| state.update(&access, resource, &key, |_| Ok(wanted)))?;
                Ok(Answer::Object(200, changed))
            }
            (Verb::Patch, _) => self.patch(&access, resource, &key, query, asked),
            (Verb::Delete, None) => {
                let options = deletion_options(query, body);
                let deletion = Deletion::parse(&options)?;
                let deleted =
                    self.write(|state| state.delete(&access, resource, &key, &deletion))?;
                Ok(deleted_answer(resource, name, deleted))
            }
            _ => Err(not_allowed()),
        }
    }

    fn list(&self, target: &Target, query: &Query) -> Result<Page, Refusal> {
        let selection = selection(target.resource, query)?;
        let namespace = target.namespace.as_deref();
        self.read(|state| state.page(target.resource, namespace, &selection, query))
    }

    fn wanted_watch(
        &self,
        target: &Target,
        query: &Query,
        asked: &Asked,
    ) -> Result<Answer, Refusal> {
        let from = match query.get("resourceVersion") {
            None => None,
            Some(version) => Some(self.read(|state| state.revision_of(version))?),
        };
        let resource = target.resource;
        let show: Show = if table::is_wanted(&asked.headers) {
            Arc::new(move |entry| text_of(&table::table(resource, &[&entry.value], &Value::Null)))
        } else {
            Arc::new(move |entry| super::events::shown(resource, entry))
        };
        Ok(Answer::Watch(Box::new(Wanted {
            resource,
            namespace: target.namespace.clone(),
            selection: selection(resource, query)?,
            from,
            initial_events: query.is_true("sendInitialEvents"),
            bookmarks: query.is_true("allowWatchBookmarks"),
            timeout: query
                .number("timeoutSeconds")
                .filter(|s| *s > 0)
                .map(Duration::from_secs),
            show,
        })))
    }

    fn patch(
        &self,
        access: &Access,
        resource: &'static Resource,
        key: &Key,
        query: &Query,
        asked: &Asked,
    ) -> Result<Answer, Refusal> {
        let content_type = asked
            .headers
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        let patch = Patch::parse(resource, content_type, &asked.body)?;
        if let Patch::Apply(applied) = patch {
            let manager = query.get("fieldManager").unwrap_or_default();
            let force = query.is_true("force");
            let (made, entry) =
                self.write(|state| state.apply(access, resource, key, manager, force, applied))?;
            return Ok(Answer::Object(if made { 201 } else { 200 }, entry));
        }
        let changed = self.write(|state| {
            state.update(access, resource, key, |object| patch.applied_to(object))
        })?;
        Ok(Answer::Object(200, changed))
    }

    fn delete_all(
        &self,
        access: &Access,
        target: &Target,
        query: &Query,
        body: Option<&Value>,
    ) -> Result<Answer, Refusal> {
        let deletion = Deletion::parse(&deletion_options(query, body))?;
        let page = self.list(target, query)?;
        for entry in &page.entries {
            let meta = &entry.value["metadata"];
            let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
            let key = (text("namespace"), text("name"));
            match self.write(|state| state.delete(access, target.resource, &key, &deletion)) {
                Err(refusal) if refusal.code != 404 => return Err(refusal),
                _ => {}
            }
        }
        Ok(Answer::List(page))
    }

    fn response(
        &self,
        result: Result<Answer, Refusal>,
        target: Option<&Target>,
        query: &Query,
        as_table: bool,
    ) -> Response<AnswerBody> {
        let resource = target.map(|t| t.resource);
        match (result, resource) {
            (Ok(Answer::Object(code, entry)), Some(resource)) => {
                let text = if as_table {
                    text_of(&table::table(resource, &[&entry.value], &Value::Null))
                } else {
                    super::events::shown(resource, &entry)
                };
                json_response(code, AnswerBody::whole(text))
            }
            (Ok(Answer::List(page)), Some(resource)) => {
                let body = if as_table {
                    let objects: Vec<&Value> = page.entries.iter().map(|e| &*e.value).collect();
                    text_of(&table::table(resource, &objects, &page.meta()))
                } else {
                    list_text(resource, &page)
                };
                let _ = query;
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

fn selection(resource: &Resource, query: &Query) -> Result<Selection, Refusal> {
    let (labels, fields) = (query.get("labelSelector"), query.get("fieldSelector"));
    Selection::parse(resource, labels, fields)
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
        super::events::append(resource, entry, &mut out);
    }
    out.extend_from_slice(b"]}");
    Bytes::from(out)
}

fn parsed_body(body: &Bytes) -> Option<Arc<Value>> {
    if body.is_empty() {
        return None;
    }
    serde_json::from_slice(body).ok().map(Arc::new)
}

fn names_dry_run(options: &Value) -> bool {
    let all = options["dryRun"].as_array();
    all.is_some_and(|all| all.iter().any(|v| v == "All"))
}

/// The options of a deletion come in the body, or in the query.
fn deletion_options(query: &Query, body: Option<&Value>) -> Value {
    let mut options = body.cloned().unwrap_or_else(|| json!({}));
    if body.is_none() {
        if let Some(seconds) = query.get("gracePeriodSeconds") {
            options["gracePeriodSeconds"] =
                seconds.parse::<i64>().map_or(Value::Null, |s| json!(s));
        }
        if let Some(policy) = query.get("propagationPolicy") {
            options["propagationPolicy"] = json!(policy);
        }
    }
    options
}

fn deleted_answer(resource: &Resource, name: &str, deleted: Deleted) -> Answer {
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

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

fn not_allowed() -> Refusal {
    Refusal::new(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )
}

/// The `Accept` header as text.
pub(super) fn accepted(headers: &HeaderMap) -> &str {
    let header = headers.get(ACCEPT).and_then(|v| v.to_str().ok());
    header.unwrap_or_default()
}
