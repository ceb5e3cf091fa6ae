//! The simulated Prometheus judges as the real one: the same samples, the same questions, the same answers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gpu_remediator::clock::Clock;
use gpu_remediator::sim::prometheus::{
    Page, Prometheus as Simulated, QueryRequest, Value as Result_,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::harness::parts::part;
use super::harness::prometheus::{Prometheus, Settings, http_client};

const SCRAPE: Duration = Duration::from_secs(15);
/// How long the samples go on.
const HOURS: i64 = 2;
const METRICS: [&str; 7] = [
    "gpu_up",
    "gpu_present",
    "gpu_recovery_action",
    "gpu_xid_errors_total",
    "gpu_xid_last_timestamp_seconds",
    "requests_total",
    "temperature",
];

/// Questions that both are asked. Those of the product come first.
const QUESTIONS: &[&str] = &[
    "time() - gpu_xid_last_timestamp_seconds{xid=\"79\"} < 300",
    "time() - gpu_xid_last_timestamp_seconds{xid=\"79\"} < 3000",
    "gpu_up{node=\"a\"} == 1",
    "gpu_up{node=\"a\"} == 1 and on (node, UUID) gpu_recovery_action{node=\"a\"} == 0",
    "gpu_up{node=\"a\"} == 1 and on (node, UUID) gpu_recovery_action{node=\"a\"} == 0 \
     and on (node) min by (node) (gpu_present{node=\"a\"}) >= max by (node) (max_over_time(gpu_present{node=\"a\"}[7d]))",
    "gpu_up{node=\"b\"} == 1 and on (node) min by (node) (gpu_present{node=\"b\"}) \
     >= max by (node) (max_over_time(gpu_present{node=\"b\"}[7d]))",
    "max by (node, UUID) (increase(gpu_xid_errors_total{node=\"a\",xid=~\"46|48|79|95|119|140\"}[5m])) == 0",
    "max by (node, UUID) (increase(gpu_xid_errors_total{xid=~\"48|79\"}[2h])) > 0",
    "count(gpu_up{node=\"a\"})",
    "count(gpu_up{node=\"none\"})",
    "count(gpu_xid_errors_total{node=\"a\",xid=\"79\"} offset 10m)",
    "absent(gpu_up{node=\"none\"})",
    "absent(gpu_up{node=\"none\",gpu=~\"1.*\"})",
    "absent(gpu_up)",
    "absent_over_time(gpu_up{node=\"none\"}[5m])",
    "sum(rate(requests_total{code=~\"5..\"}[2m])) / sum(rate(requests_total[2m])) > 0.01",
    "sum(rate(requests_total{code=~\"5..\"}[2m])) / sum(rate(requests_total[2m])) > bool 0.5",
    "group by (node) (present_over_time(gpu_up[1h]) or present_over_time(gpu_up[7d:30m])) unless on (node) group by (node) (gpu_up)",
    "vector(1)",
    "time()",
    "1 + 2 * 3 ^ 2",
    "1 > bool 2",
    "scalar(gpu_present{node=\"a\"})",
    "scalar(gpu_up)",
    "timestamp(gpu_up)",
    "timestamp(vector(1))",
    "last_over_time(gpu_up[10m])",
    "present_over_time(gpu_up{node=\"b\"}[1m])",
    "min_over_time(gpu_up[30m])",
    "avg_over_time(temperature[10m])",
    "sum_over_time(temperature[3m])",
    "count_over_time(temperature[1m])",
    "count_over_time(temperature[15s])",
    "stddev_over_time(temperature[10m])",
    "quantile_over_time(0.9, temperature[10m])",
    "changes(gpu_up[2h])",
    "resets(requests_total[2h])",
    "increase(requests_total[5m])",
    "rate(requests_total[90s])",
    "irate(requests_total[2m])",
    "delta(temperature[5m])",
    "deriv(temperature[10m])",
    "predict_linear(temperature[10m], 3600)",
    "increase(requests_total[20m] offset 10m)",
    "rate(requests_total[5m] @ end())",
    "gpu_up offset 1h",
    "gpu_up or temperature",
    "gpu_up unless on (node) gpu_present > 3",
    "gpu_up * on (node) group_left () gpu_present",
    "gpu_present * on (node) group_right () gpu_up",
    "gpu_up + gpu_recovery_action",
    "gpu_up + ignoring (xid) gpu_xid_errors_total{xid=\"79\"}",
    "temperature > 40 < 60",
    "temperature > bool 50",
    "50 < temperature",
    "-temperature",
    "temperature % 7",
    "temperature / 0",
    "(temperature - temperature) / 0",
    "sum by (node) (temperature)",
    "sum without (gpu, UUID) (temperature)",
    "avg(temperature)",
    "min(temperature)",
    "max(temperature) - min(temperature)",
    "stddev(temperature)",
    "quantile(0.5, temperature)",
    "topk(2, temperature)",
    "bottomk(1, temperature)",
    "count_values(\"value\", gpu_up)",
    "count by (xid) (gpu_xid_errors_total)",
    "gpu_xid_errors_total{xid!~\"4.*\",node!=\"b\"}",
    "gpu_up{gpu=\"\"}",
    "{__name__=~\"gpu_(up|present)\"}",
    "{node=\"a\",gpu=\"1\"}",
    "label_replace(gpu_up, \"place\", \"$1-x\", \"node\", \"(.*)\")",
    "label_join(gpu_up, \"place\", \"/\", \"node\", \"gpu\")",
    "abs(temperature - 50)",
    "ceil(temperature / 3)",
    "round(temperature, 5)",
    "clamp(temperature, 45, 55)",
    "clamp_max(temperature, 50)",
    "sgn(temperature - 50)",
    "sqrt(temperature)",
    "sort_desc(temperature)",
    "hour()",
    "day_of_week(vector(0))",
    "max_over_time(temperature[1h:5m])",
    "max_over_time((temperature > 50)[20m:1m])",
    "avg_over_time(sum(temperature)[20m:2m])",
    "sum_over_time(gpu_up[10m:30s] offset 5m)",
    "min_over_time(rate(requests_total[5m])[20m:1m])",
    "max_over_time(temperature[10m]) > 3 * avg_over_time(temperature[10m])",
    "count(gpu_up == 0) or vector(0)",
    "gpu_up == 1 or on (node) gpu_present",
    "gpu_up and on () vector(1)",
    "gpu_up and on () (vector(1) > 2)",
    "\"text\"",
    "temperature[1m]",
    // Questions that have no answer.
    "gpu_up + on (node) gpu_xid_errors_total",
    "gpu_up * on (node) group_left () gpu_xid_errors_total",
    "gpu_up ==",
    "sum(",
    "rate(gpu_up)",
    "unknown_function(gpu_up)",
    "{}",
    "gpu_up{node=~\"[\"}",
    "label_replace({__name__=~\"gpu_up|temperature\"}, \"__name__\", \"x\", \"\", \"\")",
    "rate(requests_total[2m]) or gpu_present",
    "sort(rate(requests_total[2m]))",
    "abs(-temperature)",
    "-{__name__=\"gpu_present\"}",
    "gpu_up and 1",
    "1 == 2",
];

/// Questions that both are asked for each step of a range in which the broken GPU is repaired and the server restarted.
const RANGES: &[&str] = &[
    "gpu_up == 0",
    "time() - gpu_xid_last_timestamp_seconds < 1000",
    "rate(requests_total[5m])",
    "gpu_up{node=\"a\"} @ start() + gpu_up{node=\"a\"} @ end()",
    "max_over_time(temperature{node=\"a\"}[10m:1m])",
    "1 + 1",
    "absent(gpu_up == 0)",
    "gpu_up[5m]",
    "sum(gpu_up{node=\"a\"}) or vector(0)",
];

/// A page whose content depends on the time alone.
struct Scripted {
    begin: Timestamp,
}

impl Page for Scripted {
    fn scrape(&self, now: Timestamp) -> Result<String, String> {
        let minute = now.duration_since(self.begin).as_secs() / 60;
        let second = now.duration_since(self.begin).as_secs();
        let mut page = String::new();
        for (node, count) in [("a", 4), ("b", 2)] {
            // The second node goes away after an hour and a half, and has a GPU less before.
            if node == "b" && minute >= 90 {
                continue;
            }
            let present = count - i64::from(node == "b" && minute >= 30);
            let _ = writeln!(page, "gpu_present{{node=\"{node}\"}} {present}");
            for gpu in 0..count {
                let labels = format!("node=\"{node}\",gpu=\"{gpu}\",UUID=\"GPU-{node}{gpu}\"");
                let broken = node == "a" && gpu == 1 && (40..60).contains(&minute);
                let _ = writeln!(page, "gpu_up{{{labels}}} {}", i64::from(!broken));
                let _ = writeln!(
                    page,
                    "gpu_recovery_action{{{labels}}} {}",
                    2 * i64::from(broken)
                );
                let _ = writeln!(
                    page,
                    "temperature{{{labels}}} {}.5",
                    40 + (second / 7 + gpu * 3) % 23
                );
                for xid in [31, 48, 79] {
                    let seen = i64::from(xid == 79 && gpu == 1 && minute >= 40)
                        + i64::from(xid == 79 && gpu == 1 && minute >= 117);
                    let _ = writeln!(
                        page,
                        "gpu_xid_errors_total{{{labels},xid=\"{xid}\"}} {seen}"
                    );
                    if seen > 0 {
                        let at = self.begin.as_second() + if seen > 1 { 117 * 60 } else { 40 * 60 };
                        let _ = writeln!(
                            page,
                            "gpu_xid_last_timestamp_seconds{{{labels},xid=\"{xid}\"}} {at}"
                        );
                    }
                }
            }
        }
        for (code, each) in [("200", 13), ("500", 2)] {
            // The server was restarted after 70 minutes.
            let since = if minute >= 70 {
                second - 70 * 60
            } else {
                second
            };
            let _ = writeln!(page, "requests_total{{code=\"{code}\"}} {}", since * each);
        }
        Ok(page)
    }
}

/// Everything that the simulated one has to say: the samples, as a page with times, and its answers.
struct Told {
    samples: String,
    answers: Vec<(u16, Value)>,
}

/// One question, as it is sent.
#[derive(Clone)]
struct Asked {
    question: &'static str,
    path: &'static str,
    parameters: Vec<(String, String)>,
}

impl Asked {
    fn at(question: &'static str, at: Timestamp) -> Self {
        let parameters = [("query", question.to_owned()), ("time", seconds(at))];
        Self::new(question, "/api/v1/query", parameters)
    }

    fn between(question: &'static str, (start, end): (Timestamp, Timestamp)) -> Self {
        let parameters = [
            ("query", question.to_owned()),
            ("start", seconds(start)),
            ("end", seconds(end)),
            ("step", "37s".to_owned()),
        ];
        Self::new(question, "/api/v1/query_range", parameters)
    }

    fn new<const N: usize>(
        question: &'static str,
        path: &'static str,
        parameters: [(&str, String); N],
    ) -> Self {
        let parameters = parameters
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec();
        Self {
            question,
            path,
            parameters,
        }
    }
}

fn seconds(at: Timestamp) -> String {
    format!("{}", at.as_millisecond() as f64 / 1000.0)
}

fn ask_the_simulated(begin: Timestamp, asked: &[Asked]) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let clock = Clock::starting_at(begin);
        let prometheus = Simulated::new(clock.clone(), SCRAPE);
        prometheus.add_target("gpu", "a", Arc::new(Scripted { begin }));
        tokio::time::sleep(Duration::from_secs(HOURS as u64 * 3600 + 1)).await;
        let mut samples = String::new();
        for metric in METRICS {
            let Ok(Result_::Matrix(series)) = prometheus.instant(&format!("{metric}[1d]")) else {
                panic!("{metric} has no samples");
            };
            // The importer wants counters without their suffix; a gauge is imported as it is.
            let _ = writeln!(samples, "# TYPE {metric} gauge");
            for (labels, points) in series {
                let labels: Vec<_> = (labels.iter().filter(|(name, _)| *name != "__name__"))
                    .map(|(name, value)| format!("{name}=\"{value}\""))
                    .collect();
                for point in points {
                    let at = point.at as f64 / 1000.0;
                    let _ = writeln!(
                        samples,
                        "{metric}{{{}}} {} {at}",
                        labels.join(","),
                        point.value
                    );
                }
            }
        }
        samples.push_str("# EOF\n");
        let answers = asked.iter().map(|asked| {
            let (status, body) = prometheus.answer(&QueryRequest {
                method: reqwest::Method::POST,
                path: asked.path.to_owned(),
                parameters: asked.parameters.clone(),
            });
            (status, serde_json::from_slice(&body).unwrap())
        });
        Told {
            answers: answers.collect(),
            samples,
        }
    })
}

