#![allow(clippy::unwrap_used)]
use super::*;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use hyper::header::{ACCEPT, ACCEPT_ENCODING};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_protobuf::prometheus_data_model::{MetricFamily, MetricType as Kind};
use prost::Message;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

/// Writes as ours do: families by their descriptors, series by their labels.
#[derive(Debug)]
struct Cards(usize);

impl Collector for Cards {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut family =
            encoder.encode_descriptor("card_up", "Whether it is.", None, MetricType::Gauge)?;
        for card in 0..self.0 {
            let labels = [
                ("card", card.to_string()),
                ("model", "a\"b\\c\n".to_owned()),
            ];
            family.encode_family(&labels)?.encode_gauge(&1.0)?;
        }
        let mut family =
            encoder.encode_descriptor("card_errors", "How many.", None, MetricType::Counter)?;
        family
            .encode_family(&[("card", "0")])?
            .encode_counter::<NoLabelSet, u64, f64>(&0, None)
    }
}

fn registry(cards: usize) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Cards(cards)));
    registry
}

async fn ask(cards: usize, accept: &str, encoding: Option<&str>) -> (HeaderMap, Vec<u8>) {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
    if let Some(encoding) = encoding {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(encoding).unwrap());
    }
    let response = Exposition::new(registry(cards)).answer(&headers).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()[VARY], "Accept, Accept-Encoding");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.headers, body.to_vec())
}

#[tokio::test]
async fn a_collector_of_our_own_is_written_as_protobuf_too() {
    let (headers, body) = ask(2, PROTOBUF, None).await;
    assert_eq!(
        headers[CONTENT_TYPE],
        Format::PrometheusProtobuf.content_type()
    );
    let mut rest = body.as_slice();
    let mut families = Vec::new();
    while !rest.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
    }
    let told: Vec<_> = families
        .iter()
        .map(|family| (family.name.as_str(), family.help.as_str(), family.r#type()))
        .collect();
    assert_eq!(
        told,
        [
            ("card_up", "Whether it is.", Kind::Gauge),
            ("card_errors_total", "How many.", Kind::Counter)
        ]
    );
    let up = &families[0].metric;
    assert_eq!(up.len(), 2);
    let labels: Vec<_> = (up[1].label.iter())
        .map(|label| (label.name.as_str(), label.value.as_str()))
        .collect();
    assert_eq!(labels, [("card", "1"), ("model", "a\"b\\c\n")]);
    assert_eq!(up[1].gauge.as_ref().unwrap().value, 1.0);
    // A counter at 0 is there: the first event has to count.
    let errors = families[1].metric[0].counter.as_ref();
    assert_eq!(errors.unwrap().value, 0.0);
}

#[tokio::test]
async fn the_draft_of_openmetrics_is_the_same_page() {
    let (new, page) = ask(2, "application/openmetrics-text;version=1.0.0", None).await;
    let (old, same) = ask(2, "application/openmetrics-text;version=0.0.1", None).await;
    assert_eq!(page, same);
    assert!(page.ends_with(b"# EOF\n"));
    assert_eq!(new[CONTENT_TYPE], Format::OpenMetrics.content_type());
    assert_eq!(old[CONTENT_TYPE], Format::OpenMetricsDraft.content_type());
}

#[tokio::test]
async fn what_is_compressed_is_the_same_page() {
    for accept in ["text/plain", "application/openmetrics-text", PROTOBUF] {
        let (headers, plain) = ask(300, accept, None).await;
        assert!(!headers.contains_key(CONTENT_ENCODING));
        let (headers, packed) = ask(300, accept, Some("gzip")).await;
        assert_eq!(headers[CONTENT_ENCODING], "gzip");
        assert!(packed.len() * 3 < plain.len(), "{accept}");
        let mut unpacked = Vec::new();
        let mut decoder = GzDecoder::new(packed.as_slice());
        decoder.read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain, "{accept}");
    }
}

#[tokio::test]
async fn what_is_small_or_unwanted_is_not_compressed() {
    for (cards, encoding) in [
        (1, "gzip"),
        (300, "gzip;q=0"),
        (300, "identity"),
        (300, "br"),
    ] {
        let (headers, body) = ask(cards, "text/plain", Some(encoding)).await;
        assert!(!headers.contains_key(CONTENT_ENCODING), "{encoding}");
        assert!(body.starts_with(b"# HELP card_up"), "{encoding}");
    }
}

/// Writes nothing before it is told to.
#[derive(Debug, Default)]
struct Slow {
    inside: AtomicUsize,
    most: AtomicUsize,
    told: Mutex<bool>,
    tell: Condvar,
}

#[derive(Debug)]
struct Waits(Arc<Slow>);

impl Collector for Waits {
    fn encode(&self, _: DescriptorEncoder<'_>) -> std::fmt::Result {
        let inside = self.0.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(inside, Ordering::SeqCst);
        let told = self.0.told.lock().unwrap();
        let wait = self.0.tell.wait_timeout_while(told, SOON, |told| !*told);
        let late = wait.unwrap().1.timed_out();
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        if late { Err(std::fmt::Error) } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_few_pages_are_written_at_once_and_nobody_else_waits_for_them() {
    let slow = Arc::new(Slow::default());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Waits(Arc::clone(&slow))));
    let exposition = Exposition::new(registry);
    let answers: Vec<_> = (0..AT_ONCE + 3)
        .map(|_| {
            let exposition = exposition.clone();
            tokio::spawn(async move { exposition.answer(&HeaderMap::new()).await.status() })
        })
        .collect();
    // The only thread of this test goes on while pages are written.
    while slow.inside.load(Ordering::SeqCst) < AT_ONCE {
        tokio::task::yield_now().await;
    }
    *slow.told.lock().unwrap() = true;
    slow.tell.notify_all();
    for answer in answers {
        assert_eq!(answer.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(slow.most.load(Ordering::SeqCst), AT_ONCE);
}
