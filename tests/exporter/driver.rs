//! Drivers and GPUs that hang, lack something, or are not there.

use crate::process::{Exporter, Metrics, SOON, fake_library};
use crate::{GPU_0, GPU_1, XID_79, healthy};
use nvidia_ml::scenario::{DriverState, GpuState, Scenario};

#[tokio::test]
async fn a_call_that_hangs_stops_neither_the_scrape_nor_the_other_gpu() {
    let mut scenario = Scenario::healthy(2);
    let exporter = Exporter::on_fake_driver(&scenario).await;
    exporter.until("both are healthy", healthy).await;
    scenario.gpus[0].hang_seconds = 600.0;
    exporter.set(&scenario);
    let hung = exporter
        .until("the call hangs", |metrics| {
            metrics.is("gpu_collect_hung", &[GPU_0], 1.0) && metrics.is("gpu_up", &[GPU_1], 1.0)
        })
        .await;
    assert!(hung.is("gpu_collect_hung", &[GPU_1], 0.0) && hung.is("gpu_up", &[GPU_0], 0.0));
    assert!(
        hung.is("gpu_lost", &[GPU_0], 0.0),
        "to hang is not to be lost"
    );
    // The call takes ten minutes: a scrape that waited for it would not come back before this deadline.
    let scrape = tokio::time::timeout(SOON, exporter.metrics()).await;
    assert!(scrape.is_ok(), "a scrape waits for the driver");
    assert_eq!(exporter.get("/healthz", "*/*").await.status(), 200);
    scenario.gpus[1].temperature = 77;
    exporter.set(&scenario);
    let other = |metrics: &Metrics| metrics.is("gpu_temperature_celsius", &[GPU_1], 77.0);
    let fresh = exporter.until("the other GPU is asked on", other).await;
    assert!(fresh.is("gpu_collect_hung", &[GPU_0], 1.0));
    scenario.gpus[0].hang_seconds = 0.0;
    exporter.set(&scenario);
    exporter
        .until("the call ends", |metrics| {
            healthy(metrics) && metrics.is("gpu_collect_hung", &[GPU_0], 0.0)
        })
        .await;
}

