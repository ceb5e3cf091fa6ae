//! Metrics and data that are missing, stale, renamed or wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpu_remediator::api::Phase;
use gpu_remediator::api::policy::Mode;
use gpu_remediator::sim::prometheus::Page;
use gpu_remediator::sim::world::{Owner, Workload, WorldPlan};
use gpu_remediator::xid;
use jiff::Timestamp;
use serde_json::json;

use crate::cluster::{Cluster, HOUR, Look, MINUTE, policy, rules, run, shipped_rules};

/// Another exporter, whose gauge keeps the last Xid for ever.
struct LastXid(AtomicU64);

impl Page for LastXid {
    fn scrape(&self, _: Timestamp) -> Result<String, String> {
        let code = self.0.load(Ordering::Relaxed);
        Ok(format!(
            "DCGM_FI_DEV_XID_ERRORS{{node=\"gpu-1\",gpu=\"0\",UUID=\"GPU-dcgm\"}} {code}\n"
        ))
    }
}

fn llm(replicas: u32) -> Workload {
    Workload::new("ml", "llm", Owner::Deployment, replicas, 4)
}

#[test]
fn a1_a_gauge_that_keeps_its_xid_for_days_costs_one_remediation() {
    for code in [31, 48, 79] {
        run(async move {
            let expr = format!("DCGM_FI_DEV_XID_ERRORS == {code}");
            let rules = rules(&[("LastXid", &expr, json!({}))]);
            let plan = WorldPlan::new().nodes(4, 8).workload(llm(4));
            let mut cluster = Cluster::start(plan, rules, policy(|_| {})).await;
            let gauge = Arc::new(LastXid(AtomicU64::new(0)));
            cluster
                .sim
                .prometheus
                .add_target("dcgm", "gpu-1:9400", gauge.clone());
            cluster.wait(MINUTE).await;
            assert!(cluster.sim.faults().is_empty());
            gauge.0.store(code, Ordering::Relaxed);
            let back = |s: &_| Look::phase(s, "gpu-1") == Some(Phase::Recovered);
            cluster.until("recovered", HOUR, back).await;
            let (evictions, changes) = (cluster.evictions().len(), cluster.node_changes());
            assert_eq!(changes, 2, "cordoned and uncordoned");
            for _ in 0..6 {
                cluster.wait(8 * HOUR).await;
                cluster.restart();
            }
            cluster.wait(MINUTE).await;
            let status = cluster.sim.status("gpu-1").unwrap();
            assert_eq!((status.phase, status.occurrence), (Phase::Recovered, 1));
            assert_eq!(cluster.sim.faults().len(), 1);
            assert_eq!(
                (cluster.evictions().len(), cluster.node_changes()),
                (evictions, changes)
            );
            cluster.end();
        });
    }
}

