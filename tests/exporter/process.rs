//! An exporter as a process, and what it serves.

use nvidia_ml::scenario::{SCENARIO_VARIABLE, Scenario};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The library that was built beside this test.
pub(crate) fn fake_library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libnvidia_ml.so");
    assert!(library.exists(), "{} was not built", library.display());
    library
}

pub(crate) struct Exporter {
    directory: TempDir,
    pub(crate) process: Child,
    address: SocketAddr,
    /// Where the driver can be let go, where the exporter listens for that.
    pub(crate) release: Option<SocketAddr>,
    client: reqwest::Client,
}

impl Exporter {
    /// Starts one on the fake driver library.
    pub(crate) async fn on_fake_driver(scenario: &Scenario) -> Self {
        let directory = tempfile::tempdir().unwrap();
        scenario
            .write(&directory.path().join("scenario.yaml"))
            .unwrap();
        Self::start(directory, &["--nvml", fake_library().to_str().unwrap()]).await
    }

    pub(crate) async fn start(directory: TempDir, more: &[&str]) -> Self {
        let mut command = command();
        command
            .args([
                "--listen",
                "127.0.0.1:0",
                "--node-name",
                "node-1",
                "--interval",
                "20ms",
            ])
            .args(
                ["usage", "nvlink", "mig", "details"]
                    .map(|group| format!("--collector.{group}.interval=100ms")),
            )
            // A sample is good for about as long: on a busy machine a thread may get no turn for a second.
            .args(["--call-deadline", "2s", "--log-format", "json", "--kmsg"])
            .arg(directory.path().join("kmsg"))
            // The machine that runs the tests may have GPUs of its own.
            .arg("--sysfs")
            .arg(directory.path().join("sys"))
            .args(more)
            .env("GPU_EXPORTER_RELEASE_LISTEN", "none")
            .env(SCENARIO_VARIABLE, directory.path().join("scenario.yaml"));
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut release = None;
        let address = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the exporter ended");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            let address = || line["address"].as_str().unwrap().parse().unwrap();
            match line["message"].as_str() {
                Some("listening") => break address(),
                Some("listening for /release") => release = Some(address()),
                _ => {}
            }
        };
        // So that its log never blocks it.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exporter = Self {
            directory,
            process,
            address,
            release,
            client: reqwest::Client::new(),
        };
        // From then on what is logged is new, and a count that is not there yet is 0.
        let deadline = Instant::now() + SOON;
        while exporter.get("/readyz", "*/*").await.status() != 200 {
            assert!(Instant::now() < deadline, "the exporter was never ready");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        exporter
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn set(&self, scenario: &Scenario) {
        scenario.write(&self.path("scenario.yaml")).unwrap();
    }

    pub(crate) fn log(&self, line: &str) {
        append(&self.path("kmsg"), line);
    }

    /// Moves the kernel log away, and makes a new one with this line.
    pub(crate) fn rotate(&self, line: &str) {
        let log = self.path("kmsg");
        std::fs::rename(&log, self.path("kmsg.1")).unwrap();
        append(&log, line);
    }

    pub(crate) async fn get(&self, path: &str, accept: &str) -> reqwest::Response {
        let request = self
            .client
            .get(format!("http://{}{path}", self.address))
            .header("accept", accept);
        request.send().await.unwrap()
    }

    /// Asks for the driver to be let go; answers the status and what is said.
    pub(crate) async fn release(&self, query: &str) -> (u16, String) {
        let address = self.release.expect("it listens for that");
        let request = self.client.post(format!("http://{address}/release{query}"));
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Whether the process holds the driver's device open.
    pub(crate) fn holds_device(&self) -> bool {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        files
            .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
            .any(|target| target.ends_with(nvidia_ml::scenario::DEVICE))
    }

    pub(crate) async fn metrics(&self) -> Metrics {
        Metrics(
            self.get("/metrics", "text/plain")
                .await
                .text()
                .await
                .unwrap(),
        )
    }

    /// Scrapes until the condition holds.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Metrics) -> bool) -> Metrics {
        let deadline = Instant::now() + SOON;
        loop {
            let metrics = self.metrics().await;
            if condition(&metrics) {
                return metrics;
            }
            assert!(
                Instant::now() < deadline,
                "not in time: {what}\n{}",
                metrics.0
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-remediator"));
    command.arg("exporter").env_remove("NODE_NAME");
    // The machine may be a node of Kubernetes.
    command.env("GPU_EXPORTER_POD_RESOURCES_SOCKET", "");
    command
}

pub(crate) fn append(path: &Path, line: &str) {
    let mut file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// A scrape in the text format.
pub(crate) struct Metrics(pub(crate) String);

impl Metrics {
    /// The values of the series of a family whose labels hold all of these texts.
    pub(crate) fn values(&self, family: &str, labels: &[&str]) -> Vec<f64> {
        let mut values = Vec::new();
        for line in self.0.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, rest) = series.split_once('{').unwrap_or((series, ""));
            if name == family && labels.iter().all(|label| rest.contains(label)) {
                values.push(value.parse().unwrap());
            }
        }
        values
    }

    pub(crate) fn is(&self, family: &str, labels: &[&str], value: f64) -> bool {
        self.values(family, labels) == [value]
    }
}
