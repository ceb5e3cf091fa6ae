//! What the exporter says, as Prometheus' own tool reads it.

use nvidia_ml::machines::Machine;
use nvidia_ml::scenario::DriverState;

use crate::harness::product::Exporter;
use crate::harness::tools::check_metrics;
use crate::harness::wait::{eventually, seconds};

#[tokio::test]
async fn promtool_finds_nothing_to_say_about_the_metrics_of_each_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut exporter = Exporter::start(folder.path(), "exposition").await;
    for machine in Machine::ALL {
        let scenario = machine.scenario();
        let expected = match scenario.gpus.len() {
            0 => "gpu_driver_up{node=\"exposition\"} 0".to_owned(),
            count => format!("gpu_present{{node=\"exposition\"}} {count}"),
        };
        // Which GPUs there are is asked once for each session with the driver.
        exporter.change(|now| now.driver = DriverState::NotLoaded);
        let unloaded = "gpu_driver_up{node=\"exposition\"} 0";
        eventually(seconds(60), "the driver is unloaded", async || {
            let (page, _) = exporter.metrics().await;
            page.contains(unloaded).then_some(()).ok_or(page)
        })
        .await;
        let model = scenario.gpus.first().map(|gpu| gpu.name.clone());
        exporter.change(|now| *now = scenario);
        exporter.log_line("NVRM: Xid (PCI:0000:99:00): 79, pid=7, name=a, lost");
        let page = eventually(seconds(60), machine.name(), async || {
            let (page, _) = exporter.metrics().await;
            let told = page.contains(&expected)
                && model.as_ref().is_none_or(|model| {
                    let model = format!("modelName=\"{model}\"");
                    let used = |line: &str| {
                        line.starts_with("gpu_memory_total_bytes{") && line.contains(&model)
                    };
                    page.lines().any(used)
                });
            told.then_some(page).ok_or_else(|| expected.clone())
        })
        .await;
        // The one name that it would complain about is dcgm-exporter's, and is kept so that the two can be joined.
        let answer = check_metrics(&page.replace("modelName=", "model_name="));
        assert!(
            answer.ok && answer.stdout.is_empty() && answer.stderr.is_empty(),
            "{}: {}{}",
            machine.name(),
            answer.stdout,
            answer.stderr
        );
    }
}
