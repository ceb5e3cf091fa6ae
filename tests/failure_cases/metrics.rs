//! Metrics and data that are missing, stale, renamed or wrong.

use gpu_remediator::api::policy::Mode;
use gpu_remediator::sim::world::WorldPlan;
use gpu_remediator::xid;
use serde_json::json;

use crate::cluster::{Cluster, Look, MINUTE, policy, rules, run};

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
