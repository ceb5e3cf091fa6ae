//! The page at `/`, for a person who found the port.

use super::router::Response;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};

/// A page that says what this is and links to its paths, each with what is there. The texts are ours: nothing in them is
/// escaped.
#[must_use]
pub fn landing(title: &'static str, links: &[(&'static str, &'static str)]) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let items: String = links
        .iter()
        .map(|(path, meaning)| format!("<li><a href=\"{path}\">{path}</a>: {meaning}</li>\n"))
        .collect();
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body>\n<h1>{title}</h1>\n<p>Version {version}</p>\n<ul>\n{items}</ul>\n</body>\n</html>\n"
    );
    let mut response = Response::new(Full::new(page.into()));
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn it_names_the_version_and_links_to_each_path() {
        let response = landing("an exporter", &[("/a", "one"), ("/b", "two")]);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let page = String::from_utf8(body.to_vec()).unwrap();
        for part in [
            "<title>an exporter</title>",
            env!("CARGO_PKG_VERSION"),
            "<a href=\"/a\">/a</a>: one",
            "<a href=\"/b\">/b</a>: two",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }
}
