//! The product's two processes, run from the binary that cargo built.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nvidia_ml::scenario::{GpuState, SCENARIO_VARIABLE, Scenario};

use super::nodes::GPUS_PER_NODE;
use super::ports::free_address;
use super::process::Process;
use super::prometheus::{get_ok, http_client};
use super::wait::{eventually, seconds};

/// The product's binary.
const BINARY: &str = env!("CARGO_BIN_EXE_gpu-remediator");

/// An exporter with a driver and a kernel log of its own.
pub(crate) struct Exporter {
    _process: Process,
    address: SocketAddr,
    scenario: Scenario,
    scenario_file: PathBuf,
    kernel_log: PathBuf,
    http: reqwest::Client,
}

impl Exporter {
    /// Starts the exporter of the node `name`, with eight healthy GPUs whose
    /// identities are the node's own, and returns when it is ready.
    pub(crate) async fn start(folder: &Path, name: &str) -> Self {
        let folder = folder.join(format!("exporter-{name}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let scenario = scenario_of(name);
        let scenario_file = folder.join("driver.yaml");
        scenario.write(&scenario_file).expect("the scenario");
        let kernel_log = folder.join("kmsg");
        std::fs::write(&kernel_log, "").expect("an empty kernel log");
        let address = free_address();
        let mut command = Command::new(BINARY);
        command
            .arg("exporter")
            .args(["--listen", &address.to_string()])
            .args(["--node-name", name])
            .arg("--kmsg")
            .arg(&kernel_log)
            .arg("--nvml")
            .arg(driver_library())
            .env(SCENARIO_VARIABLE, &scenario_file);
        let exporter = Self {
            _process: Process::spawn(&format!("exporter-{name}"), command, &folder),
            address,
            scenario,
            scenario_file,
            kernel_log,
            http: http_client(),
        };
        eventually(
            seconds(20),
            &format!("the exporter of {name}"),
            async || get_ok(&exporter.http, &format!("http://{address}/readyz")).await,
        )
        .await;
        exporter
    }

    /// Where to scrape.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// UUID of the GPU at `index`.
    pub(crate) fn uuid(&self, index: usize) -> &str {
        &self.scenario.gpus[index].uuid
    }

    /// Writes `line` to the kernel log.
    pub(crate) fn log_line(&self, line: &str) {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&self.kernel_log)
            .expect("the kernel log");
        file.write_all(format!("{line}\n").as_bytes())
            .expect("a line in the kernel log");
    }

    /// The GPU at `index` falls off the bus: the driver answers that it is
    /// lost, and the kernel logs Xid 79.
    pub(crate) fn fall_off_the_bus(&mut self, index: usize) {
        self.change(|scenario| {
            scenario.gpus[index].state = GpuState::Lost;
        });
        self.log_xid(index, 79, "GPU has fallen off the bus.");
    }

    /// The kernel logs `xid` for the GPU at `index`.
    pub(crate) fn log_xid(&self, index: usize, xid: u32, text: &str) {
        // The driver writes the domain with eight digits, the kernel with four.
        let address = self.scenario.gpus[index].pci_bus_id.to_lowercase();
        let address = address[4..].trim_end_matches(".0").to_owned();
        self.log_line(&format!(
            "NVRM: Xid (PCI:{address}): {xid}, pid='<unknown>', name=<unknown>, {text}"
        ));
    }

    /// The GPU at `index` answers again.
    pub(crate) fn heal(&mut self, index: usize) {
        self.change(|scenario| {
            scenario.gpus[index].state = GpuState::Healthy;
            scenario.gpus[index].hang_seconds = 0.0;
        });
    }

    /// Changes what the driver answers from now on.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Scenario)) {
        change(&mut self.scenario);
        self.scenario
            .write(&self.scenario_file)
            .expect("the scenario can be written");
    }

    /// What `/metrics` shows now, and how long it took to answer.
    pub(crate) async fn metrics(&self) -> (String, Duration) {
        let began = std::time::Instant::now();
        let text = page(&self.http, self.address).await;
        (text, began.elapsed())
    }
}

/// Times of the leader election.
#[derive(Clone, Copy)]
pub(crate) struct Election {
    /// How long a lease lasts without a renewal.
    pub(crate) lease: Duration,
    /// After how long without a renewal the leader stops.
    pub(crate) renew: Duration,
    /// Time between two tries.
    pub(crate) retry: Duration,
}

