//! What a path and a query ask for.

use std::collections::BTreeMap;

use hyper::Method;

use super::history::Verb;
use super::resources::{NAMESPACES, Resource};

/// The path, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Something about objects.
    Objects(Target),
    /// Discovery and health, or nothing that is known.
    Other,
}

/// Which objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: &'static Resource,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

/// Takes a path apart.
pub(super) fn route(path: &str) -> Route {
    let segments: Vec<String> = path
        .split('/')
        .filter(|s| !s.is_empty())
        .map(percent_decoded)
        .collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Route::Other,
    };
    let find = |plural: &str| Resource::at(group, version, plural);
    let owned = |text: &str| Some(text.to_owned());
    let target = |resource, namespace: Option<&str>, name: Option<&str>, sub: Option<&str>| {
        Route::Objects(Target {
            resource,
            namespace: namespace.and_then(owned),
            name: name.and_then(owned),
            subresource: sub.and_then(owned),
        })
    };
    let (namespace, rest) = match rest {
        ["namespaces", name, sub @ ("status" | "finalize")] if group.is_empty() => {
            return target(NAMESPACES, None, Some(name), Some(sub));
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let Some(resource) = rest.first().and_then(|plural| find(plural)) else {
        return Route::Other;
    };
    if namespace.is_some() && !resource.namespaced {
        return Route::Other;
    }
    match rest {
        [_] => target(resource, namespace, None, None),
        [_, name] => target(resource, namespace, Some(name), None),
        [_, name, sub] => target(resource, namespace, Some(name), Some(sub)),
        _ => Route::Other,
    }
}

/// The verb of a request.
pub(super) fn verb(method: &Method, target: &Target, query: &Query) -> Verb {
    match (method.as_str(), &target.name) {
        ("GET", None) if query.is_true("watch") => Verb::Watch,
        ("GET", None) => Verb::List,
        ("GET", Some(_)) => Verb::Get,
        ("POST", _) => Verb::Create,
        ("PUT", Some(_)) => Verb::Update,
        ("PATCH", Some(_)) => Verb::Patch,
        ("DELETE", _) => Verb::Delete,
        _ => Verb::Other,
    }
}

/// The parameters of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(text: Option<&str>) -> Self {
        let pairs = text
            .unwrap_or_default()
            .split('&')
            .filter(|p| !p.is_empty());
        let decoded = |text: &str| percent_decoded(&text.replace('+', " "));
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decoded(key), decoded(value))
                })
                .collect(),
        )
    }

    /// A parameter that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.0
            .get(name)
            .is_some_and(|v| matches!(v.as_str(), "true" | "1" | ""))
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = text
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        out.push(hex.unwrap_or(bytes[at]));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::sim::api_server::resources::{GPU_FAULTS, NODES, PODS};

    fn target(path: &str) -> Target {
        match route(path) {
            Route::Objects(target) => target,
            Route::Other => panic!("{path}"),
        }
    }

    #[test]
    fn paths_are_taken_apart() {
        assert_eq!(target("/api/v1/nodes").resource, NODES);
        let pod = target("/api/v1/namespaces/ml/pods/a/eviction");
        assert_eq!(
            (
                pod.resource,
                pod.namespace.as_deref(),
                pod.name.as_deref(),
                pod.subresource.as_deref()
            ),
            (PODS, Some("ml"), Some("a"), Some("eviction"))
        );
        let namespace = target("/api/v1/namespaces/ml");
        assert_eq!(
            (namespace.resource, namespace.name.as_deref()),
            (NAMESPACES, Some("ml"))
        );
        let fault = target("/apis/gpu-remediator.dev/v1alpha1/gpufaults/x/status");
        assert_eq!(
            (fault.resource, fault.subresource.as_deref()),
            (GPU_FAULTS, Some("status"))
        );
        for other in [
            "/version",
            "/apis",
            "/api/v1",
            "/api/v1/unknown",
            "/api/v1/namespaces/ml/nodes",
            "/apis/x/v1/pods",
        ] {
            assert_eq!(route(other), Route::Other, "{other}");
        }
    }

    #[test]
    fn a_query_is_decoded() {
        let query = Query::parse(Some(
            "labelSelector=app%20in%20%28a%2Cb%29&watch=true&limit=5&x=",
        ));
        assert_eq!(query.get("labelSelector"), Some("app in (a,b)"));
        assert!(query.is_true("watch"));
        assert_eq!(query.number("limit"), Some(5));
        assert_eq!(query.get("x"), None);
    }
}
