//! Six machines as they are met in the field, and the whole of what the exporter says of each.

use crate::process::{Exporter, Metrics, append, fake_library};
use nvidia_ml::machines::Machine;
use nvidia_ml::scenario::Scenario;

const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0";

/// What differs between two runs on one machine.
const VARYING: [&str; 3] = [
    "gpu_exporter_collector_duration_seconds{",
    "gpu_exporter_collector_last_success_timestamp_seconds{",
    "gpu_remediator_build_info{",
];

/// The page with what varies left out. Of several GPUs that are alike the first is enough: it says what there is, and the
/// count of the others stands at the end.
fn masked(page: &str) -> String {
    let mut others = 0;
    let mut lines = Vec::new();
    for line in page.lines() {
        let of_another = (1..8).any(|gpu| line.contains(&format!(r#",gpu="{gpu}","#)));
        if of_another {
            others += 1;
        } else if let Some(varying) = VARYING.iter().find(|name| {
            let openmetrics = name.trim_end_matches('{');
            line.starts_with(*name) || line.starts_with(&format!("{openmetrics} "))
        }) {
            let (series, _) = line.rsplit_once(' ').unwrap();
            let series = if varying.contains("build_info") {
                varying.trim_end_matches('{')
            } else {
                series
            };
            lines.push(format!("{series} …"));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.push(format!("… and {others} series of the other GPUs"));
    lines.join("\n")
}

/// An exporter whose kernel log is there and says nothing.
async fn on_a_quiet_node(scenario: &Scenario) -> Exporter {
    let directory = tempfile::tempdir().unwrap();
    append(&directory.path().join("kmsg"), "a quiet line");
    let file = directory.path().join("scenario.yaml");
    scenario.write(&file).unwrap();
    Exporter::start(directory, &["--nvml", fake_library().to_str().unwrap()]).await
}

#[tokio::test]
async fn each_machine_says_what_it_can_in_both_formats() {
    for machine in Machine::ALL {
        let scenario = machine.scenario();
        let gpus = scenario.gpus.len();
        let exporter = on_a_quiet_node(&scenario).await;
        let settled = |metrics: &Metrics| {
            metrics.values("gpu_up", &[]) == vec![1.0; gpus]
                && metrics.is("gpu_exporter_kernel_log_open", &[], 1.0)
                && !metrics.values("gpu_driver_up", &[]).is_empty()
                && metrics.is("gpu_exporter_collector_success", &[r#"collector="pci_bus""#], 0.0)
                // Where events can be registered for, they are.
                && (0..gpus).all(|gpu| {
                    let gpu = format!(r#",gpu="{gpu}","#);
                    !metrics.values("gpu_driver_events_total", &[&gpu]).is_empty()
                })
        };
        let page = exporter.until(machine.name(), settled).await;
        insta::assert_snapshot!(format!("{}_text", machine.name()), masked(&page.0));
        let response = exporter.get("/metrics", OPENMETRICS).await;
        let open = response.text().await.unwrap();
        assert!(open.ends_with("# EOF\n"), "{}", machine.name());
        insta::assert_snapshot!(format!("{}_openmetrics", machine.name()), masked(&open));
    }
}

/// A driver from 580.82 on has other numbers for some fields: the same times must come out.
#[tokio::test]
async fn fields_are_found_under_the_numbers_of_each_driver() {
    for version in ["570.124.06", "580.65.06", "580.95.05", "595.45.04"] {
        let mut scenario = Machine::H100.scenario();
        scenario.gpus.truncate(1);
        version.clone_into(&mut scenario.driver_version);
        scenario.gpus[0].readings.throttled = Some([
            1_000_000_000,
            2_000_000_000,
            3_000_000_000,
            4_500_000_000,
            5_000_000_000,
        ]);
        let exporter = Exporter::on_fake_driver(&scenario).await;
        let told = |metrics: &Metrics| metrics.values("gpu_throttle_seconds_total", &[]).len() == 5;
        let metrics = exporter.until(version, told).await;
        for (reason, seconds) in [
            ("sw_power_cap", 1.0),
            ("sync_boost", 2.0),
            ("sw_thermal_slowdown", 3.0),
            ("hw_thermal_slowdown", 4.5),
            ("hw_power_brake_slowdown", 5.0),
        ] {
            let label = format!(r#"reason="{reason}""#);
            assert!(
                metrics.is("gpu_throttle_seconds_total", &[&label], seconds),
                "{version}: {reason}"
            );
        }
        assert!(metrics.values("gpu_nvml_errors_total", &[]).is_empty());
    }
}

#[tokio::test]
async fn a_link_that_goes_down_and_a_row_that_cannot_be_remapped_are_told() {
    let mut scenario = Machine::H100.scenario();
    scenario.gpus.truncate(1);
    let exporter = Exporter::on_fake_driver(&scenario).await;
    let up = |metrics: &Metrics| metrics.values("gpu_nvlink_up", &[]) == [1.0; 18];
    exporter.until("its links are up", up).await;
    let readings = &mut scenario.gpus[0].readings;
    if let Some(links) = &mut readings.links {
        links.down = vec![7];
        links.errors.insert(7, 41);
    }
    if let Some(rows) = &mut readings.remapped_rows {
        rows.uncorrected = 9;
        rows.failed = true;
    }
    exporter.set(&scenario);
    let told = |metrics: &Metrics| {
        metrics.is("gpu_nvlink_up", &[r#"link="7""#], 0.0)
            && metrics.is("gpu_nvlink_errors_total", &[r#"link="7",type="crc""#], 41.0)
            && metrics.is("gpu_row_remap_failure", &[], 1.0)
            && metrics.is("gpu_remapped_rows", &[r#"cause="uncorrected""#], 9.0)
    };
    let metrics = exporter.until("both are told", told).await;
    assert!(metrics.is("gpu_nvlink_up", &[r#"link="8""#], 1.0));
}

/// A slow group that fails is counted and takes nothing else with it.
#[tokio::test]
async fn a_call_that_fails_takes_only_its_own_series() {
    let mut scenario = Machine::H100.scenario();
    scenario.gpus.truncate(1);
    for call in ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetRemappedRows"] {
        scenario.gpus[0].errors.insert(call.to_owned(), 999);
    }
    let exporter = Exporter::on_fake_driver(&scenario).await;
    let up = |metrics: &Metrics| metrics.values("gpu_nvml_errors_total", &[]).len() == 2;
    let metrics = exporter.until("both are counted", up).await;
    for family in [
        "gpu_power_watts",
        "gpu_remapped_rows",
        "gpu_row_remap_pending",
    ] {
        assert!(metrics.values(family, &[]).is_empty(), "{family}");
    }
    assert_eq!(metrics.values("gpu_up", &[]), [1.0]);
    assert_eq!(metrics.values("gpu_power_limit_watts", &[]).len(), 5);
}