/// What the chart sets.
pub(crate) const CHART_ELECTION: Election = Election {
    lease: seconds(15),
    renew: seconds(10),
    retry: seconds(2),
};

/// Short enough that a test does not wait long for a dead leader's lease.
pub(crate) const SHORT_ELECTION: Election = Election {
    lease: seconds(5),
    renew: seconds(3),
    retry: seconds(1),
};

/// A controller.
pub(crate) struct Controller {
    process: Process,
    identity: String,
    address: SocketAddr,
    http: reqwest::Client,
}

impl Controller {
    /// Starts a controller named `identity` with the rights of `kubeconfig`,
    /// and returns when it is ready.
    pub(crate) async fn start(
        folder: &Path,
        kubeconfig: &Path,
        prometheus: &str,
        identity: &str,
        election: Election,
    ) -> Self {
        let address = free_address();
        let mut controller = Self {
            process: Self::spawn(folder, kubeconfig, prometheus, identity, election, address),
            identity: identity.to_owned(),
            address,
            http: http_client(),
        };
        controller.wait_until_ready().await;
        controller
    }

    fn spawn(
        folder: &Path,
        kubeconfig: &Path,
        prometheus: &str,
        identity: &str,
        election: Election,
        address: SocketAddr,
    ) -> Process {
        let time = |duration: Duration| format!("{}s", duration.as_secs());
        let mut command = Command::new(BINARY);
        command
            .arg("controller")
            .args(["--listen", &address.to_string()])
            .args(["--prometheus", prometheus])
            .args(["--lease-namespace", super::chart::NAMESPACE])
            .args(["--lease-name", super::chart::LEASE])
            .args(["--identity", identity])
            .args(["--lease-duration", &time(election.lease)])
            .args(["--renew-deadline", &time(election.renew)])
            .args(["--retry-period", &time(election.retry)])
            .env("KUBECONFIG", kubeconfig);
        Process::spawn(&format!("controller-{identity}"), command, folder)
    }

    async fn wait_until_ready(&mut self) {
        let url = format!("http://{}/readyz", self.address);
        let http = self.http.clone();
        let process = &mut self.process;
        eventually(
            seconds(30),
            &format!("the controller {}", self.identity),
            async || {
                process.expect_running();
                get_ok(&http, &url).await
            },
        )
        .await;
    }

    /// Its name in the election.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Where to scrape.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it by SIGKILL, at once and without a chance to tidy up.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// The process, for its end and its log.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What `/metrics` shows now.
    pub(crate) async fn metrics(&self) -> String {
        page(&self.http, self.address).await
    }
}

/// The value of `series`, written as in the text format with its labels, on a
/// page of metrics.
///
/// # Panics
///
/// When the page has no such series.
pub(crate) fn sample(page: &str, series: &str) -> f64 {
    page.lines()
        .find_map(|line| {
            let value = line.strip_prefix(series)?.strip_prefix(' ')?;
            value.parse().ok()
        })
        .unwrap_or_else(|| panic!("no {series} in\n{page}"))
}

async fn page(http: &reqwest::Client, address: SocketAddr) -> String {
    http.get(format!("http://{address}/metrics"))
        .send()
        .await
        .expect("/metrics answers")
        .text()
        .await
        .expect("/metrics is text")
}

/// Eight healthy GPUs whose UUIDs belong to the node `name` alone.
fn scenario_of(name: &str) -> Scenario {
    let mut scenario = Scenario::healthy(GPUS_PER_NODE);
    let mut node: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes() {
        // FNV-1a: any function would do that tells names apart.
        node = (node ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    for (index, gpu) in scenario.gpus.iter_mut().enumerate() {
        gpu.uuid = format!(
            "GPU-{:08x}-0000-4000-8000-{index:012x}",
            u32::try_from(node & 0xffff_ffff).unwrap_or_default()
        );
    }
    scenario
}

/// The fake driver, which cargo puts beside the test executable.
fn driver_library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test executable");
    let path = test
        .parent()
        .expect("the executable lies in a folder")
        .join("libnvidia_ml.so");
    assert!(path.is_file(), "no fake driver at {}", path.display());
    path
}
