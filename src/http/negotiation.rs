//! What a client would like to be given: a format of exposition, and whether it may be compressed.

use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderName};

/// A format of exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4.
    PrometheusText,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// OpenMetrics 0.0.1, the draft that Prometheus asked for before 1.0. What we write is the same in both; the Go client
    /// library uses one encoder for both as well.
    OpenMetricsDraft,
    /// Messages of `io.prometheus.client.MetricFamily`, each after its length.
    PrometheusProtobuf,
}

impl Format {
    /// The value of `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::PrometheusText => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::OpenMetricsDraft => "application/openmetrics-text; version=0.0.1; charset=utf-8",
            Self::PrometheusProtobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The format that suits the `Accept` headers best; Prometheus text where none of ours is asked for, since a scraper
    /// can do nothing with a refusal.
    #[must_use]
    pub fn negotiate(headers: &HeaderMap) -> Self {
        let mut best: Option<(Self, f32)> = None;
        for range in elements(headers, ACCEPT) {
            if let Some(range) = Element::parse(range)
                && let Some(format) = Self::offered(&range)
                && range.quality > 0.0
                && best.is_none_or(|(_, other)| range.quality > other)
            {
                best = Some((format, range.quality));
            }
        }
        best.map_or(Self::PrometheusText, |(format, _)| format)
    }

    /// What we can give for one media range.
    fn offered(range: &Element<'_>) -> Option<Self> {
        let version = range.parameter("version");
        match (range.name.as_str(), version) {
            ("application/openmetrics-text", None | Some("1.0.0")) => Some(Self::OpenMetrics),
            ("application/openmetrics-text", Some("0.0.1")) => Some(Self::OpenMetricsDraft),
            ("text/plain", None | Some("0.0.4")) | ("*/*" | "text/*", None) => {
                Some(Self::PrometheusText)
            }
            ("application/vnd.google.protobuf", _)
                if range.parameter("proto") == Some("io.prometheus.client.MetricFamily")
                    && range.parameter("encoding") == Some("delimited") =>
            {
                Some(Self::PrometheusProtobuf)
            }
            _ => None,
        }
    }
}

/// Whether the `Accept-Encoding` headers prefer gzip to what is not compressed.
pub(super) fn prefers_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut identity, mut other) = (None, None, None);
    for element in elements(headers, ACCEPT_ENCODING).filter_map(Element::parse) {
        let told = match element.name.as_str() {
            "gzip" | "x-gzip" => &mut gzip,
            "identity" => &mut identity,
            "*" => &mut other,
            _ => continue,
        };
        told.get_or_insert(element.quality);
    }
    let gzip = gzip.or(other).unwrap_or(0.0);
    gzip > 0.0 && identity.is_none_or(|identity| gzip >= identity)
}

/// The elements of a header that is a list and may be there more than once.
fn elements(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
}

/// One element of such a list.
#[derive(Debug)]
struct Element<'a> {
    /// In lower case.
    name: String,
    /// How much it is wanted, from 0 to 1.
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Element<'a> {
    /// `None` for what asks for nothing that can be understood.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let mut element = Self {
            name: parts.next()?.to_ascii_lowercase(),
            quality: 1.0,
            parameters: Vec::new(),
        };
        for parameter in parts {
            let Some((name, value)) = parameter.split_once('=') else {
                continue;
            };
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name.eq_ignore_ascii_case("q") {
                // What is no number is no wish.
                let quality = value.parse().ok();
                element.quality = quality.filter(|quality| (0.0..=1.0).contains(quality))?;
            } else {
                element.parameters.push((name, value));
            }
        }
        Some(element)
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hyper::header::HeaderValue;

    const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

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
        let native = format!("{PROTOBUF};q=0.7,{accept}");
        assert_eq!(negotiate(&native), Format::PrometheusProtobuf);
    }

    #[test]
    fn what_prometheus_2_5_sends() {
        let accept =
            "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(negotiate(accept), Format::OpenMetricsDraft);
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
        assert_eq!(
            negotiate(&format!("text/plain;q=0.5,{PROTOBUF};q=0.2")),
            Format::PrometheusText
        );
    }

    #[test]
    fn what_we_do_not_have_is_not_given() {
        for accept in [
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0, text/html",
            "application/openmetrics-text;q=high",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            "application/vnd.google.protobuf;proto=other.Message;encoding=delimited",
            "application/vnd.google.protobuf",
            "*/*",
        ] {
            assert_eq!(negotiate(accept), Format::PrometheusText, "{accept}");
        }
        assert_eq!(Format::negotiate(&HeaderMap::new()), Format::PrometheusText);
    }

    #[test]
    fn case_and_quotes_do_not_matter() {
        assert_eq!(
            negotiate("Application/OpenMetrics-Text; Version=\"1.0.0\""),
            Format::OpenMetrics
        );
    }

    #[test]
    fn gzip_is_for_those_who_want_it() {
        let prefers = |accept: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in accept {
                headers.append(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
            }
            prefers_gzip(&headers)
        };
        for wanted in [
            &["gzip"][..],
            &["GZIP;q=0.001"],
            &["deflate, gzip;q=1.0, *;q=0.5"],
            &["*"],
            &["x-gzip"],
            &["br", "gzip"],
            &["identity;q=0.5, gzip;q=0.5"],
            &["identity;q=0, *"],
        ] {
            assert!(prefers(wanted), "{wanted:?}");
        }
        for unwanted in [
            &[][..],
            &[""],
            &["gzip;q=0"],
            &["gzip;q=0, *"],
            &["*;q=0"],
            &["identity"],
            &["br, zstd"],
            &["identity, gzip;q=0.5"],
            &["gzip;q=2"],
            &["gzip;q=a"],
        ] {
            assert!(!prefers(unwanted), "{unwanted:?}");
        }
    }
}
