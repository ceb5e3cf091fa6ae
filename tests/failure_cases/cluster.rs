//! A simulated cluster for one case: eight GPUs a node, the shipped policy, one controller, and what is looked at afterwards.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpu_remediator::api::PromDuration;
use gpu_remediator::api::names::CORDON_ANNOTATION;
use gpu_remediator::api::policy::Step;
use gpu_remediator::api::{
    GpuFault, GpuFaultRule, GpuFaultStatus, Phase, RemediationPolicy, RemediationPolicySpec,
};
use gpu_remediator::sim::api_server::{Call, Observer, Write, resources};
use gpu_remediator::sim::run::{Setup, Simulation, block_on, shipped};
use gpu_remediator::sim::world::WorldPlan;

use serde_json::{Value, json};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Runs a story on a paused clock.
pub(crate) fn run(story: impl Future<Output = ()>) {
    block_on(story).unwrap();
}

/// The shipped rules, asked every ten seconds.
pub(crate) fn shipped_rules() -> GpuFaultRule {
    shipped::rules(Some(Duration::from_secs(10))).unwrap()
}

/// Rules of one's own: name of the alert, expression, and the rest of the rule.
pub(crate) fn rules(own: &[(&str, &str, Value)]) -> GpuFaultRule {
    let rules: Vec<_> = own
        .iter()
        .map(|(alert, expr, more)| {
            let mut rule =
                json!({"alert": alert, "expr": expr, "remediation": {"policy": "drain-node"}});
            for (name, value) in more.as_object().unwrap() {
                rule[name] = value.clone();
            }
            rule
        })
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1", "kind": "GpuFaultRule",
        "metadata": {"name": "own"},
        "spec": {"groups": [{"name": "own", "interval": "5s", "rules": rules}]},
    }))
    .unwrap()
}

/// What proves health here: less than the shipped policy asks, which looks back over seven days each second.
const HEALTHY: &str = r#"gpu_up{node="{{ .node }}"} == 1 and on (node, UUID) gpu_recovery_action{node="{{ .node }}"} == 0"#;

/// The shipped policy with quicker proofs, changed.
pub(crate) fn policy(change: impl FnOnce(&mut RemediationPolicySpec)) -> RemediationPolicy {
    let mut policy = shipped::policy().unwrap();
    for step in &mut policy.spec.steps {
        if let Step::Verify(verify) = step {
            (verify.expr, verify.hold) = (HEALTHY.into(), PromDuration::from_secs(10));
        }
    }
    let healthy = &mut policy.spec.recovery.healthy;
    (healthy.expr, healthy.hold) = (HEALTHY.into(), PromDuration::from_secs(30));
    change(&mut policy.spec);
    policy
}

/// A request of a controller.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) code: u16,
    pub(crate) resource: &'static str,
    pub(crate) subresource: Option<String>,

    pub(crate) writes: bool,
}

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Asked>>>);

impl Observer for Listener {
    fn called(&mut self, call: &Call) {
        if !call.actor.starts_with("controller") {
            return;
        }
        self.0.lock().unwrap().push(Asked {
            code: call.code,
            resource: call.resource.map_or("", |r| r.plural),
            subresource: call.subresource.clone(),

            writes: call.method != "GET",
        });
    }

    fn wrote(&mut self, _: &Write) {}
}

pub(crate) struct Cluster {
    pub(crate) sim: Simulation,
    heard: Listener,
}

impl Cluster {
    /// A cluster in which every pod that can run does, with one controller.
    pub(crate) async fn start(
        plan: WorldPlan,
        rules: GpuFaultRule,
        policy: RemediationPolicy,
    ) -> Self {
        let mut sim = Simulation::start(Setup::new(plan, rules, policy)).unwrap();
        let heard = Listener::default();
        sim.api.observe(Box::new(heard.clone()));
        sim.start_controller("controller-1").unwrap();
        sim.run_for(2 * MINUTE).await;
        Self { sim, heard }
    }

    pub(crate) async fn wait(&self, time: Duration) {
        self.sim.run_for(time).await;
    }

