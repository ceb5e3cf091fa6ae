//! What the API server's audit log says about who asked for what.

use std::path::Path;

use serde::Deserialize;

/// One answered request, as far as the tests look at it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` …
    pub(crate) verb: String,
    /// Who asked.
    pub(crate) user: User,
    /// The object asked for; absent for paths such as `/readyz`.
    pub(crate) object_ref: Option<ObjectRef>,
    /// How it was answered; absent while a watch is open.
    pub(crate) response_status: Option<ResponseStatus>,
    /// When this line was written, RFC 3339.
    pub(crate) stage_timestamp: String,
    /// `ResponseStarted` for a watch that opens, `ResponseComplete` at the end.
    pub(crate) stage: String,
}

/// Who asked.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct User {
    /// `system:serviceaccount:NAMESPACE:NAME` for a ServiceAccount.
    pub(crate) username: String,
}

/// The object of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ObjectRef {
    /// Plural name, such as `pods`.
    pub(crate) resource: String,
    /// `eviction`, `status` … or empty.
    pub(crate) subresource: String,
    /// Namespace, or empty.
    pub(crate) namespace: String,
    /// Name, or empty for a list or a create.
    pub(crate) name: String,
}

/// How a request was answered.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ResponseStatus {
    /// The HTTP status code.
    pub(crate) code: u16,
}

impl Request {
    /// Whether this is an answered request for `subresource` of `resource`
    /// with `verb`.
    pub(crate) fn is(&self, verb: &str, resource: &str, subresource: &str) -> bool {
        self.stage == "ResponseComplete"
            && self.verb == verb
            && self.object_ref.as_ref().is_some_and(|object| {
                object.resource == resource && object.subresource == subresource
            })
    }

    /// The HTTP status code, or 0 where there is none.
    pub(crate) fn code(&self) -> u16 {
        self.response_status
            .as_ref()
            .map_or(0, |status| status.code)
    }

    /// The request as one line for people.
    pub(crate) fn line(&self) -> String {
        let object = self.object_ref.clone().unwrap_or_default();
        format!(
            "{} {} {} {}/{} {} {} {}",
            self.stage_timestamp,
            self.stage,
            self.verb,
            object.resource,
            object.subresource,
            object.namespace,
            object.name,
            self.code()
        )
    }

    /// The name of the object, or an empty one.
    pub(crate) fn object_name(&self) -> &str {
        self.object_ref.as_ref().map_or("", |object| &object.name)
    }
}

/// Reads the log at `path`. A last line that is still being written is left
/// out; any other line that is not an event fails the test.
pub(crate) fn read(path: &Path) -> Vec<Request> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("audit log: {error}: {line}"))
        })
        .collect()
}