#[tokio::test]
async fn a_gpu_that_hangs_or_is_lost_from_the_start_has_an_index_only() {
    let mut scenario = Scenario::healthy(3);
    scenario.gpus[0].hang_seconds = 600.0;
    scenario.gpus[2].state = GpuState::Lost;
    let exporter = Exporter::on_fake_driver(&scenario).await;
    let told = |metrics: &Metrics| {
        metrics.is("gpu_collect_hung", &[r#"node="node-1",gpu="0"}"#], 1.0)
            && metrics.is("gpu_lost", &[r#"node="node-1",gpu="2"}"#], 1.0)
            && metrics.is("gpu_up", &[GPU_1], 1.0)
    };
    let metrics = exporter.until("both are told", told).await;
    assert!(
        metrics.is("gpu_up", &[r#"gpu="0"}"#], 0.0) && metrics.is("gpu_up", &[r#"gpu="2"}"#], 0.0)
    );
    exporter.set(&Scenario::healthy(3));
    let metrics = exporter
        .until("all are up", |metrics| {
            metrics.values("gpu_up", &["UUID="]) == [1.0; 3]
        })
        .await;
    assert_eq!(
        metrics.values("gpu_up", &[]).len(),
        3,
        "the index alone is gone"
    );
}

#[tokio::test]
async fn a_driver_that_hangs_as_a_whole_stops_no_scrape() {
    let mut scenario = Scenario::healthy(2);
    let exporter = Exporter::on_fake_driver(&scenario).await;
    exporter.until("both are healthy", healthy).await;
    scenario.hang_seconds = 600.0;
    exporter.set(&scenario);
    let hung = |metrics: &Metrics| {
        metrics.is("gpu_driver_error", &[r#"code="hung""#], 1.0)
            && metrics.values("gpu_collect_hung", &[]) == [1.0; 2]
    };
    let metrics = exporter.until("it hangs", hung).await;
    assert!(metrics.is("gpu_driver_up", &[], 0.0) && metrics.values("gpu_up", &[]) == [0.0; 2]);
    assert!(metrics.values("gpu_lost", &[]) == [0.0; 2]);
    scenario.hang_seconds = 0.0;
    exporter.set(&scenario);
    exporter.until("both are healthy again", healthy).await;
}

#[tokio::test]
async fn a_driver_that_is_not_there_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libnvidia-ml.so.1");
    let mut scenario = Scenario::healthy(2);
    scenario
        .write(&directory.path().join("scenario.yaml"))
        .unwrap();
    let exporter = Exporter::start(directory, &["--nvml", library.to_str().unwrap()]).await;
    let without = exporter
        .until("its absence is told", |metrics| {
            metrics.is("gpu_driver_up", &[], 0.0)
                && metrics.is("gpu_driver_error", &[r#"code="library_not_found""#], 1.0)
        })
        .await;
    assert!(
        without.values("gpu_up", &[]).is_empty() && without.values("gpu_present", &[]).is_empty()
    );
    assert_eq!(exporter.get("/readyz", "*/*").await.status(), 200);

    exporter.log(XID_79);
    let unknown = [r#"node="node-1",pci_bus_id="00000000:3B:00.0",xid="79""#];
    exporter
        .until("an Xid without a driver counts", |metrics| {
            metrics.is("gpu_xid_errors_total", &unknown, 1.0)
        })
        .await;

    std::fs::copy(fake_library(), exporter.path("next.so")).unwrap();
    std::fs::rename(exporter.path("next.so"), &library).unwrap();
    let found = exporter
        .until("it is found without a restart", healthy)
        .await;
    assert!(
        found.is("gpu_driver_up", &[], 1.0) && found.values("gpu_driver_error", &[]).is_empty()
    );
    assert!(
        found.is("gpu_xid_errors_total", &[GPU_0, r#"xid="79""#], 1.0),
        "the count has its GPU now"
    );

    for (state, code) in [
        (DriverState::NotLoaded, r#"code="driver_not_loaded""#),
        (
            DriverState::VersionMismatch,
            r#"code="lib_rm_version_mismatch""#,
        ),
    ] {
        scenario.driver = state;
        exporter.set(&scenario);
        let gone = |metrics: &Metrics| metrics.is("gpu_driver_error", &[code], 1.0);
        let gone = exporter.until("it goes", gone).await;
        assert_eq!(
            gone.values("gpu_up", &[]),
            [0.0, 0.0],
            "who they are stays known"
        );
        let version = [r#"driver_version="570.124.06""#];
        assert_eq!(gone.values("gpu_info", &version), [1.0, 1.0]);
        scenario.driver = DriverState::Loaded;
        exporter.set(&scenario);
        exporter.until("it comes again", healthy).await;
    }
}

#[tokio::test]
async fn what_a_gpu_does_not_support_is_absent_and_what_fails_is_counted() {
    let mut scenario = Scenario::healthy(2);
    scenario.gpus[0].not_supported = vec![
        "nvmlDeviceGetTotalEccErrors".into(),
        "nvmlDeviceGetSerial".into(),
    ];
    scenario.gpus[0].absent = vec!["nvmlDeviceGetTemperature".into()];
    scenario.gpus[0].recovery_action = None;
    scenario.gpus[1]
        .errors
        .insert("nvmlDeviceGetTemperature".into(), 999);
    let exporter = Exporter::on_fake_driver(&scenario).await;
    let metrics = exporter.until("both are up", healthy).await;
    for family in [
        "gpu_ecc_errors_total",
        "gpu_temperature_celsius",
        "gpu_recovery_action",
        "gpu_nvml_errors_total",
    ] {
        assert!(metrics.values(family, &[GPU_0]).is_empty(), "{family}");
    }
    assert!(metrics.values("gpu_info", &["serial=", GPU_0]).is_empty());
    let failures = [GPU_1, r#"call="nvmlDeviceGetTemperature",code="unknown""#];
    assert!(metrics.values("gpu_nvml_errors_total", &failures)[0] >= 1.0);
}
