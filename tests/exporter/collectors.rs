//! Collectors that are switched off, and the configuration as it is printed.

use crate::process::{Exporter, Metrics, command, fake_library};
use nvidia_ml::machines::Machine;
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

/// An H100 machine, a kernel that sees one of its GPUs, and a log with an Xid.
fn machine() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let scenario = directory.path().join("scenario.yaml");
    Machine::H100.scenario().write(&scenario).unwrap();
    on_bus(directory.path());
    let line = "NVRM: Xid (PCI:0000:f0:00): 48, pid=7, name=a, DBE";
    crate::append(&directory.path().join("kmsg"), line);
    directory
}

fn on_bus(directory: &Path) {
    let device = directory.join("sys/bus/pci/devices/0000:f1:00.0");
    std::fs::create_dir_all(&device).unwrap();
    std::fs::write(device.join("vendor"), "0x10de\n").unwrap();
    std::fs::write(device.join("class"), "0x030200\n").unwrap();
}

/// The collectors that say how they are.
fn collectors(metrics: &Metrics) -> BTreeSet<String> {
    let lines = metrics.0.lines();
    let successes = lines.filter(|line| line.starts_with("gpu_exporter_collector_success{"));
    let names = successes.filter_map(|line| line.split_once("collector=\"")?.1.split_once('"'));
    names.map(|(name, _)| name.to_owned()).collect()
}

fn has(metrics: &Metrics, family: &str) -> bool {
    let start = format!("{family}{{");
    metrics.0.lines().any(|line| line.starts_with(&start))
}

/// A family of each collector, which is there with it and not without.
const OF: [(&str, &str); 9] = [
    ("nvml", "gpu_up"),
    ("usage", "gpu_utilization_ratio"),
    ("nvlink", "gpu_nvlink_up"),
    ("mig", "gpu_mig_instance_info"),
    ("details", "gpu_power_limit_watts"),
    ("nvml_events", "gpu_driver_events_total"),
    ("kernel_log", "gpu_exporter_kernel_log_lines_total"),
    ("pci_bus", "gpu_on_bus"),
    ("pod_resources", "gpu_exporter_pod_resources_errors_total"),
];

