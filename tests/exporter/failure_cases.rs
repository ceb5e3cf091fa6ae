//! Cases that happened to others, named after their ids in `docs/failure-cases.md`.

use crate::process::{Exporter, Metrics, SOON};
use nvidia_ml::scenario::Scenario;

fn uuid(scenario: &Scenario, index: usize) -> String {
    format!(r#"UUID="{}""#, scenario.gpus[index].uuid)
}

/// The driver's own metric library missed some codes. The kernel log does not: whatever code stands in it is counted and
/// dated, also one that nobody has heard of yet.
#[tokio::test]
async fn a3_whatever_code_the_kernel_log_tells_is_shown() {
    let scenario = Scenario::healthy(2);
    let exporter = Exporter::on_fake_driver(&scenario).await;
    let gpu = uuid(&scenario, 0);
    exporter
        .until("it is up", |m| m.is("gpu_up", &[&gpu], 1.0))
        .await;
    let codes = [62u32, 8, 31, 45, 63, 74, 79, 94, 119, 154, 172, 999];
    for code in codes {
        exporter.log(&format!(
            "NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711, name=python3, 0a0a0b0b"
        ));
    }
    let counted = |metrics: &Metrics| {
        codes.iter().all(|code| {
            let labels = [gpu.as_str(), &format!(r#"xid="{code}""#)];
            metrics.is("gpu_xid_errors_total", &labels, 1.0)
        })
    };
    let metrics = exporter.until("each code is counted", counted).await;
    for code in codes {
        let labels = [gpu.as_str(), &format!(r#"xid="{code}""#)];
        let at = metrics.values("gpu_xid_last_timestamp_seconds", &labels);
        assert_eq!(at.len(), 1, "{code} has no time");
    }
    let other = uuid(&scenario, 1);
    let nothing = metrics.values("gpu_xid_errors_total", &[&other]);
    assert!(nothing.iter().all(|count| *count == 0.0), "{nothing:?}");
}

/// The driver's call for one GPU does not return, as in uninterruptible sleep, while the page is scraped by many at once.
#[tokio::test]
async fn a6_a_gpu_whose_calls_hang_is_named_and_stops_nothing_else() {
    for hanging in 0..3 {
        let mut scenario = Scenario::healthy(3);
        let exporter = Exporter::on_fake_driver(&scenario).await;
        let up = |m: &Metrics| m.values("gpu_up", &[]) == [1.0; 3];
        exporter.until("all are up", up).await;
        scenario.gpus[hanging].hang_seconds = 600.0;
        exporter.set(&scenario);
        let hung = uuid(&scenario, hanging);
        exporter
            .until("the call hangs", |m| {
                m.is("gpu_collect_hung", &[&hung], 1.0)
                    && m.values("gpu_up", &[]).iter().sum::<f64>() == 2.0
            })
            .await;
        // Each scrape, and each question for liveness, is answered long before the call returns.
        for _ in 0..5 {
            let scrapes = (0..20).map(|_| exporter.metrics());
            let all = tokio::time::timeout(SOON, futures::future::join_all(scrapes));
            for metrics in all.await.expect("a scrape waits for the driver") {
                assert!(metrics.is("gpu_collect_hung", &[&hung], 1.0));
                assert!(metrics.is("gpu_up", &[&hung], 0.0));
                for other in (0..3).filter(|other| *other != hanging) {
                    let other = uuid(&scenario, other);
                    assert!(metrics.is("gpu_collect_hung", &[&other], 0.0), "{other}");
                    assert!(metrics.is("gpu_up", &[&other], 1.0), "{other}");
                }
            }
            for path in ["/healthz", "/readyz"] {
                assert_eq!(exporter.get(path, "*/*").await.status(), 200, "{path}");
            }
        }
        // The others are still asked, not only remembered.
        let fresh = (hanging + 1) % 3;
        scenario.gpus[fresh].temperature = 77;
        exporter.set(&scenario);
        let fresh = uuid(&scenario, fresh);
        exporter
            .until("another GPU is asked on", |m| {
                m.is("gpu_temperature_celsius", &[&fresh], 77.0)
            })
            .await;
    }
}

/// One GPU of three is not there any more, without a word in the log. The driver lists fewer, and the indices of those behind
/// it move up: none of them may be taken for the one that is missing.
#[tokio::test]
async fn a7_a_gpu_that_disappears_without_an_xid_is_named() {
    for missing in 0..3 {
        let mut scenario = Scenario::healthy(3);
        let exporter = Exporter::on_fake_driver(&scenario).await;
        let up = |m: &Metrics| m.values("gpu_up", &[]) == [1.0; 3];
        exporter.until("all are up", up).await;
        let gone = scenario.gpus.remove(missing);
        exporter.set(&scenario);
        let labels = [
            format!(r#"UUID="{}""#, gone.uuid),
            format!(r#"pci_bus_id="{}""#, gone.pci_bus_id),
        ];
        let labels = [labels[0].as_str(), labels[1].as_str()];
        let there = [0, 1].map(|index| uuid(&scenario, index));
        // The driver's count, the end of the last good sample and who is left are learned one after the other; at no time
        // is one that is left told as lost.
        let metrics = exporter
            .until("it is missed, and no other", |m| {
                for there in &there {
                    assert!(m.is("gpu_lost", &[there], 0.0), "{there}\n{}", m.0);
                }
                m.is("gpu_present", &[], 2.0)
                    && m.is("gpu_up", &labels, 0.0)
                    && m.is("gpu_lost", &labels, 1.0)
                    && there.iter().all(|there| m.is("gpu_up", &[there], 1.0))
            })
            .await;
        let counts = metrics.values("gpu_xid_errors_total", &[]);
        assert!(
            counts.iter().all(|count| *count == 0.0),
            "no Xid: {counts:?}"
        );
    }
}
