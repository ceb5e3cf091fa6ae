//! Metrics that are read off the faults themselves at each scrape, so that a fault that is gone leaves no series
//! behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::caches::Caches;
use crate::api::conditions::HoldReason;
use crate::api::{GpuFault, GpuFaultStatus, Phase};
use crate::clock::Clock;
use crate::remediation::drain;

/// How many pods a label names; beyond that it counts.
const PODS_NAMED: usize = 20;

/// Collects from the caches.
pub struct FaultMetrics {
    caches: Arc<Caches>,
    clock: Clock,
}

impl FaultMetrics {
    /// Collects from these caches.
    pub fn new(caches: Arc<Caches>, clock: Clock) -> Self {
        Self { caches, clock }
    }
}

impl std::fmt::Debug for FaultMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FaultMetrics")
    }
}

impl Collector for FaultMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let faults = self.caches.all_faults();
        let status = |fault: &Arc<GpuFault>| fault.status.clone().unwrap_or_default();

        let mut phases: BTreeMap<&str, i64> = Phase::ALL.iter().map(|p| (p.as_str(), 0)).collect();
        let mut holds: BTreeMap<&str, i64> =
            HoldReason::ALL.iter().map(|r| (r.as_str(), 0)).collect();
        let mut isolated = BTreeSet::new();
        let mut oldest: Option<Timestamp> = None;
        for fault in &faults {
            let status = status(fault);
            *phases.entry(status.phase.as_str()).or_default() += 1;
            if let Some(count) = holds
                .get_mut(status.reason.as_str())
                .filter(|_| !status.phase.is_over())
            {
                *count += 1;
            }
            if status.isolation.is_some() && status.phase.holds_node() {
                isolated.insert(fault.spec.node_name.clone());
            }
            // What is Failed has an alert of its own; what is only observed waits for nothing.
            let waits = !status.phase.is_over()
                && status.phase != Phase::Failed
                && status.reason != HoldReason::ObserveOnly.as_str();
            if waits {
                oldest = oldest.into_iter().chain(status.active_at).min();
            }
        }
        let age = oldest.map_or(0.0, |t| {
            self.clock.now().duration_since(t).as_secs_f64().max(0.0)
        });

        let mut family = encoder.encode_descriptor(
            "gpu_remediator_faults",
            "Faults by phase",
            None,
            MetricType::Gauge,
        )?;
        for (phase, count) in &phases {
            ConstGauge::new(*count).encode(family.encode_family(&[("phase", *phase)])?)?;
        }
        let mut family = encoder.encode_descriptor(
            "gpu_remediator_faults_held",
            "Open faults that are held at this moment, by reason",
            None,
            MetricType::Gauge,
        )?;
        for (reason, count) in &holds {
            ConstGauge::new(*count).encode(family.encode_family(&[("reason", *reason)])?)?;
        }
        let isolated = i64::try_from(isolated.len()).unwrap_or(i64::MAX);
        let help = "Nodes that are isolated on behalf of a fault";
        let gauge = encoder.encode_descriptor(
            "gpu_remediator_nodes_isolated",
            help,
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(isolated).encode(gauge)?;
        let help = "Age of the oldest fault that is under way or held, 0 if there is none";
        let name = "gpu_remediator_oldest_open_fault_seconds";
        ConstGauge::new(age).encode(encoder.encode_descriptor(
            name,
            help,
            None,
            MetricType::Gauge,
        )?)?;

        let mut family = encoder.encode_descriptor(
            "gpu_remediator_fault_failed",
            "1 for each fault that is Failed: a person must look at it; pods: the GPU pods that stayed on the node",
            None,
            MetricType::Gauge,
        )?;
        for fault in &faults {
            let status = status(fault);
            if status.phase == Phase::Failed {
                let labels = failed_labels(fault, &status);
                ConstGauge::new(1i64).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn failed_labels(fault: &GpuFault, status: &GpuFaultStatus) -> Vec<(&'static str, String)> {
    let gpu = fault.spec.gpu.clone().unwrap_or_default();
    let stayed = drain::stayed(status);
    let mut pods: Vec<_> = stayed
        .iter()
        .take(PODS_NAMED)
        .map(ToString::to_string)
        .collect();
    if stayed.len() > PODS_NAMED {
        pods.push(format!("and {} more", stayed.len() - PODS_NAMED));
    }
    vec![
        ("fault", fault.name_any()),
        ("node", fault.spec.node_name.clone()),
        ("gpu", gpu.index.unwrap_or_default()),
        ("uuid", gpu.uuid.unwrap_or_default()),
        (
            "xid",
            fault.spec.xid.map(|x| x.to_string()).unwrap_or_default(),
        ),
        (
            "rule",
            fault
                .spec
                .rule_ref
                .as_ref()
                .map(|r| r.alert.clone())
                .unwrap_or_default(),
        ),
        ("policy", fault.spec.policy_ref.name.clone()),
        ("reason", status.reason.clone()),
        ("pods", pods.join(", ")),
    ]
}