/// Each code that is evidence against the hardware: a line in the kernel log is enough for a rule on it.
#[test]
fn a3_a_line_in_the_kernel_log_is_enough_for_a_rule_on_any_watched_code() {
    run(async {
        let codes: Vec<u32> = xid::watched().collect();
        let named: Vec<_> = codes
            .iter()
            .map(|code| {
                let expr =
                    format!(r#"time() - gpu_xid_last_timestamp_seconds{{xid="{code}"}} < 300"#);
                (format!("Xid{code}"), expr)
            })
            .collect();
        let own: Vec<_> = named
            .iter()
            .map(|(n, e)| (n.as_str(), e.as_str(), json!({})))
            .collect();
        let count = u32::try_from(codes.len()).unwrap();
        let plan = WorldPlan::new().nodes(count, 2);
        let cluster = Cluster::start(plan, rules(&own), policy(|p| p.mode = Mode::Observe)).await;
        for (number, code) in (1u32..).zip(&codes) {
            cluster
                .sim
                .world
                .hardware()
                .xid(&format!("gpu-{number}"), number % 2, *code);
        }
        cluster.wait(MINUTE).await;
        let faults = cluster.sim.faults();
        assert_eq!(faults.len(), codes.len(), "{}", cluster.sim.told());
        for (number, code) in (1u32..).zip(&codes) {
            let node = format!("gpu-{number}");
            let fault = faults.iter().find(|f| f.spec.node_name == node).unwrap();
            let uuid = cluster.sim.world.hardware().uuid(&node, number % 2);
            assert_eq!(fault.spec.xid, Some(*code));
            assert_eq!(fault.spec.gpu.as_ref().unwrap().uuid, uuid, "{code}");
        }
        cluster.end();
    });
}

#[test]
fn a4_a_node_whose_series_go_stale_stays_out_until_it_is_proven_healthy() {
    for power in [false, true] {
        for stage in [Phase::Processing, Phase::Recovering] {
            run(async move {
                let plan = WorldPlan::new().nodes(4, 8).workload(llm(4));
                let mut cluster = Cluster::start(plan, shipped_rules(), policy(|_| {})).await;
                let hardware = cluster.sim.world.hardware().clone();
                hardware.xid("gpu-1", 3, 79);
                let out = |s: &_| Look::is_cordoned(s, "gpu-1");
                cluster.until("isolated", MINUTE, out).await;
                if stage == Phase::Recovering {
                    hardware.repair("gpu-1");
                    let proving = |s: &_| Look::phase(s, "gpu-1") == Some(Phase::Recovering);
                    cluster.until("recovering", HOUR, proving).await;
                }
                if power {
                    hardware.power_off("gpu-1");
                } else {
                    hardware.exporter_down("gpu-1");
                }
                for _ in 0..3 {
                    cluster.wait(4 * HOUR).await;
                    let status = cluster.sim.status("gpu-1").unwrap();
                    assert!(cluster.sim.is_cordoned("gpu-1") && cluster.sim.is_marked("gpu-1"));
                    assert!(!status.phase.is_over(), "{}", cluster.sim.told());
                    assert!(status.message.contains("no answer"), "{}", status.message);
                    cluster.restart();
                }
                if power {
                    hardware.power_on("gpu-1");
                } else {
                    hardware.exporter_up("gpu-1");
                }
                hardware.repair("gpu-1");
                let back = |s: &_| Look::phase(s, "gpu-1") == Some(Phase::Recovered);
                cluster.until("recovered", HOUR, back).await;
                assert!(!cluster.sim.is_cordoned("gpu-1"));
                cluster.end();
            });
        }
    }
}

#[test]
fn a7_a_gpu_that_disappears_without_an_xid_becomes_a_fault_with_its_name() {
    run(async {
        let named = ("GpuMissing", "gpu_up == 0", json!({"for": "30s"}));
        let fewer = (
            "FewerGpus",
            "gpu_present < max_over_time(gpu_present[1d])",
            json!({"for": "30s"}),
        );
        let plan = WorldPlan::new().nodes(8, 8);
        let observe = policy(|p| p.mode = Mode::Observe);
        let cluster = Cluster::start(plan, rules(&[named, fewer]), observe).await;
        let hardware = cluster.sim.world.hardware();
        for gpu in 0..8 {
            hardware.vanish(&format!("gpu-{}", gpu + 1), gpu);
        }
        cluster.wait(5 * MINUTE).await;
        for gpu in 0..8 {
            let node = format!("gpu-{}", gpu + 1);
            let mut faults = cluster.sim.faults();
            faults.retain(|f| f.spec.node_name == node);
            assert_eq!(faults.len(), 2, "{}", cluster.sim.told());
            for fault in faults {
                assert_eq!(fault.spec.xid, None);
                let alert = &fault.spec.rule_ref.as_ref().unwrap().alert;
                let missing = fault.spec.gpu.unwrap_or_default();
                if alert == "GpuMissing" {
                    assert_eq!(missing.uuid, hardware.uuid(&node, gpu), "{node}");
                    let place = format!("00000000:{:02X}:00.0", 0x10 + gpu);
                    assert_eq!(missing.pci_bus_id, Some(place), "{node}");
                } else {
                    assert_eq!(missing.uuid, None, "it is about the node");
                }
            }
        }
        cluster.end();
    });
}

/// A job that crashes leaves Xid 45, or another code that programs cause, on every GPU that it used; for two days.
#[test]
fn a13_what_programs_cause_on_a_whole_fleet_touches_no_node() {
    run(async {
        let plan = WorldPlan::new().nodes(77, 8).workload(llm(20));
        let cluster = Cluster::start(plan, shipped_rules(), policy(|_| {})).await;
        let hardware = cluster.sim.world.hardware();
        let caused: Vec<u32> = xid::all()
            .iter()
            .filter(|entry| !entry.is_watched())
            .map(|entry| entry.code)
            .collect();
        assert!([13, 31, 43, 45].iter().all(|code| caused.contains(code)));
        for round in 0..48 {
            for node in 1..=77u32 {
                let code = if round % 2 == 0 {
                    45
                } else {
                    caused[(node as usize + round) % caused.len()]
                };
                hardware.xid(&format!("gpu-{node}"), node % 8, code);
            }
            cluster.wait(HOUR).await;
        }
        assert!(cluster.sim.faults().is_empty(), "{}", cluster.sim.told());
        assert_eq!(cluster.node_changes(), 0);
        assert!(cluster.evictions().is_empty());
        cluster.end();
    });
}

/// The rule takes what every node has for a fault, and what would prove health never comes.
#[test]
fn a16_a_rule_that_marks_the_whole_fleet_takes_out_no_more_than_the_budget() {
    for (nodes, most) in [(8u32, 1), (20, 2), (40, 4)] {
        run(async move {
            let wrong = (
                "NotForThisHardware",
                "gpu_temperature_celsius > 40",
                json!({}),
            );
            let plan = WorldPlan::new().nodes(nodes, 2).workload(llm(0));
            let never = policy(|p| {
                p.recovery.healthy.expr =
                    r#"gpu_temperature_celsius{node="{{ .node }}"} < 40"#.into();
            });
            let mut cluster = Cluster::start(plan, rules(&[wrong]), never).await;
            for _ in 0..6 {
                cluster.wait(Duration::from_secs(20 * 60)).await;
                assert!(cluster.sim.cordoned() <= most, "{}", cluster.sim.told());
                cluster.restart();
            }
            assert_eq!(cluster.sim.cordoned(), most);
            assert_eq!(cluster.node_changes(), most);
            cluster.end();
        });
    }
}

/// One event, reported a hundred thousand times.
#[test]
fn d18_a_hundred_thousand_lines_about_one_gpu_are_one_fault_and_one_cordon() {
    run(async {
        let plan = WorldPlan::new().nodes(4, 8).workload(llm(4));
        let cluster = Cluster::start(plan, shipped_rules(), policy(|_| {})).await;
        for _ in 0..100 {
            for _ in 0..1_000 {
                cluster.sim.world.hardware().xid("gpu-1", 0, 79);
            }
            cluster.wait(Duration::from_secs(10)).await;
        }
        cluster.wait(HOUR).await;
        let faults = cluster.sim.faults();
        assert_eq!(faults.len(), 1);
        let size = serde_json::to_string(&faults[0]).unwrap().len();
        assert!(size < 20_000, "{size} bytes");
        assert_eq!(faults[0].status.as_ref().unwrap().occurrence, 1);
        assert_eq!(cluster.node_changes(), 1);
        cluster.end();
    });
}
