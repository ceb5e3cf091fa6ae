//! Which path is answered by what.

use futures::future::BoxFuture;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use std::future::Future;
use std::sync::Arc;

/// The body of an answer.
pub type Body = Full<Bytes>;
/// An answer.
pub type Response = hyper::Response<Body>;
/// What answers a request. It is given the request's head; bodies are not read.
pub type Handler = Arc<dyn Fn(Parts) -> BoxFuture<'static, Response> + Send + Sync>;

/// The table of routes.
#[derive(Clone, Default)]
pub struct Router {
    routes: Vec<Route>,
}

#[derive(Clone)]
struct Route {
    path: String,
    /// Whether longer paths that begin with this one are meant too.
    prefix: bool,
    method: Method,
    handler: Handler,
}

impl Route {
    fn matches(&self, path: &str) -> bool {
        if self.prefix {
            path.starts_with(&self.path)
        } else {
            path == self.path
        }
    }
}

impl Router {
    /// An empty table: everything is 404.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers GET and HEAD on one path.
    #[must_use]
    pub fn get<F, R>(self, path: &str, handler: F) -> Self
    where
        F: Fn(Parts) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.route(Method::GET, path, false, handler)
    }

    /// Answers GET and HEAD on every path that begins so, for example `/slo/`.
    #[must_use]
    pub fn get_under<F, R>(self, prefix: &str, handler: F) -> Self
    where
        F: Fn(Parts) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.route(Method::GET, prefix, true, handler)
    }

    /// Answers POST on one path.
    #[must_use]
    pub fn post<F, R>(self, path: &str, handler: F) -> Self
    where
        F: Fn(Parts) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.route(Method::POST, path, false, handler)
    }

    fn route<F, R>(mut self, method: Method, path: &str, prefix: bool, handler: F) -> Self
    where
        F: Fn(Parts) -> R + Send + Sync + 'static,
        R: Future<Output = Response> + Send + 'static,
    {
        self.routes.push(Route {
            path: path.to_owned(),
            prefix,
            method,
            handler: Arc::new(move |parts| Box::pin(handler(parts))),
        });
        self
    }

    /// Answers a request: 404 for a path that is not in the table, 405 for a method that the path does not take.
    ///
    /// The body of an answer to HEAD is cut by the server, which keeps the header that tells its length.
    pub async fn answer(&self, parts: Parts) -> Response {
        let path = parts.uri.path();
        let method = if parts.method == Method::HEAD {
            &Method::GET
        } else {
            &parts.method
        };
        let mut allowed: Vec<&str> = Vec::new();
        for route in self.routes.iter().filter(|route| route.matches(path)) {
            if route.method == *method {
                let handler = Arc::clone(&route.handler);
                return handler(parts).await;
            }
            allowed.push(route.method.as_str());
            if route.method == Method::GET {
                allowed.push(Method::HEAD.as_str());
            }
        }
        if allowed.is_empty() {
            return text(StatusCode::NOT_FOUND, "there is nothing here\n");
        }
        let mut response = text(
            StatusCode::METHOD_NOT_ALLOWED,
            "this path does not take this method\n",
        );
        if let Ok(value) = HeaderValue::from_str(&allowed.join(", ")) {
            response.headers_mut().insert(ALLOW, value);
        }
        response
    }
}

/// A plain text answer.
#[must_use]
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use http_body_util::BodyExt;
    use hyper::Request;

    fn router() -> Router {
        Router::new()
            .get("/here", |_| async { text(StatusCode::OK, "here") })
            .get_under("/under/", |parts: Parts| async move {
                text(StatusCode::OK, parts.uri.path().to_owned())
            })
            .post("/act", |parts: Parts| async move {
                text(
                    StatusCode::OK,
                    parts.uri.query().unwrap_or_default().to_owned(),
                )
            })
    }

    async fn ask(method: Method, uri: &str) -> (StatusCode, String, Option<String>) {
        let (parts, ()) = Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap()
            .into_parts();
        let response = router().answer(parts).await;
        let allow = response
            .headers()
            .get(ALLOW)
            .map(|value| value.to_str().unwrap().to_owned());
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap(), allow)
    }

    #[tokio::test]
    async fn paths_and_methods() {
        assert_eq!(
            ask(Method::GET, "/here?x=1").await,
            (StatusCode::OK, "here".into(), None)
        );
        assert_eq!(ask(Method::HEAD, "/here").await.0, StatusCode::OK);
        assert_eq!(ask(Method::GET, "/under/a/b").await.1, "/under/a/b");
        assert_eq!(ask(Method::POST, "/act?for=10m").await.1, "for=10m");
        assert_eq!(ask(Method::GET, "/here/").await.0, StatusCode::NOT_FOUND);
        let (status, _, allow) = ask(Method::POST, "/here").await;
        assert_eq!(
            (status, allow.as_deref()),
            (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD"))
        );
        let (status, _, allow) = ask(Method::GET, "/act").await;
        assert_eq!(
            (status, allow.as_deref()),
            (StatusCode::METHOD_NOT_ALLOWED, Some("POST"))
        );
    }
}