    pub(crate) async fn until(
        &self,
        what: &str,
        limit: Duration,
        is_so: impl Fn(&Simulation) -> bool,
    ) {
        let waited = self.sim.run_until(what, limit, is_so).await;
        if let Err(late) = waited {
            panic!("{late}\n{}", self.sim.told());
        }
    }

    /// Kills the controller and starts another.
    pub(crate) fn restart(&mut self) {
        let last = self.sim.processes.len() - 1;
        self.sim.restart(last).unwrap();
    }

    /// What the controllers have asked for so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.heard.0.lock().unwrap().clone()
    }

    /// The evictions that were asked for, in their order.
    pub(crate) fn evictions(&self) -> Vec<Asked> {
        let mut asked = self.asked();
        asked.retain(|a| a.subresource.as_deref() == Some("eviction"));
        asked
    }

    /// How often a controller has changed a node.
    pub(crate) fn node_changes(&self) -> usize {
        let asked = self.asked();
        let changes = |a: &&Asked| a.writes && a.resource == "nodes" && a.code < 300;
        asked.iter().filter(changes).count()
    }

    /// The end of a story: no promise was broken on the way.
    pub(crate) fn end(&self) {
        let violations = self.sim.violations();
        assert!(
            violations.is_empty(),
            "{violations:#?}\n{}",
            self.sim.told()
        );
    }
}

/// What is to be seen in a cluster.
pub(crate) trait Look {
    fn faults(&self) -> Vec<GpuFault>;
    fn status(&self, node: &str) -> Option<GpuFaultStatus>;
    fn phase(&self, node: &str) -> Option<Phase>;
    fn reason(&self, node: &str) -> String;
    fn is_cordoned(&self, node: &str) -> bool;
    fn is_marked(&self, node: &str) -> bool;
    fn cordoned(&self) -> usize;
    fn pods(&self, app: &str) -> Vec<Value>;
    fn told(&self) -> String;
}

impl Look for Simulation {
    fn faults(&self) -> Vec<GpuFault> {
        let all = self.api.store("observer").list(resources::GPU_FAULTS);
        all.iter()
            .map(|f| serde_json::from_value((**f).clone()).unwrap())
            .collect()
    }

    /// The status of the node's only fault.
    fn status(&self, node: &str) -> Option<GpuFaultStatus> {
        let mut of_node = self.faults();
        of_node.retain(|f| f.spec.node_name == node);
        assert!(of_node.len() < 2, "{of_node:#?}");
        of_node.pop()?.status
    }

    fn phase(&self, node: &str) -> Option<Phase> {
        Some(self.status(node)?.phase)
    }

    fn reason(&self, node: &str) -> String {
        self.status(node).map(|s| s.reason).unwrap_or_default()
    }

    fn is_cordoned(&self, node: &str) -> bool {
        let node = self.api.store("observer").get(resources::NODES, None, node);
        node.is_some_and(|n| n["spec"]["unschedulable"] == true)
    }

    fn is_marked(&self, node: &str) -> bool {
        let node = self.api.store("observer").get(resources::NODES, None, node);
        node.is_some_and(|n| !n["metadata"]["annotations"][CORDON_ANNOTATION].is_null())
    }

    fn cordoned(&self) -> usize {
        let nodes = self.api.store("observer").list(resources::NODES);
        nodes
            .iter()
            .filter(|n| n["spec"]["unschedulable"] == true)
            .count()
    }

    fn pods(&self, app: &str) -> Vec<Value> {
        let pods = self.api.store("observer").list(resources::PODS);
        let of_app = pods
            .iter()
            .filter(|p| p["metadata"]["labels"]["app"] == app);
        of_app.map(|p| (**p).clone()).collect()
    }

    /// Everything about the faults, for a failed test.
    fn told(&self) -> String {
        let faults = self.faults();
        let lines = faults.iter().map(|f| {
            let status = f.status.clone().unwrap_or_default();
            let (node, alert) = (
                &f.spec.node_name,
                f.spec.rule_ref.as_ref().map(|r| &r.alert),
            );
            format!(
                "{node} {alert:?} {:?} {} {}\n",
                status.phase, status.reason, status.message
            )
        });
        lines.collect()
    }
}

/// Where a pod runs.
pub(crate) fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}