fn import(samples: &str, folder: &Path) {
    let data = folder.join("prometheus").join("data");
    std::fs::create_dir_all(&data).unwrap();
    let page = folder.join("samples.txt");
    std::fs::write(&page, samples).unwrap();
    let output = Command::new(part("promtool"))
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&page, &data])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Why two answers differ, if they do. Series come in any order, unless the question asks for one.
fn difference(question: &str, ours: &(u16, Value), real: &(u16, Value)) -> Option<String> {
    let told = || {
        Some(format!(
            "{question}\n  simulated: {} {}\n  real:      {} {}",
            ours.0, ours.1, real.0, real.1
        ))
    };
    if ours.0 != real.0 || ours.1["errorType"] != real.1["errorType"] {
        return told();
    }
    let (ours, real) = (&ours.1["data"], &real.1["data"]);
    if ours["resultType"] != real["resultType"] {
        return told();
    }
    let sorted = |data: &Value| {
        let mut series = data["result"].as_array().cloned().unwrap_or_default();
        if !question.contains("sort") && data["resultType"] != "scalar" {
            series.sort_by_key(|series| series["metric"].to_string());
        }
        series
    };
    let (ours, real) = (sorted(ours), sorted(real));
    if ours.len() != real.len() || !ours.iter().zip(&real).all(|(a, b)| is_same(a, b)) {
        return told();
    }
    None
}

