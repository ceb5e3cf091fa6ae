#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::prometheus::client::{Client, Options};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A page that is whatever it was last told to be.
#[derive(Default)]
struct Told {
    text: Mutex<Option<String>>,
    version: AtomicUsize,
    scrapes: AtomicUsize,
}

impl Told {
    fn say(&self, text: &str) {
        *self.text.lock().unwrap() = Some(text.to_owned());
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    fn die(&self) {
        *self.text.lock().unwrap() = None;
        self.version.fetch_add(1, Ordering::Relaxed);
    }
}

impl Page for Told {
    fn version(&self) -> Option<u64> {
        Some(self.version.load(Ordering::Relaxed) as u64)
    }

    fn scrape(&self, _: Timestamp) -> Result<String, String> {
        self.scrapes.fetch_add(1, Ordering::Relaxed);
        self.text
            .lock()
            .unwrap()
            .clone()
            .ok_or_else(|| "connection refused".to_owned())
    }
}

const NONE: [f64; 0] = [];
const SCRAPE: Duration = Duration::from_secs(15);

fn start() -> (Prometheus, Arc<Told>, Clock) {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let prometheus = Prometheus::new(clock.clone(), SCRAPE);
    let page = Arc::new(Told::default());
    prometheus.add_target("gpu", "node-1", Arc::clone(&page) as Arc<dyn Page>);
    (prometheus, page, clock)
}

async fn scrapes(count: u32) {
    tokio::time::sleep(SCRAPE * count + Duration::from_millis(1)).await;
}

fn values(prometheus: &Prometheus, expr: &str) -> Vec<f64> {
    match prometheus.instant(expr).unwrap() {
        Value::Vector(series) => series.into_iter().map(|(_, point)| point.value).collect(),
        Value::Scalar(point) => vec![point.value],
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_is_scraped_on_the_clock_and_quiet_time_costs_nothing() {
    let (prometheus, page, _) = start();
    page.say("a{x=\"1\"} 2\na{x=\"2\"} 3\n");
    assert_eq!(values(&prometheus, "a"), NONE);
    scrapes(1).await;
    assert_eq!(values(&prometheus, "scrape_series_added"), [2.0]);
    scrapes(999).await;
    assert_eq!(values(&prometheus, "scrape_series_added"), [0.0]);
    assert_eq!(values(&prometheus, "a"), [2.0, 3.0]);
    assert_eq!(page.scrapes.load(Ordering::Relaxed), 1);
    assert_eq!(
        values(&prometheus, "count_over_time(a{x=\"1\"}[1h])"),
        [240.0]
    );
    assert_eq!(values(&prometheus, "up{job=\"gpu\"}"), [1.0]);
    page.say("a{x=\"1\"} 7\n");
    scrapes(1).await;
    assert_eq!(
        values(&prometheus, "a"),
        [7.0],
        "what vanished is gone at once"
    );
    assert_eq!(values(&prometheus, "max_over_time(a[5m])"), [7.0, 3.0]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_target_is_down_and_its_series_end() {
    let (prometheus, page, _) = start();
    page.say("a 1\n");
    scrapes(2).await;
    page.die();
    scrapes(1).await;
    assert_eq!(values(&prometheus, "up"), [0.0]);
    assert_eq!(values(&prometheus, "a"), NONE);
    assert_eq!(values(&prometheus, "absent(a)"), [1.0]);
    assert_eq!(values(&prometheus, "last_over_time(a[5m])"), [1.0]);
    page.say("a 1\n");
    scrapes(1).await;
    assert_eq!(values(&prometheus, "up and on() a"), [1.0]);
    prometheus.remove_target("gpu", "node-1");
    scrapes(1).await;
    assert_eq!(values(&prometheus, "up or a"), NONE);
}

#[tokio::test(start_paused = true)]
async fn labels_of_the_target_win_unless_the_page_is_honored() {
    let (prometheus, page, _) = start();
    page.say("a{job=\"mine\",instance=\"i\"} 1\n");
    let honored = Arc::clone(&page) as Arc<dyn Page>;
    prometheus.add_target_with("state", "s", HonorLabels::Yes, honored);
    scrapes(1).await;
    assert_eq!(
        values(
            &prometheus,
            "a{job=\"gpu\",exported_job=\"mine\",exported_instance=\"i\"}"
        ),
        [1.0]
    );
    assert_eq!(values(&prometheus, "a{job=\"mine\",instance=\"i\"}"), [1.0]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_makes_no_second_sample_of_the_same_time() {
    let (prometheus, page, clock) = start();
    page.say("a 1\n");
    scrapes(10).await;
    clock.jump(jiff::SignedDuration::from_secs(-60));
    scrapes(2).await;
    assert_eq!(
        values(&prometheus, "count_over_time(a[1h])"),
        [8.0],
        "those up to now"
    );
    scrapes(3).await;
    clock.jump(jiff::SignedDuration::from_secs(7));
    scrapes(2).await;
    assert!(values(&prometheus, "count_over_time(a[1h])")[0] >= 12.0);
}

#[tokio::test(start_paused = true)]
async fn the_product_s_client_understands_every_answer() {
    let (prometheus, page, clock) = start();
    page.say("a{x=\"1\"} 2\na{x=\"2\"} +Inf\nb{x=\"1\"} 1\n");
    scrapes(4).await;
    let options = Options::new("http://prometheus.simulated:9090");
    let client = Client::new(options)
        .unwrap()
        .with_exchange(prometheus.exchange("test"));
    let answer = client.query("a > 1", clock.now()).await.unwrap();
    assert_eq!(answer.samples.len(), 2);
    assert_eq!(answer.samples[1].number(), Some(f64::INFINITY));
    let answer = client.query("scalar(b)", clock.now()).await.unwrap();
    assert_eq!(answer.samples[0].number(), Some(1.0));
    let start = clock.now() - jiff::SignedDuration::from_secs(30);
    let range = client
        .query_range("a", start, clock.now(), SCRAPE)
        .await
        .unwrap();
    assert_eq!((range.len(), range[0].points.len()), (2, 3));
    client.parse("up == 0", clock.now()).await.unwrap();
    let error = client.query("up ==", clock.now()).await.unwrap_err();
    assert!(
        matches!(error, crate::prometheus::error::QueryError::BadData(_)),
        "{error}"
    );
    let error = client
        .query("a + on() b + on() a", clock.now())
        .await
        .unwrap_err();
    assert!(
        matches!(error, crate::prometheus::error::QueryError::Execution(_)),
        "{error}"
    );
}

fn get(prometheus: &Prometheus, path: &str, query: &str) -> (u16, serde_json::Value) {
    let request = QueryRequest::new(hyper::Method::GET, path, query, b"");
    let (status, body) = prometheus.answer(&request);
    let json = serde_json::from_slice(&body);
    (
        status,
        json.unwrap_or_else(|_| String::from_utf8(body).unwrap().into()),
    )
}

#[tokio::test(start_paused = true)]
async fn answers_have_the_forms_of_the_query_api() {
    let (prometheus, page, _) = start();
    page.say("a{x=\"1\"} 2.5\nb 1\n");
    scrapes(4).await;
    let ask = |path: &str, query: &str| get(&prometheus, path, query);
    let text = |answer: (u16, serde_json::Value)| (answer.0, answer.1["data"].to_string());
    assert_eq!(
        text(ask("/api/v1/query", "query=a&time=1767225660.5")),
        (200, r#"{"result":[{"metric":{"__name__":"a","instance":"node-1","job":"gpu","x":"1"},"value":[1767225660.5,"2.5"]}],"resultType":"vector"}"#.to_owned())
    );
    assert_eq!(
        text(ask(
            "/api/v1/query",
            "query=b%5B20s%5D&time=2026-01-01T00:01:00Z"
        ))
        .1,
        r#"{"result":[{"metric":{"__name__":"b","instance":"node-1","job":"gpu"},"values":[[1767225645,"1"],[1767225660,"1"]]}],"resultType":"matrix"}"#
    );
    assert_eq!(
        text(ask("/api/v1/query", "query=1%2F0&time=1")).1,
        r#"{"result":[1,"+Inf"],"resultType":"scalar"}"#
    );
    assert_eq!(
        text(ask("/api/v1/query", "query=%22x%22&time=1")).1,
        r#"{"result":[1,"x"],"resultType":"string"}"#
    );
    assert_eq!(
        text(ask(
            "/api/v1/query_range",
            "query=b&start=1767225600&end=1767225660&step=30"
        ))
        .1,
        r#"{"result":[{"metric":{"__name__":"b","instance":"node-1","job":"gpu"},"values":[[1767225630,"1"],[1767225660,"1"]]}],"resultType":"matrix"}"#
    );
    assert_eq!(
        text(ask("/api/v1/labels", "match[]=a")).1,
        r#"["__name__","instance","job","x"]"#
    );
    assert_eq!(text(ask("/api/v1/label/x/values", "")).1, r#"["1"]"#);
    assert_eq!(
        text(ask("/api/v1/series", "match[]=b")).1,
        r#"[{"__name__":"b","instance":"node-1","job":"gpu"}]"#
    );
    assert_eq!(text(ask("/api/v1/rules", "")).1, r#"{"groups":[]}"#);
    assert_eq!(ask("/api/v1/status/buildinfo", "").1["status"], "success");
    assert_eq!(
        ask("/api/v1/targets", "").1["data"]["activeTargets"][0]["health"],
        "up"
    );
    assert_eq!(ask("/-/ready", "").0, 200);
    assert_eq!(ask("/api/v2/query", "query=a").0, 404);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_answered_as_prometheus_does_is_an_error() {
    let (prometheus, page, _) = start();
    page.say("a{x=\"1\"} 2.5\na{x=\"é\"} 2.5\n");
    scrapes(4).await;
    for (query, status, kind) in [
        ("query=a%20%3D%3D", 400, "bad_data"),
        ("", 400, "bad_data"),
        ("query=a&time=never", 400, "bad_data"),
        ("query=a&timeout=never", 400, "bad_data"),
        ("query=rate(sum(a)[5m:1m])", 422, "execution"),
        (
            "query=max_over_time(max_over_time(a[5m:1m])[5m:1m])",
            422,
            "execution",
        ),
        ("query=sum by (__name__) (a)", 422, "execution"),
        ("query=a{x=%22%C3%A9%22}", 422, "execution"),
        ("query=a[20s] > 1", 400, "bad_data"),
    ] {
        let (code, body) = get(&prometheus, "/api/v1/query", query);
        assert_eq!(
            (code, body["errorType"].as_str().unwrap()),
            (status, kind),
            "{query}: {body}"
        );
        assert_eq!(body["status"], "error");
    }
    for query in [
        "query=a&start=1&end=2&step=0",
        "query=a&start=2&end=1&step=1",
        "query=a&start=0&end=9999999&step=1",
        "query=a[5m]&start=1&end=2&step=1",
    ] {
        assert_eq!(
            get(&prometheus, "/api/v1/query_range", query).0,
            400,
            "{query}"
        );
    }
    let request = QueryRequest::new(hyper::Method::DELETE, "/api/v1/query", "query=a", b"");
    assert_eq!(prometheus.answer(&request).0, 405);
}

#[tokio::test]
async fn the_same_answers_are_served_on_a_socket() {
    let prometheus = Prometheus::unscraped(Clock::system(), SCRAPE);
    let page = Arc::new(Told::default());
    page.say("a 1\n");
    prometheus.add_target("gpu", "node-1", page);
    prometheus.scrape_now();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = tokio_util::sync::CancellationToken::new();
    let (server, ended) = (prometheus.clone(), stop.clone());
    let serving = tokio::spawn(async move { server.serve(listener, ended).await });
    let client = Client::new(Options::new(url)).unwrap();
    let answer = client.query("a", Timestamp::now()).await.unwrap();
    assert_eq!(answer.samples[0].number(), Some(1.0));
    stop.cancel();
    serving.await.unwrap();
}
