//! What a request asks for, as far as faults depend on it.

use hyper::{Method, Request};

use crate::sim::api_server::Verb;

/// One request, read from its method and address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What for.
    pub verb: Verb,
    /// Plural name of the resource; empty for discovery.
    pub resource: String,
    /// Name of the object.
    pub name: Option<String>,
    /// Subresource.
    pub subresource: Option<String>,
    /// Is it a further page of a list, or a list of a past revision?
    pub continues: bool,
    /// Does a patch apply a whole configuration? Its conflicts are about fields, not about revisions.
    pub applies: bool,
}

impl Asked {
    /// Reads a request.
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> Self {
        let content = request.headers().get(hyper::header::CONTENT_TYPE);
        let applies = content
            .and_then(|c| c.to_str().ok())
            .is_some_and(|c| c.starts_with("application/apply-patch"));
        let uri = request.uri();
        Self::at(
            request.method(),
            uri.path(),
            uri.query().unwrap_or_default(),
            applies,
        )
    }

    fn at(method: &Method, path: &str, query: &str, applies: bool) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
        let rest = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let rest = match rest {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let parameter = |name: &str| query.split('&').any(|p| p.starts_with(name));
        let name = rest.get(1).map(|n| (*n).to_owned());
        let verb = match *method {
            Method::GET if rest.is_empty() => Verb::Other,
            Method::GET if parameter("watch=true") || parameter("watch=1") => Verb::Watch,
            Method::GET if name.is_some() => Verb::Get,
            Method::GET => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ => Verb::Other,
        };
        Self {
            verb,
            resource: rest.first().map(|r| (*r).to_owned()).unwrap_or_default(),
            name,
            subresource: rest.get(2).map(|s| (*s).to_owned()),
            continues: parameter("continue="),
            applies,
        }
    }

    /// Does it change anything?
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(
            self.verb,
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(
        method: Method,
        path: &str,
        query: &str,
    ) -> (Verb, String, Option<String>, Option<String>) {
        let asked = Asked::at(&method, path, query, false);
        (asked.verb, asked.resource, asked.name, asked.subresource)
    }

    #[test]
    fn addresses_are_read() {
        let some = |s: &str| Some(s.to_owned());
        assert_eq!(
            asked(Method::POST, "/api/v1/namespaces/a/pods/p/eviction", ""),
            (Verb::Create, "pods".into(), some("p"), some("eviction"))
        );
        assert_eq!(
            asked(Method::GET, "/api/v1/nodes", "limit=500"),
            (Verb::List, "nodes".into(), None, None)
        );
        assert_eq!(
            asked(Method::GET, "/api/v1/namespaces", ""),
            (Verb::List, "namespaces".into(), None, None)
        );
        assert_eq!(
            asked(
                Method::GET,
                "/apis/gpu-remediator.dev/v1alpha1/gpufaults",
                "&watch=true&x=1"
            ),
            (Verb::Watch, "gpufaults".into(), None, None)
        );
        assert_eq!(asked(Method::GET, "/version", "").0, Verb::Other);
    }
}
