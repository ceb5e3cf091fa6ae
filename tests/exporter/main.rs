//! The exporter as a process, with the real NVML wrapper on a fake driver library and a kernel log in a file.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod collectors;
mod driver;
mod events;
mod failure_cases;
mod kubelet;
mod machines;
mod pod_resources;
mod presence;
mod process;
mod release;
mod simulate;
mod web_config;

use nvidia_ml::scenario::{GpuState, Scenario};
use process::{Exporter, Metrics, SOON, append, command};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

const XID_79: &str =
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0";

const GPU_0: &str = r#"node="node-1",gpu="0",UUID="GPU-00000000-0000-4000-8000-0000000000f0",pci_bus_id="00000000:3B:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3""#;
const GPU_1: &str = r#"UUID="GPU-00000001-0000-4000-8000-0000000000f0""#;

fn healthy(metrics: &Metrics) -> bool {
    metrics.values("gpu_up", &[]) == [1.0, 1.0]
}

#[tokio::test]
async fn a_gpu_falls_off_the_bus_and_comes_back() {
    let mut scenario = Scenario::healthy(2);
    scenario.gpus[0].ecc.corrected.volatile = 7;
    let exporter = Exporter::on_fake_driver(&scenario).await;
    let metrics = exporter.until("both are healthy", healthy).await;
    assert!(metrics.is("gpu_up", &[GPU_0], 1.0));
    assert!(metrics.is("gpu_driver_up", &[], 1.0) && metrics.is("gpu_present", &[], 2.0));
    assert!(metrics.is(
        "gpu_info",
        &[
            GPU_0,
            r#"driver_version="570.124.06""#,
            r#"serial="1650000000000""#
        ],
        1.0
    ));
    assert!(metrics.is(
        "gpu_ecc_errors_total",
        &[GPU_0, r#"type="corrected",counter="volatile""#],
        7.0
    ));
    assert!(metrics.is("gpu_temperature_celsius", &[GPU_0, r#"sensor="gpu""#], 41.0));
    assert!(metrics.is("gpu_recovery_action", &[GPU_0], 0.0));
    assert!(
        metrics.is("gpu_xid_errors_total", &[GPU_0, r#"xid="79""#], 0.0),
        "it starts at 0"
    );
    assert!(
        metrics
            .values("gpu_xid_errors_total", &[r#"xid="13""#])
            .is_empty(),
        "application errors are not watched"
    );
    assert!(
        metrics
            .values("gpu_xid_last_timestamp_seconds", &[])
            .is_empty()
    );

    let before = seconds_now();
    scenario.gpus[0].state = GpuState::Lost;
    exporter.set(&scenario);
    exporter.log("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.");
    exporter.log(XID_79);
    exporter.log("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)");
    let lost = exporter
        .until("GPU 0 is lost", |metrics| {
            metrics.is("gpu_up", &[GPU_0], 0.0)
                && metrics.is("gpu_lost", &[GPU_0], 1.0)
                && metrics.is("gpu_up", &[GPU_1], 1.0)
                && metrics.is("gpu_xid_errors_total", &[GPU_0, r#"xid="154""#], 1.0)
        })
        .await;
    assert!(lost.is("gpu_lost", &[GPU_1], 0.0));
    assert!(lost.is("gpu_info", &[GPU_0], 1.0), "who it is stays known");
    assert!(
        lost.is("gpu_xid_errors_total", &[GPU_0, r#"xid="79""#], 1.0),
        "the line and the Xid are one event"
    );
    assert!(lost.is("gpu_xid_errors_total", &[GPU_1, r#"xid="79""#], 0.0));
    let at = lost.values("gpu_xid_last_timestamp_seconds", &[GPU_0, r#"xid="79""#]);
    assert!(
        at.len() == 1 && at[0] >= before && at[0] <= seconds_now(),
        "{at:?}"
    );
    assert!(
        lost.is("gpu_recovery_action", &[GPU_0], 2.0),
        "the log tells what the driver cannot"
    );
    assert!(
        lost.values("gpu_temperature_celsius", &[GPU_0]).is_empty(),
        "a lost GPU has no temperature"
    );

    scenario.gpus[0].state = GpuState::Healthy;
    exporter.set(&scenario);
    let back = exporter.until("both are healthy again", healthy).await;
    assert!(back.is("gpu_lost", &[GPU_0], 0.0) && back.is("gpu_recovery_action", &[GPU_0], 0.0));
    assert!(
        back.is("gpu_xid_errors_total", &[GPU_0, r#"xid="79""#], 1.0),
        "what was counted stays"
    );
    exporter.log(XID_79);
    exporter
        .until("the second event counts", |metrics| {
            metrics.is("gpu_xid_errors_total", &[GPU_0, r#"xid="79""#], 2.0)
        })
        .await;
}

fn seconds_now() -> f64 {
    jiff::Timestamp::now().as_duration().as_secs_f64()
}

#[tokio::test]
async fn history_keeps_its_time_and_without_one_is_no_news() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("kmsg");
    append(&log, &format!("2026-01-02T03:04:05Z node kernel: {XID_79}"));
    append(&log, " DEVICE=+pci:0000:3b:00.0");
    append(
        &log,
        "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=7, name=a b, DBE\\x0aNVRM: more",
    );
    append(
        &log,
        "May 10 09:00:00 node kernel: NVRM: Xid (PCI:0000:3b:00): 95, pid=7, name=a, uncontained",
    );
    append(
        &log,
        "[9999999.123456] NVRM: Xid (PCI:0000:3b:00): 140, pid=7, name=a, unrecovered",
    );
    let exporter = Exporter::start(directory, &["--simulate", "1"]).await;
    let bus = r#"pci_bus_id="00000000:3B:00.0""#;
    let read = |metrics: &Metrics| metrics.is("gpu_xid_errors_total", &[bus, r#"xid="140""#], 1.0);
    let metrics = exporter.until("history is read", read).await;
    for code in [r#"xid="48""#, r#"xid="95""#] {
        assert!(metrics.is("gpu_xid_errors_total", &[bus, code], 1.0));
    }
    assert_eq!(
        metrics.values("gpu_xid_last_timestamp_seconds", &[]),
        [1_767_323_045.0],
        "only what tells the time of day has a time"
    );
}

/// Of a new thread for each page the allocator keeps the memory of a page.
#[tokio::test]
async fn the_threads_that_write_pages_stay() {
    let directory = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(directory, &["--simulate", "1"]).await;
    exporter
        .until("it is up", |metrics| metrics.values("gpu_up", &[]) == [1.0])
        .await;
    let tasks = format!("/proc/{}/task", exporter.process.id());
    let threads = || -> BTreeSet<OsString> {
        let all = std::fs::read_dir(&tasks).unwrap();
        let all = all.map(|task| task.unwrap());
        let of_runtime = all.filter(|task| {
            // One may end while it is looked at.
            let name = std::fs::read_to_string(task.path().join("comm"));
            name.is_ok_and(|name| name.starts_with("tokio"))
        });
        of_runtime.map(|task| task.file_name()).collect()
    };
    let before = threads();
    assert!(!before.is_empty(), "somebody wrote the page");
    // Without our doing, one that has nothing to do ends after 10 s.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(12) {
        assert!(threads().is_superset(&before), "{:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn simulated_gpus_in_both_formats() {
    let directory = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(directory, &["--simulate", "8"]).await;
    let text = exporter
        .until("eight are up", |metrics| {
            metrics.values("gpu_up", &[]) == [1.0; 8]
        })
        .await;
    let mut families = 0;
    for line in text.0.lines() {
        if let Some(name) = line.strip_prefix("# TYPE ") {
            let (name, kind) = name.split_once(' ').unwrap();
            assert!(matches!(kind, "gauge" | "counter"), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            assert!(text.0.contains(&format!("# HELP {name} ")), "{line}");
            families += 1;
        }
    }
    assert!(families >= 10);
    let response = exporter.get("/metrics", "text/plain").await;
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );

    let response = exporter.get("/metrics", OPENMETRICS).await;
    assert_eq!(
        response.headers()["content-type"],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let open = response.text().await.unwrap();
    assert!(open.ends_with("# EOF\n"));
    assert!(
        open.contains("# TYPE gpu_xid_errors counter\n")
            && open.contains("\ngpu_xid_errors_total{")
    );
    assert!(!text.0.contains("# EOF"));
}

#[tokio::test]
async fn each_log_line_is_seen_while_a_driver_call_hangs() {
    let mut scenario = Scenario::healthy(1);
    scenario.gpus[0].hang_seconds = 600.0;
    let exporter = Exporter::on_fake_driver(&scenario).await;
    exporter
        .until("the call hangs", |metrics| {
            metrics.is("gpu_collect_hung", &[], 1.0)
        })
        .await;
    for count in 1..=3 {
        exporter.log("NVRM: Xid (PCI:0000:3b:00): 48, pid=7, name=a, DBE");
        exporter
            .until("the line counts", |metrics| {
                metrics.is(
                    "gpu_xid_errors_total",
                    &[r#"00:3B:00.0",xid="48""#],
                    f64::from(count),
                )
            })
            .await;
    }
}

#[tokio::test]
async fn it_ends_on_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let mut exporter = Exporter::start(directory, &["--simulate", "2"]).await;
    exporter.until("both are up", healthy).await;
    let id = exporter.process.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    let deadline = Instant::now() + SOON;
    let status = loop {
        if let Some(status) = exporter.process.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it did not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(status.success(), "{status}");
}

#[test]
fn bad_flags_are_said_so() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, expected) in [
        (vec!["--simulate", "1"], "--node-name"),
        (vec!["--node-name", "", "--simulate", "1"], "--node-name"),
        (vec!["--node-name", "a", "--simulate", "0"], "--simulate"),
        (
            vec!["--node-name", "a", "--simulate", "1", "--nvml", "x"],
            "cannot be used with",
        ),
        (
            vec!["--node-name", "a", "--interval", "soon"],
            "not a duration such as 500ms",
        ),
        (vec!["--node-name", "a", "--listen", "nowhere"], "--listen"),
        (
            vec![
                "--node-name",
                "a",
                "--simulate",
                "1",
                "--log-level",
                "x=loud",
            ],
            "no log level",
        ),
        (
            vec!["--node-name", "a", "--simulate", "1", "--listen", &address],
            "another process already uses this port",
        ),
    ] {
        let output = command().args(&arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains(expected),
            "{arguments:?}: {said}"
        );
    }
}
