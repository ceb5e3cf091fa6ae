//! From a request to its answer.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Response};
use serde_json::{Value, json};

use super::ApiServer;
use super::admission;
use super::answers::{Answer, deleted_answer, success};
use super::body::AnswerBody;
use super::delete::Deletion;
use super::discovery;
use super::events;
use super::history::{Call, Verb};
use super::list::Page;
use super::patch::Patch;
use super::refusal::Refusal;
use super::resources::{CORE_EVENTS, EVENTS, Resource};
use super::route::{Query, Route, Target, route, verb};
use super::selector::Selection;
use super::state::{Access, Key, Note, text_of};
use super::table::{self, Style};
use super::watching::{Show, Wanted};

/// A request whose body has been read.
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
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
        let call = |at| Call {
            at,
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
                let at = state.clock.now();
                state.notes.push_back(Note::Called(Box::new(call(at))));
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
        let resource = stored_as(target.resource);
        let converted = body
            .filter(|_| target.resource == CORE_EVENTS)
            .map(events::as_stored);
        let body = converted.as_ref().or(body);
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
                    strict(resource, query, &object)?;
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
                strict(resource, query, &wanted)?;
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
            let (clock, whole) = (self.clock(), query.get("includeObject") == Some("Object"));
            Arc::new(move |entry| {
                let now = clock.now();
                let style = Style { now, whole };
                text_of(&table::table(
                    resource,
                    &[&entry.value],
                    &Value::Null,
                    style,
                ))
            })
        } else {
            Arc::new(move |entry| events::shown(resource, entry))
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
}

/// Both groups of events are stored in one form.
fn stored_as(resource: &'static Resource) -> &'static Resource {
    if resource == CORE_EVENTS {
        EVENTS
    } else {
        resource
    }
}

/// Refuses unknown fields where the client wants that; else they are dropped.
fn strict(resource: &Resource, query: &Query, object: &Value) -> Result<(), Refusal> {
    if query.get("fieldValidation") != Some("Strict") {
        return Ok(());
    }
    let unknown = admission::unknown_fields(resource, object);
    if unknown.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = unknown
        .iter()
        .map(|field| format!("unknown field {field:?}"))
        .collect();
    Err(Refusal::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
        resource.kind,
        resource.version,
        resource.kind,
        named.join(", ")
    )))
}

fn selection(resource: &Resource, query: &Query) -> Result<Selection, Refusal> {
    let (labels, fields) = (query.get("labelSelector"), query.get("fieldSelector"));
    Selection::parse(resource, labels, fields)
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
