//! `/metrics` in the format that the scraper asks for.

use super::compressed::{Compressed, Written, compress};
use super::negotiation::{Format, prefers_gzip};
use super::router::{Response, text};
use http_body_util::Full;
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use prometheus_client::encoding::{prometheus_protobuf, prometheus_text, text as openmetrics};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::{fmt, io};
use tokio::sync::Semaphore;

/// How many pages are written at once. It takes a processor and the memory of a page each, and the node has other work.
const AT_ONCE: usize = 2;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("a metric has no form in this format")]
    Text(#[from] fmt::Error),
    #[error(transparent)]
    Protobuf(#[from] prometheus_protobuf::EncodeError),
    #[error("the page could not be compressed")]
    Gzip(#[from] io::Error),
    #[error("writing the page panicked")]
    Panic(#[from] tokio::task::JoinError),
}

/// The pages of a registry.
#[derive(Debug, Clone)]
pub struct Exposition {
    registry: Arc<Registry>,
    turns: Arc<Semaphore>,
}

impl Exposition {
    /// Of everything in the registry.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self {
            registry: Arc::new(registry),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Everything in the registry, in the format that the request asks for. It is written on a thread where it keeps no other
    /// answer waiting, a few at once; the others wait for their turn.
    pub async fn answer(&self, headers: &HeaderMap) -> Response {
        let format = Format::negotiate(headers);
        self.page(format, prefers_gzip(headers))
            .await
            .unwrap_or_else(|error| {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, ?format, "the metrics could not be written");
                text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the metrics could not be written\n",
                )
            })
    }

    async fn page(&self, format: Format, gzip: bool) -> Result<Response, PageError> {
        // It is never closed.
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        let registry = Arc::clone(&self.registry);
        let written = tokio::task::spawn_blocking(move || {
            // Held until the work is done, also if nobody waits for it any more.
            let _turn = turn;
            page(&registry, format, gzip)
        });
        written.await?
    }
}

fn page(registry: &Registry, format: Format, gzip: bool) -> Result<Response, PageError> {
    let Written {
        mut body,
        compressed,
    } = match gzip {
        true => encode_compressed(registry, format)?,
        false => Written {
            body: encode(registry, format)?,
            compressed: false,
        },
    };
    // It may have to be kept for a while.
    body.shrink_to_fit();
    let mut response = Response::new(Full::new(body.into()));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    if compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    Ok(response)
}

fn encode(registry: &Registry, format: Format) -> Result<Vec<u8>, PageError> {
    if format == Format::PrometheusProtobuf {
        return Ok(prometheus_protobuf::encode_to_vec(registry)?);
    }
    let mut text = String::with_capacity(32 * 1024);
    write_text(&mut text, registry, format)?;
    Ok(text.into_bytes())
}

fn encode_compressed(registry: &Registry, format: Format) -> Result<Written, PageError> {
    if format == Format::PrometheusProtobuf {
        return Ok(compress(encode(registry, format)?)?);
    }
    let mut page = Compressed::new();
    write_text(&mut page, registry, format)?;
    Ok(page.finish()?)
}

fn write_text(page: &mut impl fmt::Write, registry: &Registry, format: Format) -> fmt::Result {
    match format {
        Format::OpenMetrics | Format::OpenMetricsDraft => openmetrics::encode(page, registry),
        Format::PrometheusText | Format::PrometheusProtobuf => {
            prometheus_text::encode(page, registry)
        }
    }
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
