//! `/metrics` in the format that the scraper asks for.

use super::router::{Response, text};
use http_body_util::Full;
use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use prometheus_client::encoding::{prometheus_text, text as openmetrics};
use prometheus_client::registry::Registry;

/// A format of exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4.
    PrometheusText,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The value of `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::PrometheusText => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that suits the `Accept` headers best; Prometheus text where none of ours is asked for, since a scraper
    /// can do nothing with a refusal.
    #[must_use]
    pub fn negotiate(headers: &HeaderMap) -> Self {
        let mut best: Option<(Self, f32)> = None;
        let ranges = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok());
        for range in ranges.flat_map(|value| value.split(',')) {
            if let Some((format, quality)) = Self::offered(range)
                && quality > 0.0
                && best.is_none_or(|(_, other)| quality > other)
            {
                best = Some((format, quality));
            }
        }
        best.map_or(Self::PrometheusText, |(format, _)| format)
    }

    /// What we can give for one media range, and how much it is wanted.
    fn offered(range: &str) -> Option<(Self, f32)> {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next()?.to_ascii_lowercase();
        let (mut version, mut quality) = (None, 1.0);
        for parameter in parts {
            let Some((name, value)) = parameter.split_once('=') else {
                continue;
            };
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "version" => version = Some(value.to_owned()),
                // What is no number is no wish.
                "q" => {
                    quality = value
                        .parse()
                        .ok()
                        .filter(|quality| (0.0..=1.0).contains(quality))?
                }
                _ => {}
            }
        }
        let format = match (kind.as_str(), version.as_deref()) {
            ("application/openmetrics-text", None | Some("1.0.0")) => Self::OpenMetrics,
            ("text/plain", None | Some("0.0.4")) | ("*/*" | "text/*", None) => Self::PrometheusText,
            _ => return None,
        };
        Some((format, quality))
    }
}

/// Everything in the registry, in the format that the request asks for.
#[must_use]
pub fn metrics(registry: &Registry, headers: &HeaderMap) -> Response {
    let format = Format::negotiate(headers);
    let mut body = String::with_capacity(32 * 1024);
    let encoded = match format {
        Format::PrometheusText => prometheus_text::encode(&mut body, registry),
        Format::OpenMetrics => openmetrics::encode(&mut body, registry),
    };
    if encoded.is_err() {
        return text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics could not be written\n",
        );
    }
    let mut response = Response::new(Full::new(body.into()));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    headers.insert(VARY, HeaderValue::from_static("accept"));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn negotiate(accept: &str) -> Format {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        Format::negotiate(&headers)
    }

    #[test]
    fn what_prometheus_3_sends() {
        let accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(negotiate(accept), Format::OpenMetrics);
    }

    #[test]
    fn the_higher_quality_wins_whatever_the_order() {
        assert_eq!(
            negotiate("application/openmetrics-text;q=0.3, text/plain;q=0.5"),
            Format::PrometheusText
        );
        assert_eq!(
            negotiate("text/plain;q=0.3, application/openmetrics-text; version=1.0.0; q=0.5"),
            Format::OpenMetrics
        );
        assert_eq!(
            negotiate("text/plain, application/openmetrics-text"),
            Format::PrometheusText
        );
        assert_eq!(
            negotiate("application/openmetrics-text, text/plain"),
            Format::OpenMetrics
        );
    }

    #[test]
    fn what_we_do_not_have_is_not_given() {
        assert_eq!(
            negotiate("application/openmetrics-text;version=0.0.1"),
            Format::PrometheusText
        );
        assert_eq!(
            negotiate("application/openmetrics-text;q=0, text/html"),
            Format::PrometheusText
        );
        assert_eq!(
            negotiate("application/openmetrics-text;q=high"),
            Format::PrometheusText
        );
        assert_eq!(
            negotiate("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"),
            Format::PrometheusText
        );
        assert_eq!(negotiate("*/*"), Format::PrometheusText);
        assert_eq!(Format::negotiate(&HeaderMap::new()), Format::PrometheusText);
    }

    #[test]
    fn case_and_quotes_do_not_matter() {
        assert_eq!(
            negotiate("Application/OpenMetrics-Text; Version=\"1.0.0\""),
            Format::OpenMetrics
        );
    }
}
