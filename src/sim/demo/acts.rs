//! What is done on the stage: to the hardware, by people, and what is waited for afterwards.

use std::time::Duration;

use serde_json::{Value, json};

use super::cast::{LLM_REPLICAS, SPARE_TIME};
use super::happening::Happening;
use super::stage::{Stage, TooLate};
use crate::api::fault_status::Phase;
use crate::api::names::RESUME_ANNOTATION;
use crate::sim::api_server::resources::{
    DEPLOYMENTS, POD_DISRUPTION_BUDGETS, REMEDIATION_POLICIES,
};

const MINUTE: Duration = Duration::from_secs(60);

/// The GPU that breaks.
const GPU: u32 = 3;

impl Stage {
    /// A GPU of the node falls off the bus: Xid 79.
    pub fn falls_off_the_bus(&self, node: &str) {
        let line = self.cluster.xid(node, GPU, 79);
        self.logged(node, line);
    }

    /// An application makes a GPU fault a page: Xid 31.
    pub fn application_error(&self, node: &str) {
        let line = self.cluster.xid(node, GPU, 31);
        self.logged(node, line);
    }

    fn logged(&self, node: &str, line: String) {
        let node = node.to_owned();
        let happening = Happening::KernelLogged { node, line };
        self.history().add(self.now(), happening);
    }

    /// A person repairs the node.
    pub async fn repaired(&self, node: &str) {
        self.pass("a technician is on the way", SPARE_TIME).await;
        self.person(&format!("reseats the GPU of {node} and restarts the node"));
        self.cluster.world().hardware().repair(node);
    }

    /// No GPU pod is left on the node.
    ///
    /// # Errors
    ///
    /// One is, after all the time that the step has.
    pub async fn drained(&self, node: &str) -> Result<(), TooLate> {
        self.until(&format!("no GPU pod is left on {node}"), 16 * MINUTE, |s| {
            let status = s.status();
            status.is_some_and(|s| s.timeline.drained_at.is_some())
        })
        .await
    }

    /// Every displaced pod has a replacement that is Ready.
    ///
    /// # Errors
    ///
    /// One has none within the deadline.
    pub async fn workload_recovered(&self) -> Result<(), TooLate> {
        self.until("every displaced pod is replaced", 11 * MINUTE, |s| {
            let status = s.status();
            status.is_some_and(|s| s.timeline.workload_recovered_at.is_some())
        })
        .await
    }

    /// The fault has recovered.
    ///
    /// # Errors
    ///
    /// It has not, after longer than all proofs need.
    pub async fn recovered(&self, node: &str) -> Result<(), TooLate> {
        self.until(&format!("{node} is given back"), 30 * MINUTE, |s| {
            s.status().is_some_and(|s| s.phase == Phase::Recovered)
        })
        .await
    }

    /// The fault is in a phase.
    ///
    /// # Errors
    ///
    /// It is not within the time.
    pub async fn in_phase(&self, phase: Phase, limit: Duration) -> Result<(), TooLate> {
        self.until(&format!("the fault is {}", phase.as_str()), limit, |s| {
            s.status().is_some_and(|s| s.phase == phase)
        })
        .await
    }

    /// The fault gives a reason.
    ///
    /// # Errors
    ///
    /// It does not within minutes.
    pub async fn held_for(&self, reason: &str) -> Result<(), TooLate> {
        self.until(&format!("the fault says {reason}"), 5 * MINUTE, |s| {
            s.status().is_some_and(|s| s.reason == reason)
        })
        .await
    }

    /// The budget of Deployment `inference/llm` wants every replica.
    pub fn budget_allows_no_disruption(&self) {
        self.staged(&format!(
            "PodDisruptionBudget inference/llm is set to minAvailable {LLM_REPLICAS}, as many as there are replicas"
        ));
        self.cluster
            .change(POD_DISRUPTION_BUDGETS, Some("inference"), "llm", |budget| {
                if let Some(spec) = budget["spec"].as_object_mut() {
                    spec.remove("maxUnavailable");
                    spec.insert("minAvailable".to_owned(), json!(LLM_REPLICAS));
                }
            });
    }

    /// Deployment `inference/llm` gets so many replicas.
    pub fn scale_llm(&self, replicas: u32) {
        self.cluster
            .change(DEPLOYMENTS, Some("inference"), "llm", |deployment| {
                deployment["spec"]["replicas"] = json!(replicas);
            });
    }

    /// A node loses its power, or has it again.
    pub fn power(&self, node: &str, on: bool) {
        let hardware = self.cluster.world().hardware();
        if on {
            hardware.power_on(node);
        } else {
            hardware.power_off(node);
        }
    }

    /// The pods of a workload hang while they end.
    pub fn pods_hang(&self, namespace: &str, workload: &str) {
        let pods = self.cluster.world().pods();
        pods.change(namespace, workload, |behaviour| behaviour.hangs = true);
    }

    /// The service `llm` answers this share of its requests with an error.
    pub fn service_fails(&self, share: f64) {
        self.cluster.service().fails(share, self.now());
    }

    /// Prometheus answers no controller any more, or each again.
    pub fn prometheus_down(&self, down: bool) {
        self.cluster.prometheus_down(down);
    }

    /// The leader dies once its next eviction is accepted.
    pub fn crash_after_first_eviction(&self) {
        self.staged(
            "the leader will die as soon as its first eviction is accepted, before it hears of it",
        );
        self.cluster.dies_at_next_eviction();
    }

    /// The latch of the policy is released by its annotation.
    pub fn resume_policy(&self) {
        self.cluster
            .change(REMEDIATION_POLICIES, None, "drain-node", |policy| {
                annotate(policy, RESUME_ANNOTATION, "yes");
            });
    }
}

fn annotate(object: &mut Value, name: &str, value: &str) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[name] = json!(value);
}
