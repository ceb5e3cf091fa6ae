//! NVML events and the kernel log are one stream.

use crate::process::{Exporter, Metrics};
use nvidia_ml::machines::Machine;
use nvidia_ml::readings::Event;
use nvidia_ml::scenario::{GpuState, Scenario};
use std::time::{Duration, Instant};

const XID_48: &str = "NVRM: Xid (PCI:0000:3b:00): 48, pid=7, name=a, DBE (double bit error)";

fn one_h100() -> Scenario {
    let mut scenario = Machine::H100.scenario();
    scenario.gpus.truncate(1);
    scenario
}

/// Its events count from when they are registered for.
fn listened_to(metrics: &Metrics) -> bool {
    !metrics.values("gpu_driver_events_total", &[]).is_empty()
}

fn xids(code: u32, events: f64) -> impl Fn(&Metrics) -> bool {
    let label = format!(r#"xid="{code}""#);
    move |metrics: &Metrics| metrics.is("gpu_xid_errors_total", &[&label], events)
}

fn told(source: &str, events: f64) -> impl Fn(&Metrics) -> bool {
    let label = format!(r#"source="{source}""#);
    move |metrics: &Metrics| metrics.is("gpu_exporter_xid_source_events_total", &[&label], events)
}

#[tokio::test]
async fn an_xid_that_both_tell_is_one_and_one_that_only_nvml_tells_is_not_lost() {
    let mut scenario = one_h100();
    // What happened before is not told.
    scenario.gpus[0].events.push(Event::xid(95));
    let exporter = Exporter::on_fake_driver(&scenario).await;
    exporter.until("it is listened to", listened_to).await;
    // Where the machine is so busy that more than a second may lie between the two, they may be two: then once again.
    let (mut times, mut before) = (0.0, 0.0);
    loop {
        times += 1.0;
        let began = Instant::now();
        scenario.gpus[0].events.push(Event::xid(48));
        exporter.set(&scenario);
        exporter.log(XID_48);
        let both =
            |metrics: &Metrics| told("nvml", times)(metrics) && told("kernel_log", times)(metrics);
        let metrics = exporter.until("both have told", both).await;
        let events = metrics.values("gpu_xid_errors_total", &[r#"xid="48""#])[0];
        assert!(xids(95, 0.0)(&metrics));
        if began.elapsed() < Duration::from_secs(1) {
            assert_eq!(events, before + 1.0);
            break;
        }
        assert!(events == before + 1.0 || events == before + 2.0 && times < 20.0);
        before = events;
    }

    scenario.gpus[0].events.push(Event::xid(63));
    exporter.set(&scenario);
    let metrics = exporter.until("the other counts", xids(63, 1.0)).await;
    let label = [r#"xid="63""#];
    assert_eq!(
        metrics
            .values("gpu_xid_last_timestamp_seconds", &label)
            .len(),
        1
    );

    // The log has its number, so it is not counted without one.
    scenario.gpus[0].events.push(Event::xid(999));
    scenario.gpus[0].events.push(Event {
        kind: 0x8000,
        ..Event::xid(0)
    });
    exporter.set(&scenario);
    let metrics = exporter
        .until("the unknown one is told", |metrics| {
            told("nvml", times + 2.0)(metrics)
                && metrics.is(
                    "gpu_driver_events_total",
                    &[r#"event="recovery_action""#],
                    1.0,
                )
        })
        .await;
    assert!(
        metrics
            .values("gpu_xid_errors_total", &[r#"xid="999""#])
            .is_empty()
    );
}

/// A line that tells no time has that of its being read, and a new log is found some time after it is there.
#[tokio::test]
async fn an_xid_that_is_the_first_line_of_a_new_log_is_the_one_that_nvml_told() {
    let mut scenario = one_h100();
    let exporter = Exporter::on_fake_driver(&scenario).await;
    exporter.until("it is listened to", listened_to).await;
    // A busy machine may be late once; whoever looks too seldom is late each time.
    for (times, code) in (1..).map(f64::from).zip([48_u32, 63, 64, 94, 95]) {
        exporter.log("usb 1-1: new high-speed USB device number 4");
        let read = |metrics: &Metrics| {
            metrics.is(
                "gpu_exporter_kernel_log_lines_total",
                &[],
                2.0 * times - 1.0,
            )
        };
        exporter.until("the line is read", read).await;
        scenario.gpus[0].events.push(Event::xid(u64::from(code)));
        exporter.set(&scenario);
        exporter.rotate(&format!(
            "NVRM: Xid (PCI:0000:3b:00): {code}, pid=7, name=a, told by both"
        ));
        let both =
            |metrics: &Metrics| told("nvml", times)(metrics) && told("kernel_log", times)(metrics);
        let metrics = exporter.until("both have told", both).await;
        if xids(code, 1.0)(&metrics) {
            return;
        }
        assert!(xids(code, 2.0)(&metrics));
    }
    panic!("each time it was counted once for NVML and once for the log");
}

#[tokio::test]
async fn a_gpu_that_was_lost_and_a_driver_that_went_are_listened_to_again_and_counts_stay() {
    let mut scenario = one_h100();
    let exporter = Exporter::on_fake_driver(&scenario).await;
    exporter.until("it is listened to", listened_to).await;
    scenario.gpus[0].events.push(Event::xid(79));
    exporter.set(&scenario);
    exporter.until("the first counts", xids(79, 1.0)).await;
    scenario.gpus[0].state = GpuState::Lost;
    exporter.set(&scenario);
    exporter
        .until("it is lost", |metrics| metrics.is("gpu_lost", &[], 1.0))
        .await;
    scenario.gpus[0].state = GpuState::Healthy;
    exporter.set(&scenario);
    exporter
        .until("it is back", |metrics| metrics.is("gpu_up", &[], 1.0))
        .await;
    // How soon it is listened to again is not told: one event after the other until one counts.
    let mut events = 1.0;
    let deadline = Instant::now() + crate::process::SOON;
    while events < 2.0 {
        scenario.gpus[0].events.push(Event::xid(79));
        exporter.set(&scenario);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let metrics = exporter.metrics().await;
        events = metrics.values("gpu_xid_errors_total", &[r#"xid="79""#])[0];
        assert!(Instant::now() < deadline, "nobody listens");
    }
}
