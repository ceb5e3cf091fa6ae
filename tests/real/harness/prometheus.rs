//! A Prometheus that scrapes and evaluates every second.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::parts::part;
use super::ports::free_address;
use super::process::Process;
use super::wait::{eventually, seconds};

/// What a Prometheus is to do.
#[derive(Default)]
pub(crate) struct Settings {
    /// Job name and addresses; scraped at `/metrics`, labels honoured.
    pub(crate) targets: Vec<(String, Vec<SocketAddr>)>,
    /// Rule files.
    pub(crate) rules: Vec<PathBuf>,
    /// Where alerts go.
    pub(crate) alertmanager: Option<SocketAddr>,
}

/// A running Prometheus.
pub(crate) struct Prometheus {
    process: Process,
    address: SocketAddr,
    folder: PathBuf,
    http: reqwest::Client,
}

impl Prometheus {
    /// Starts a Prometheus with its data under `folder`, and returns when it
    /// answers queries.
    pub(crate) async fn start(folder: &Path, settings: Settings) -> Self {
        let folder = folder.join("prometheus");
        std::fs::create_dir_all(&folder).expect("a folder");
        write_configuration(&folder, &settings);
        let address = free_address();
        let prometheus = Self {
            process: spawn(&folder, address),
            address,
            folder,
            http: http_client(),
        };
        prometheus.wait_until_ready().await;
        prometheus
    }

    /// The base URL of its API.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it, as in an outage; its data stays.
    pub(crate) fn stop(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same address and data.
    pub(crate) async fn start_again(&mut self) {
        self.process = spawn(&self.folder, self.address);
        self.wait_until_ready().await;
    }

    /// Takes over new settings without a restart.
    pub(crate) async fn reconfigure(&self, settings: Settings) {
        write_configuration(&self.folder, &settings);
        let answer = self
            .http
            .post(format!("{}/-/reload", self.url()))
            .send()
            .await
            .expect("Prometheus answers");
        assert!(
            answer.status().is_success(),
            "reload: {}",
            answer.text().await.unwrap_or_default()
        );
    }

    /// The result vector of an instant query: for each series its labels and
    /// its value as text.
    pub(crate) async fn query(&self, expr: &str) -> Result<Vec<(Value, String)>, String> {
        let answer: Value = self
            .http
            .post(format!("{}/api/v1/query", self.url()))
            .form(&[("query", expr)])
            .send()
            .await
            .map_err(|error| error.to_string())?
            .json()
            .await
            .map_err(|error| error.to_string())?;
        if answer["status"] != "success" {
            return Err(format!("{expr}: {}", answer["error"]));
        }
        let result = answer["data"]["result"]
            .as_array()
            .ok_or_else(|| format!("{expr}: not a vector"))?;
        Ok(result
            .iter()
            .map(|series| {
                let value = series["value"][1].as_str().unwrap_or_default();
                (series["metric"].clone(), value.to_owned())
            })
            .collect())
    }

    /// Waits until `expr` has a result that is not empty, and returns it.
    pub(crate) async fn eventually(
        &self,
        within: std::time::Duration,
        expr: &str,
    ) -> Vec<(Value, String)> {
        eventually(within, &format!("{expr} to have a result"), async || {
            let result = self.query(expr).await?;
            if result.is_empty() {
                return Err("an empty result".to_owned());
            }
            Ok(result)
        })
        .await
    }

    async fn wait_until_ready(&self) {
        eventually(seconds(30), "Prometheus to be ready", async || {
            get_ok(&self.http, &format!("{}/-/ready", self.url())).await
        })
        .await;
    }
}

fn spawn(folder: &Path, address: SocketAddr) -> Process {
    let mut command = Command::new(part("prometheus"));
    command
        .arg("--config.file")
        .arg(folder.join("prometheus.yml"))
        .arg("--storage.tsdb.path")
        .arg(folder.join("data"))
        .args(["--web.listen-address", &address.to_string()])
        .arg("--web.enable-lifecycle")
        // An alert is sent again at once and so ends within seconds of its
        // cause, not within minutes.
        .arg("--rules.alert.resend-delay=1s")
        .args(["--log.level", "warn"]);
    Process::spawn("prometheus", command, folder)
}

fn write_configuration(folder: &Path, settings: &Settings) {
    let jobs: Vec<Value> = settings
        .targets
        .iter()
        .map(|(job, addresses)| {
            json!({
                "job_name": job,
                "honor_labels": true,
                "static_configs": [{"targets": addresses}],
            })
        })
        .collect();
    let alerting = settings.alertmanager.map_or(
        json!({}),
        |address| json!({"alertmanagers": [{"static_configs": [{"targets": [address]}]}]}),
    );
    // JSON is YAML too.
    let configuration = json!({
        "global": {
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "evaluation_interval": "1s",
        },
        "scrape_configs": jobs,
        "rule_files": settings.rules,
        "alerting": alerting,
    });
    std::fs::write(folder.join("prometheus.yml"), configuration.to_string())
        .expect("the configuration can be written");
}

/// A client for loopback servers, whatever proxy the environment names.
pub(crate) fn http_client() -> reqwest::Client {
    // A second test in the same process finds the provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .timeout(seconds(10))
        .build()
        .expect("an HTTP client")
}

/// `Ok` when a GET of `url` is answered with 2xx.
pub(crate) async fn get_ok(http: &reqwest::Client, url: &str) -> Result<(), String> {
    let answer = http
        .get(url)
        .send()
        .await
        .map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return Ok(());
    }
    let status = answer.status();
    Err(format!(
        "{status}: {}",
        answer.text().await.unwrap_or_default()
    ))
}
