//! How many GPUs there should be, and those that are not there.

use crate::process::{Exporter, fake_library};
use crate::{GPU_0, GPU_1, healthy};
use nvidia_ml::scenario::Scenario;
use std::path::Path;

/// A GPU, as the kernel shows it.
fn on_bus(directory: &Path, address: &str) {
    let device = directory.join("sys/bus/pci/devices").join(address);
    std::fs::create_dir_all(&device).unwrap();
    std::fs::write(device.join("vendor"), "0x10de\n").unwrap();
    std::fs::write(device.join("class"), "0x030200\n").unwrap();
}

#[tokio::test]
async fn a_gpu_that_the_kernel_sees_and_the_driver_does_not_have() {
    let directory = tempfile::tempdir().unwrap();
    for address in ["0000:3b:00.0", "0000:5e:00.0", "0000:af:00.0"] {
        on_bus(directory.path(), address);
    }
    let scenario = Scenario::healthy(2);
    scenario
        .write(&directory.path().join("scenario.yaml"))
        .unwrap();
    let more = ["--nvml", fake_library().to_str().unwrap()].map(str::to_owned);
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let exporter = Exporter::start(directory, &more).await;
    exporter.log("NVRM: GPU at PCI:0000:af:00: GPU-6f3a1f9e-0000-4000-8000-00000000abcd");
    exporter.log("NVRM: GPU 0000:af:00.0: RmInitAdapter failed! (0x24:0x65:1477)");
    let third = r#"node="node-1",UUID="GPU-6f3a1f9e-0000-4000-8000-00000000abcd",pci_bus_id="00000000:AF:00.0"}"#;
    let metrics = exporter
        .until("the third is told of", |metrics| {
            metrics.is("gpu_up", &[third], 0.0)
                && metrics.values("gpu_up", &["gpu="]) == [1.0, 1.0]
                && metrics.is("gpu_init_failures_total", &["AF:00.0"], 1.0)
                && metrics.is("gpu_init_failures_total", &["3B:00.0"], 0.0)
        })
        .await;
    assert!(metrics.is("gpu_expected", &[], 3.0) && metrics.is("gpu_present", &[], 2.0));
    assert_eq!(metrics.values("gpu_on_bus", &[]), [1.0; 3]);
}

#[tokio::test]
async fn a_gpu_that_has_gone_from_the_driver_keeps_who_it_is_and_is_lost() {
    let scenario = Scenario::healthy(2);
    let exporter = Exporter::on_fake_driver(&scenario).await;
    exporter.until("both are healthy", healthy).await;
    let mut fewer = scenario.clone();
    fewer.gpus.remove(0);
    exporter.set(&fewer);
    let metrics = exporter
        .until("it is missing", |metrics| {
            metrics.is("gpu_lost", &[GPU_0], 1.0) && metrics.is("gpu_up", &[GPU_1], 1.0)
        })
        .await;
    assert!(metrics.is("gpu_up", &[GPU_0], 0.0));
    assert!(metrics.is("gpu_expected", &[], 2.0) && metrics.is("gpu_present", &[], 1.0));
    exporter.set(&scenario);
    exporter
        .until("it is back", |metrics| {
            healthy(metrics) && metrics.is("gpu_lost", &[GPU_0], 0.0)
        })
        .await;
}

#[tokio::test]
async fn the_operator_says_how_many_there_should_be() {
    let directory = tempfile::tempdir().unwrap();
    let more = ["--simulate", "2", "--expected-gpus", "8"];
    let exporter = Exporter::start(directory, &more).await;
    exporter
        .until("both are expected and eight are not there", |metrics| {
            metrics.is("gpu_expected", &[], 8.0) && metrics.is("gpu_present", &[], 2.0)
        })
        .await;
}
