//! The driver is let go on request, so that a GPU can be reset.

use crate::process::{Exporter, SOON, command, fake_library};
use crate::{GPU_0, XID_79, healthy};
use nvidia_ml::scenario::{DEVICE, Scenario};
use std::process::Command;
use std::time::{Duration, Instant};

async fn holding(scenario: &Scenario) -> Exporter {
    let directory = tempfile::tempdir().unwrap();
    scenario
        .write(&directory.path().join("scenario.yaml"))
        .unwrap();
    std::fs::write(directory.path().join(DEVICE), "").unwrap();
    let library = fake_library();
    let more = [
        "--nvml",
        library.to_str().unwrap(),
        "--release-listen",
        "127.0.0.1:0",
    ];
    let exporter = Exporter::start(directory, &more).await;
    exporter.until("both are healthy", healthy).await;
    assert!(exporter.holds_device());
    exporter
}

#[tokio::test]
async fn the_device_is_let_go_and_taken_again_by_itself() {
    let exporter = holding(&Scenario::healthy(2)).await;
    assert!(
        exporter
            .metrics()
            .await
            .is("gpu_exporter_released", &[], 0.0)
    );
    let (status, said) = exporter.release("?for=1h").await;
    assert_eq!((status, said.as_str()), (200, "released for 3600 s\n"));
    assert!(!exporter.holds_device());
    let metrics = exporter.metrics().await;
    assert!(metrics.is("gpu_exporter_released", &[], 1.0));
    // Nobody knows, and who it is stays known.
    assert!(metrics.values("gpu_up", &[]).is_empty());
    assert!(metrics.values("gpu_driver_up", &[]).is_empty());
    assert!(metrics.is("gpu_lost", &[GPU_0], 0.0));
    assert_eq!(metrics.values("gpu_info", &[GPU_0]), [1.0]);
    assert!(metrics.is("gpu_expected", &[], 2.0));
    // The log is read on.
    exporter.log(XID_79);
    exporter
        .until("the Xid counts", |metrics| {
            metrics.is("gpu_xid_errors_total", &[GPU_0, r#"xid="79""#], 1.0)
        })
        .await;
    assert!(!exporter.holds_device());
    // Asked for anew, and for a short time: it ends by itself.
    assert_eq!(exporter.release("?for=1s").await.0, 200);
    let metrics = exporter.until("it is taken again", healthy).await;
    assert!(metrics.is("gpu_exporter_released", &[], 0.0));
    assert!(exporter.holds_device());
    assert!(metrics.is("gpu_xid_errors_total", &[GPU_0, r#"xid="79""#], 1.0));
}

#[tokio::test]
async fn it_is_taken_again_on_request_and_let_go_by_a_signal() {
    let exporter = holding(&Scenario::healthy(2)).await;
    let pid = exporter.process.id().to_string();
    let sent = Command::new("kill").args(["-USR1", &pid]).status();
    assert!(sent.unwrap().success());
    exporter
        .until("it is released", |metrics| {
            metrics.is("gpu_exporter_released", &[], 1.0)
        })
        .await;
    let deadline = Instant::now() + SOON;
    while exporter.holds_device() {
        assert!(Instant::now() < deadline, "the device is still held");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        exporter.release("?for=0s").await,
        (200, "taken again\n".to_owned())
    );
    exporter.until("both are healthy", healthy).await;
}

#[tokio::test]
async fn a_call_that_hangs_keeps_the_driver_and_whoever_asked_is_told() {
    let mut scenario = Scenario::healthy(2);
    let exporter = holding(&scenario).await;
    scenario.gpus[0].hang_seconds = 600.0;
    exporter.set(&scenario);
    exporter
        .until("the call hangs", |metrics| {
            metrics.is("gpu_collect_hung", &[GPU_0], 1.0)
        })
        .await;
    let (status, said) = exporter.release("").await;
    assert_eq!(status, 503);
    assert!(said.contains("has not ended yet"), "{said}");
    assert!(exporter.holds_device());
    // Nobody asks it any more, but it is not let go.
    let metrics = exporter.metrics().await;
    assert!(metrics.is("gpu_exporter_released", &[], 0.0));
    assert!(metrics.values("gpu_up", &[]).is_empty());
    // Taken back and asked for again, which opens another session.
    assert_eq!(exporter.release("?for=0s").await.0, 200);
    exporter
        .until("it is taken again", |metrics| {
            metrics.is("gpu_driver_up", &[], 1.0)
        })
        .await;
    assert_eq!(exporter.release("").await.0, 503);
    assert!(exporter.holds_device());
}

#[tokio::test]
async fn bad_requests_and_bad_addresses() {
    let exporter = holding(&Scenario::healthy(2)).await;
    for query in ["?for=soon", "?for=7h", "?since=1m"] {
        let (status, said) = exporter.release(query).await;
        assert_eq!(status, 400, "{query}");
        assert!(said.contains("10m"), "{said}");
    }
    assert!(exporter.holds_device());
    // It is not to be had where everybody can ask.
    assert_eq!(exporter.get("/release", "*/*").await.status(), 404);
    let refused = command()
        .args(["--node-name", "a", "--release-listen", "0.0.0.0:9414"])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("can be reached from other machines"),
        "{said}"
    );
    // An address that was asked for and is taken is an error; the default one is not.
    let taken = exporter.release.unwrap().to_string();
    let refused = command()
        .args(["--node-name", "a", "--listen", "127.0.0.1:0"])
        .args(["--release-listen", &taken])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains(&taken), "{said}");
}