/// The same, but for the last digits of numbers that were computed.
fn is_same(ours: &Value, real: &Value) -> bool {
    match (ours, real) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (Value::String(a), Value::String(b)) => {
            let numbers = (a.parse::<f64>(), b.parse::<f64>());
            a == b
                || matches!(numbers, (Ok(a), Ok(b)) if (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3))
        }
        (a, b) => a == b || (a.is_number() && a.as_f64() == b.as_f64()),
    }
}

#[tokio::test]
async fn the_simulated_prometheus_answers_as_the_real_one() {
    let folder = tempfile::tempdir().unwrap();
    // The samples must be young enough to be kept.
    let hour = Timestamp::now().as_second() / 3600 * 3600 - (HOURS + 1) * 3600;
    let begin = Timestamp::from_second(hour).unwrap();
    let after = |seconds| begin + SignedDuration::from_secs(seconds);
    // At a scrape, between two, during the fault, and long after the second node went away.
    let times = [
        after(HOURS * 3600),
        after(45 * 60 + 7),
        after(36 * 60),
        after(118 * 60 + 1),
    ];
    let ranges = (after(50 * 60), after(100 * 60));
    let asked: Vec<Asked> = (QUESTIONS.iter())
        .flat_map(|question| times.map(|at| Asked::at(question, at)))
        .chain(
            RANGES
                .iter()
                .map(|question| Asked::between(question, ranges)),
        )
        .collect();
    let for_thread = asked.clone();
    let told = tokio::task::spawn_blocking(move || ask_the_simulated(begin, &for_thread))
        .await
        .unwrap();
    import(&told.samples, folder.path());
    let real = Prometheus::start(folder.path(), Settings::default()).await;
    let http = http_client();
    let mut differences = Vec::new();
    for (asked, ours) in asked.iter().zip(&told.answers) {
        let response = http
            .post(format!("{}{}", real.url(), asked.path))
            .form(&asked.parameters)
            .send()
            .await
            .unwrap();
        let status = response.status().as_u16();
        let real = (status, response.json().await.unwrap());
        differences.extend(
            difference(asked.question, ours, &real)
                .map(|text| format!("{:?}: {text}", &asked.parameters[1..])),
        );
    }
    assert!(
        differences.is_empty(),
        "{} answers differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
}
