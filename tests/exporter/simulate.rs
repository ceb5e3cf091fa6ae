//! Simulated GPUs to which something happens.

use crate::process::{Exporter, Metrics, SOON, command};
use std::process::Stdio;
use std::time::Instant;

async fn play(scenario: &str, more: &[&str]) -> Exporter {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("faults.yaml");
    std::fs::write(&path, scenario).unwrap();
    let path = path.to_str().unwrap().to_owned();
    let mut arguments = vec!["--simulate", &path];
    arguments.extend(more);
    Exporter::start(directory, &arguments).await
}

/// The labels of a GPU by its index.
fn gpu(index: u32) -> String {
    format!(r#"gpu="{index}""#)
}

/// The sum over the series; 0 where there are none.
fn sum(metrics: &Metrics, family: &str, labels: &[&str]) -> f64 {
    metrics.values(family, labels).iter().sum()
}

#[tokio::test]
async fn everything_that_happens_to_a_gpu_is_seen() {
    let exporter = play(
        "\
gpus: 6
model: NVIDIA H100 80GB HBM3
driver_version: 580.95.05
expected: 7
timeline:
  - {at: 200ms, gpu: 0, xid: 79, source: log}
  - {at: 200ms, gpu: 0, lost: true}
  - {at: 200ms, gpu: 0, recovery_action: node_reboot, source: log}
  - {at: 300ms, gpu: 1, hang: true}
  - {at: 300ms, gpu: 2, ecc: {corrected: {to: 500, over: 1s}, uncorrected: {to: 1}}}
  - {at: 300ms, gpu: 2, remapped_rows: {uncorrected: 1, pending: true}}
  - {at: 300ms, gpu: 3, temperature: {to: 95, over: 1s}}
  - {at: 300ms, gpu: 3, throttle: [hw_thermal_slowdown]}
  - {at: 300ms, gpu: 4, link_down: 2}
  - {at: 300ms, line: 'NVRM: Xid (PCI:0000:15:00): 48, pid=7, name=a, DBE'}
",
        &[],
    )
    .await;
    let [lost, hung, ecc, hot, linked, said] = [0, 1, 2, 3, 4, 5].map(gpu);
    let xid = |metrics: &Metrics, gpu: &str, code: &str| {
        metrics.is("gpu_xid_errors_total", &[gpu, code], 1.0)
    };
    exporter
        .until("the GPU is lost", |metrics| {
            metrics.is("gpu_lost", &[&lost], 1.0)
                && metrics.is("gpu_up", &[&lost], 0.0)
                && xid(metrics, &lost, r#"xid="79""#)
                && metrics.is("gpu_recovery_action", &[&lost], 2.0)
        })
        .await;
    exporter
        .until("the call hangs", |metrics| {
            metrics.is("gpu_collect_hung", &[&hung], 1.0)
        })
        .await;
    let metrics = exporter
        .until("all numbers have come to their ends", |metrics| {
            let corrected = r#"type="corrected",counter="volatile""#;
            let uncorrected = r#"type="uncorrected",counter="volatile""#;
            metrics.is("gpu_ecc_errors_total", &[&ecc, corrected], 500.0)
                && metrics.is("gpu_ecc_errors_total", &[&ecc, uncorrected], 1.0)
                && metrics.is("gpu_row_remap_pending", &[&ecc], 1.0)
                && metrics.is("gpu_temperature_celsius", &[&hot, r#"sensor="gpu""#], 95.0)
                && metrics.is("gpu_nvlink_up", &[&linked, r#"link="2""#], 0.0)
                && xid(metrics, &said, r#"xid="48""#)
        })
        .await;
    assert!(metrics.is("gpu_up", &[&ecc], 1.0) && metrics.is("gpu_up", &[&hot], 1.0));
    assert!(metrics.is("gpu_expected", &[], 7.0) && metrics.is("gpu_present", &[], 6.0));
    let info = [&*said, "NVIDIA H100 80GB HBM3", "580.95.05"];
    assert!(metrics.is("gpu_info", &info, 1.0));
    let thermal = r#""hw_thermal_slowdown""#;
    assert_eq!(
        metrics.values("gpu_clock_event_active", &[&hot, thermal]),
        [1.0],
        "{}",
        metrics.0
    );
    assert_eq!(
        metrics
            .values("gpu_xid_last_timestamp_seconds", &[&lost, r#"xid="79""#])
            .len(),
        1,
        "it came while the log was followed"
    );
    // The file is read beside the scenario's log.
    exporter.log("NVRM: Xid (PCI:0000:15:00): 95, pid=7, name=a, Uncontained");
    exporter
        .until("the file's line counts", |metrics| {
            xid(metrics, &said, r#"xid="95""#)
        })
        .await;
}

#[tokio::test]
async fn a_driver_a_gpu_and_a_call_come_back_over_and_over() {
    let exporter = play(
        "\
gpus: 2
repeat: 12s
timeline:
  - {at: 1s, gpu: 1, hang: 5s}
  - {at: 7s, driver: unloaded}
  - {at: 9s, driver: loaded}
",
        &["--expected-gpus", "2"],
    )
    .await;
    let hung = gpu(1);
    let hangs = |metrics: &Metrics| metrics.is("gpu_collect_hung", &[&hung], 1.0);
    exporter.until("the call hangs", hangs).await;
    exporter
        .until("it has come back", |metrics| {
            metrics.is("gpu_up", &[&hung], 1.0)
        })
        .await;
    exporter
        .until("the driver is gone", |metrics| {
            metrics.is("gpu_driver_error", &[r#"code="driver_not_loaded""#], 1.0)
        })
        .await;
    exporter
        .until("the driver is there again", |metrics| {
            metrics.values("gpu_up", &[]) == [1.0, 1.0]
        })
        .await;
    exporter.until("the call hangs once more", hangs).await;
}

#[tokio::test]
async fn nvml_and_the_log_tell_of_an_xid() {
    let exporter = play(
        "\
gpus: 1
repeat: 3s
timeline:
  - {at: 1s, gpu: 0, xid: 95}
  - {at: 2s, gpu: 0, xid: 48, source: nvml}
",
        &[],
    )
    .await;
    let told = |metrics: &Metrics, source: &str| {
        sum(metrics, "gpu_exporter_xid_source_events_total", &[source])
    };
    let (nvml, log) = (r#"source="nvml""#, r#"source="kernel_log""#);
    let xids = |metrics: &Metrics, code: &str| sum(metrics, "gpu_xid_errors_total", &[code]);
    let metrics = exporter
        .until("both have told", |metrics| {
            told(metrics, nvml) >= 4.0
                && told(metrics, log) >= 2.0
                && xids(metrics, r#"xid="48""#) >= 1.0
        })
        .await;
    // Both tell of each 95, and the one alone of each 48.
    let both = xids(&metrics, r#"xid="95""#);
    assert!(both >= told(&metrics, log), "{}", metrics.0);
    let one = xids(&metrics, r#"xid="48""#);
    assert!(both + one <= told(&metrics, nvml) + told(&metrics, log));
}

#[test]
fn a_scenario_that_is_wrong_is_refused_before_anything_listens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("faults.yaml");
    for (text, expected) in [
        (
            Some("gpus: 2\ntimeline:\n  - {at: 1s, gpu: 0, xit: 79}\n"),
            "faults.yaml:3:22: unknown key `xit`",
        ),
        (
            Some("gpus: 2\ntimeline:\n  - {at: 1s, gpu: 7, xid: 79}\n"),
            "faults.yaml:3:5: step 1: there is no GPU 7; they are 0 to 1",
        ),
        (None, "cannot read the scenario"),
    ] {
        match text {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let mut process = command()
            .args(["--node-name", "node-1", "--listen", "127.0.0.1:0"])
            .env("GPU_EXPORTER_SIMULATE", &path)
            .env("GPU_EXPORTER_RELEASE_LISTEN", "none")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that is accepted would run on.
        let deadline = Instant::now() + SOON;
        while process.try_wait().unwrap().is_none() {
            if Instant::now() >= deadline {
                process.kill().unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains(expected) && !said.contains("listening"),
            "{said}"
        );
    }
}
