//! The server's ways of saying no: each becomes a `Status`.

use serde_json::{Map, Value, json};

use super::resources::Resource;

/// The server says no.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The reason, one word, for machines.
    pub reason: &'static str,
    /// The sentence, for people.
    pub message: String,
    /// `details` of the Status.
    pub details: Value,
}

impl Refusal {
    /// Any refusal, without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    /// There is no such object.
    #[must_use]
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(404, "NotFound", message).of(resource, name)
    }

    /// The object is there already.
    #[must_use]
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).of(resource, name)
    }

    /// Somebody changed the object first, or a precondition does not hold.
    #[must_use]
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.qualified()
        );
        Self::new(409, "Conflict", message).of(resource, name)
    }

    /// The object is not valid: one cause a field, as (field, reason, sentence).
    #[must_use]
    pub fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        let sentences: Vec<String> = causes
            .iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect();
        let all = match sentences.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let named = if resource.group.is_empty() {
            resource.kind.to_owned()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let message = format!("{named} {name:?} is invalid: {all}");
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        let mut refusal = Self::new(422, "Invalid", message);
        let mut details = json!({"name": name, "kind": resource.kind, "causes": causes});
        if !resource.group.is_empty() {
            details["group"] = json!(resource.group);
        }
        refusal.details = details;
        refusal
    }

    /// The request itself is wrong.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The history that was asked for is gone.
    #[must_use]
    pub fn expired(asked: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {asked} ({oldest})");
        Self::new(410, "Expired", message)
    }

    fn of(mut self, resource: &Resource, name: &str) -> Self {
        let mut details = json!({"name": name, "kind": resource.plural});
        if !resource.group.is_empty() {
            details["group"] = json!(resource.group);
        }
        self.details = details;
        self
    }

    /// The same with `details.causes` and a hint when to come again.
    #[must_use]
    pub(super) fn with_causes(mut self, causes: Value, retry_after_seconds: Option<u32>) -> Self {
        let mut details = Map::new();
        if let Some(seconds) = retry_after_seconds {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        details.insert("causes".to_owned(), causes);
        self.details = Value::Object(details);
        self
    }

    /// After how many seconds the client should come again.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.details["retryAfterSeconds"].as_u64()
    }

    /// As the API answers it.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its path.
    pub field: String,
    /// One word for machines, for example `FieldValueInvalid`.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
}