#[tokio::test]
async fn each_collector_can_be_left_out_and_takes_only_its_own_with_it() {
    let library = fake_library();
    let nvml = ["--nvml", library.to_str().unwrap()];
    // Nobody listens there, which counts as an error of its collector.
    let socket = ["--pod-resources-socket", "/nonexistent/kubelet.sock"];
    let all: BTreeSet<String> = OF.iter().map(|(name, _)| (*name).to_owned()).collect();
    // Whether H100s that are not divided have instances.
    let shown = |name: &str| name != "mig";
    for off in [None].into_iter().chain(OF.map(|(name, _)| Some(name))) {
        let flag = off.map(|name| format!("--no-collector.{name}"));
        let mut arguments = [nvml, socket].concat();
        arguments.extend(flag.as_deref());
        let exporter = Exporter::start(machine(), &arguments).await;
        let without_nvml = ["nvml", "usage", "nvlink", "mig", "details", "nvml_events"];
        let expected: BTreeSet<String> = match off {
            None => all.clone(),
            Some("nvml") => {
                let all = all
                    .iter()
                    .filter(|name| !without_nvml.contains(&name.as_str()));
                all.cloned().collect()
            }
            Some(off) => all.iter().filter(|name| *name != off).cloned().collect(),
        };
        // The log's GPU is shown once each GPU of the driver has told who it is.
        let logged =
            |metrics: &Metrics| metrics.is("gpu_xid_errors_total", &[r#"xid="48""#, "F0:00"], 1.0);
        let metrics = exporter
            .until("each has said how it is", |metrics| {
                collectors(metrics) == expected && logged(metrics) == (off != Some("kernel_log"))
            })
            .await;
        for (name, family) in OF.iter().filter(|(name, _)| shown(name)) {
            assert_eq!(
                has(&metrics, family),
                expected.contains(*name),
                "{off:?}: {family}"
            );
        }
        assert_eq!(exporter.get("/readyz", "*/*").await.status(), 200);
        if let Some(off) = off {
            let off = format!(r#"collector="{off}""#);
            assert!(!metrics.0.contains(&off), "{off}");
        }
    }
}

#[tokio::test]
async fn without_a_log_the_watched_xids_start_at_0_and_the_driver_tells_of_them() {
    let library = fake_library();
    let arguments = [
        "--nvml",
        library.to_str().unwrap(),
        "--no-collector.kernel_log",
    ];
    let exporter = Exporter::start(machine(), &arguments).await;
    let listened_to = |metrics: &Metrics| {
        let events = [r#"collector="nvml_events""#];
        metrics.values("gpu_exporter_collector_success", &events) == [1.0; 8]
    };
    let metrics = exporter.until("all are listened to", listened_to).await;
    let counts = metrics.values("gpu_xid_errors_total", &[r#"xid="79""#]);
    assert_eq!(counts, [0.0; 8]);
    let mut scenario = Machine::H100.scenario();
    scenario.gpus[0]
        .events
        .push(nvidia_ml::readings::Event::xid(79));
    exporter.set(&scenario);
    exporter
        .until("it counts", |metrics| {
            let counts = metrics.values("gpu_xid_errors_total", &[r#"xid="79""#]);
            counts.iter().sum::<f64>() == 1.0
        })
        .await;
}

#[test]
fn the_configuration_is_printed_and_nothing_is_begun() {
    let output = command()
        .args([
            "--node-name",
            "a",
            "--listen",
            "203.0.113.1:1",
            "--print-config",
        ])
        .env("GPU_EXPORTER_COLLECTOR_MIG", "false")
        .env("GPU_EXPORTER_COLLECTOR_USAGE_INTERVAL", "15s")
        .args(["--log-format", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "node-name: a # --node-name",
        "listen: 203.0.113.1:1 # --listen",
        "collector.mig: false # GPU_EXPORTER_COLLECTOR_MIG",
        "collector.usage.interval: 15s # GPU_EXPORTER_COLLECTOR_USAGE_INTERVAL",
        "log-format: json # --log-format",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

#[test]
fn a_flag_counts_more_than_its_variable() {
    for (variable, flags, expected) in [
        (
            "false",
            vec!["--collector.mig"],
            "collector.mig: true # --collector.mig",
        ),
        (
            "true",
            vec!["--no-collector.mig"],
            "collector.mig: false # --no-collector.mig",
        ),
        (
            "false",
            vec!["--no-collector.mig"],
            "collector.mig: false # --no-collector.mig",
        ),
        (
            "true",
            vec!["--no-collector.mig", "--collector.mig"],
            "collector.mig: true # --collector.mig",
        ),
        (
            "no",
            vec![],
            "collector.mig: false # GPU_EXPORTER_COLLECTOR_MIG",
        ),
        (
            "1",
            vec![],
            "collector.mig: true # GPU_EXPORTER_COLLECTOR_MIG",
        ),
    ] {
        let output = command()
            .args(["--node-name", "a", "--print-config"])
            .args(&flags)
            .env("GPU_EXPORTER_COLLECTOR_MIG", variable)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
}

#[test]
fn collectors_that_cannot_be_are_refused() {
    for (arguments, expected) in [
        (
            vec!["--no-collector.nvml", "--collector.mig"],
            "--collector.mig needs --collector.nvml",
        ),
        (
            vec!["--collector.disable-defaults"],
            "every collector is off",
        ),
        (
            vec!["--collector.gpus"],
            "unexpected argument '--collector.gpus'",
        ),
        (
            vec!["--collector.details.interval", "2h"],
            "must be from 10ms to 1h",
        ),
    ] {
        let output = command()
            .args(["--node-name", "a", "--simulate", "1"])
            .args(&arguments)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains(expected),
            "{arguments:?}: {said}"
        );
    }
}
