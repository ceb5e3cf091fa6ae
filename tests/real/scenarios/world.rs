//! What every scenario stands on: a cluster with the chart installed, two GPU
//! nodes with an exporter each, a workload on the first, and Prometheus and
//! Alertmanager beside them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use gpu_remediator::api::fault_status::RescheduleOutcome;
use gpu_remediator::api::{GpuFault, GpuFaultStatus, Phase};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use super::policy::Policy;
use crate::harness::alertmanager::Alertmanager;
use crate::harness::audit::Request;
use crate::harness::chart::{self, CONTROLLER_ACCOUNT, NAMESPACE};
use crate::harness::cluster::Cluster;
use crate::harness::product::{Controller, Election, Exporter, SHORT_ELECTION};
use crate::harness::prometheus::{Prometheus, Settings};
use crate::harness::tools::{kubectl, repository};
use crate::harness::wait::{eventually, seconds};
use crate::harness::webhook::{MetricsPage, Webhook};
use crate::harness::{nodes, workload};

/// The node that gets the fault.
pub(crate) const FAULTY: &str = "gpu-a";
/// The node that the replacements go to.
pub(crate) const SPARE: &str = "gpu-b";
/// Namespace of the workloads.
pub(crate) const INFERENCE: &str = "inference";
/// The GPU that fails.
pub(crate) const GPU: usize = 3;
/// GPU pods of the workload, two GPUs each.
pub(crate) const REPLICAS: u32 = 4;

/// Annotation that holds our mark.
const MARK: &str = "gpu-remediator.dev/cordon";

/// A cluster ready for a fault.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) faulty: Exporter,
    pub(crate) spare: Exporter,
    pub(crate) prometheus: Prometheus,
    pub(crate) webhook: Webhook,
    /// The GPU pods as they were before the fault.
    pub(crate) before: Vec<Pod>,
    /// The CPU pod beside them.
    pub(crate) cpu: Pod,
    page: MetricsPage,
    alertmanager: Alertmanager,
    kubeconfig: PathBuf,
    started: u32,
}

/// What the application's own metrics say.
#[derive(Clone, Copy)]
pub(crate) struct Application {
    /// Read by the guard that pauses.
    pub(crate) error_ratio: f64,
    /// Read by the guard that stops.
    pub(crate) replicas: u32,
    /// Read by the step that waits between cordon and eviction.
    pub(crate) gate: u32,
}

/// Everything fine, and the gate closed.
pub(crate) const FINE: Application = Application {
    error_ratio: 0.0,
    replicas: REPLICAS,
    gate: 0,
};

impl Application {
    fn text(self) -> String {
        let Self {
            error_ratio,
            replicas,
            gate,
        } = self;
        format!("app_error_ratio {error_ratio}\napp_replicas_available {replicas}\ngate {gate}\n")
    }
}

impl World {
    /// Starts everything but the controller, and installs the shipped rules and
    /// `policy`.
    pub(crate) async fn start(policy: Policy) -> Self {
        let cluster = Cluster::start().await;
        let admin = cluster.admin.clone();
        let kubeconfig = chart::install(&cluster).await;
        workload::namespace(&admin, INFERENCE).await;
        // One node at first, so that the workload can only be there.
        nodes::create(&admin, FAULTY, "zone-1").await;
        workload::deployment(&admin, INFERENCE, "llm", REPLICAS, 2).await;
        workload::deployment(&admin, INFERENCE, "cpu", 1, 0).await;
        let count = usize::try_from(REPLICAS).expect("a small number");
        let before = workload::ready_pods(&admin, INFERENCE, "llm", count, seconds(60)).await;
        let cpu = workload::ready_pods(&admin, INFERENCE, "cpu", 1, seconds(60))
            .await
            .remove(0);
        nodes::create(&admin, SPARE, "zone-1").await;

        let folder = cluster.folder();
        let faulty = Exporter::start(folder, FAULTY).await;
        let spare = Exporter::start(folder, SPARE).await;
        let page = MetricsPage::start(&FINE.text()).await;
        let webhook = Webhook::start().await;
        let alertmanager = Alertmanager::start(folder, &webhook.url()).await;
        let prometheus = Prometheus::start(folder, Settings::default()).await;
        let world = Self {
            cluster,
            faulty,
            spare,
            prometheus,
            webhook,
            before,
            cpu,
            page,
            alertmanager,
            kubeconfig,
            started: 0,
        };
        world.scrape(&[]).await;
        world
            .prometheus
            .eventually(seconds(20), "count(gpu_up == 1) == 16")
            .await;
        world
            .prometheus
            .eventually(seconds(20), "app_replicas_available == 4")
            .await;
        world.apply(&policy.object().to_string());
        let rules = std::fs::read_to_string(repository("rules/xid-fatal.yaml"))
            .expect("the rules that are shipped");
        world.apply(&rules);
        world
    }

    /// Applies an object as an administrator.
    pub(crate) fn apply(&self, object: &str) {
        kubectl(
            self.cluster.admin_kubeconfig(),
            ["apply", "--server-side", "-f", "-"],
            object,
        )
        .expect_ok("kubectl apply");
    }

    /// Starts a controller with the rights of the chart's account, and has it
    /// scraped.
    pub(crate) async fn controller(&mut self) -> Controller {
        let controller = self.controller_with(SHORT_ELECTION).await;
        self.scrape(&[&controller]).await;
        controller
    }

    /// Starts a controller. Each has a name of its own, as pods have.
    pub(crate) async fn controller_with(&mut self, election: Election) -> Controller {
        let prometheus = self.prometheus.url();
        self.controller_that_asks(&prometheus, election).await
    }

    /// Starts a controller that asks another Prometheus.
    pub(crate) async fn controller_that_asks(
        &mut self,
        prometheus: &str,
        election: Election,
    ) -> Controller {
        self.started += 1;
        Controller::start(
            self.cluster.folder(),
            &self.kubeconfig,
            prometheus,
            &format!("controller-{}", self.started),
            election,
        )
        .await
    }

    /// Has Prometheus scrape the exporters, the application and `controllers`.
    pub(crate) async fn scrape(&self, controllers: &[&Controller]) {
        let controllers = controllers.iter().map(|one| one.address()).collect();
        self.prometheus
            .reconfigure(Settings {
                targets: vec![
                    (
                        "exporter".to_owned(),
                        vec![self.faulty.address(), self.spare.address()],
                    ),
                    ("application".to_owned(), vec![self.page.address()]),
                    ("controller".to_owned(), controllers),
                ],
                rules: vec![repository("rules/alerts/gpu-remediator.yaml")],
                alertmanager: Some(self.alertmanager.address()),
            })
            .await;
    }

    /// The application's metrics say this from now on; returns when Prometheus
    /// has seen it.
    pub(crate) async fn application(&self, now: Application) {
        self.page.set(&now.text()).await;
        let Application {
            error_ratio,
            replicas,
            gate,
        } = now;
        self.prometheus
            .eventually(
                seconds(10),
                &format!(
                    "app_error_ratio == {error_ratio} and app_replicas_available == {replicas} and gate == {gate}"
                ),
            )
            .await;
    }

    /// The GPU fails, in the driver and in the kernel log.
    pub(crate) fn fail_gpu(&mut self) {
        self.faulty.fall_off_the_bus(GPU);
    }

    /// All faults.
    pub(crate) async fn faults(&self) -> Result<Vec<GpuFault>, String> {
        Api::<GpuFault>::all(self.cluster.admin.clone())
            .list(&ListParams::default())
            .await
            .map(|list| list.items)
            .map_err(|error| error.to_string())
    }

    /// The one fault that there is.
    pub(crate) async fn fault(&self) -> Result<GpuFault, String> {
        let mut faults = self.faults().await?;
        match faults.len() {
            1 => Ok(faults.remove(0)),
            0 => Err("there is no fault".to_owned()),
            // More than one is what must never be, so there is nothing to wait for.
            more => panic!("{more} faults where one is expected: {faults:#?}"),
        }
    }

    /// Waits until the one fault is in `phase`, and returns it.
    pub(crate) async fn in_phase(&self, within: Duration, phase: Phase) -> GpuFault {
        self.until(
            within,
            &format!("the fault to be {}", phase.as_str()),
            |status| status.phase == phase,
        )
        .await
    }

    /// Waits until the one fault's status is as `reached` says, and returns the
    /// fault.
    pub(crate) async fn until(
        &self,
        within: Duration,
        what: &str,
        reached: impl Fn(&GpuFaultStatus) -> bool,
    ) -> GpuFault {
        eventually(within, what, async || {
            let fault = self.fault().await?;
            let status = fault.status.clone().unwrap_or_default();
            if reached(&status) {
                return Ok(fault);
            }
            Err(format!(
                "{} {}: {}",
                status.phase.as_str(),
                status.reason,
                status.message
            ))
        })
        .await
    }

    /// Whether the faulty node is cordoned, and our mark on it.
    pub(crate) async fn isolation(&self) -> (bool, Option<String>) {
        self.isolation_of(FAULTY).await
    }

    /// Whether a node is cordoned, and our mark on it.
    pub(crate) async fn isolation_of(&self, node: &str) -> (bool, Option<String>) {
        let node = nodes::get(&self.cluster.admin, node).await;
        let mark = node
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(MARK).cloned());
        (nodes::is_cordoned(&node), mark)
    }

    /// The product's requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let product = format!("system:serviceaccount:{NAMESPACE}:{CONTROLLER_ACCOUNT}");
        let mut requests = self.cluster.audit();
        requests.retain(|request| request.user.username == product);
        requests
    }

    /// The product's answered requests for evictions, oldest first.
    pub(crate) fn evictions(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.is("create", "pods", "eviction"));
        requests
    }

    /// Names of the pods whose eviction was accepted, in order.
    pub(crate) fn evicted(&self) -> Vec<String> {
        self.evictions()
            .iter()
            .filter(|request| request.code() == 201)
            .map(|request| request.object_name().to_owned())
            .collect()
    }

    /// Requests of the product that were refused for want of a right. An API server that has just started refuses some
    /// until it has read the roles, so one that was answered another time does not count.
    pub(crate) fn forbidden(&self) -> Vec<String> {
        let requests = self.requests();
        let kind = |request: &Request| {
            let object = request.object_ref.clone().unwrap_or_default();
            (
                request.verb.clone(),
                object.resource,
                object.subresource,
                object.namespace,
            )
        };
        let granted: BTreeSet<_> = requests
            .iter()
            .filter(|request| matches!(request.code(), 200..=299))
            .map(kind)
            .collect();
        requests
            .iter()
            .filter(|request| request.code() == 403 && !granted.contains(&kind(request)))
            .map(Request::line)
            .collect()
    }

    /// Fails unless the loop has ended as it should: each GPU pod evicted once
    /// and replaced on the spare node, no replacement touched, the CPU pod where
    /// it was, the node given back without a mark, one fault, no refused request.
    pub(crate) async fn expect_recovered(&self) -> GpuFault {
        self.in_phase(seconds(60), Phase::Recovered).await;
        assert_eq!(self.isolation().await, (false, None));

        let count = usize::try_from(REPLICAS).expect("a small number");
        let admin = &self.cluster.admin;
        let after = workload::ready_pods(admin, INFERENCE, "llm", count, seconds(60)).await;
        let names = |pods: &[Pod]| -> BTreeSet<String> {
            pods.iter()
                .map(|pod| workload::pod_name(pod).to_owned())
                .collect()
        };
        assert!(after.iter().all(|pod| workload::node_of(pod) == SPARE));
        assert!(names(&after).is_disjoint(&names(&self.before)));
        let mut evicted = self.evicted();
        evicted.sort();
        assert_eq!(
            evicted,
            names(&self.before).into_iter().collect::<Vec<_>>(),
            "each pod is evicted once, and no other"
        );
        let cpu = workload::pods(admin, INFERENCE, "cpu").await;
        assert_eq!(
            cpu.iter().map(workload::uid).collect::<Vec<_>>(),
            [workload::uid(&self.cpu)],
            "the CPU pod stays"
        );
        assert_eq!(self.forbidden(), Vec::<String>::new());

        // A replacement's verdict may come after the node's return.
        let fault = self
            .until(seconds(60), "a verdict on each displaced pod", |status| {
                status
                    .displaced_pods
                    .iter()
                    .all(|pod| pod.outcome != RescheduleOutcome::Awaited)
            })
            .await;
        let status = fault.status.clone().unwrap_or_default();
        assert_eq!(status.phase, Phase::Recovered);
        assert_eq!(status.occurrence, 1);
        assert_eq!(status.displaced_pods.len(), count);
        let outcomes: Vec<RescheduleOutcome> = status
            .displaced_pods
            .iter()
            .map(|pod| pod.outcome)
            .collect();
        assert_eq!(outcomes, vec![RescheduleOutcome::Rescheduled; count]);
        fault
    }

    /// Lets the repair succeed: the driver answers for the GPU again.
    pub(crate) fn repair(&mut self) {
        self.faulty.heal(GPU);
    }
}

impl Drop for World {
    /// Shows what the objects say when a test has failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let answer = kubectl(
                self.cluster.admin_kubeconfig(),
                [
                    "get",
                    "gpufaults,gpufaultrules,remediationpolicies",
                    "-o",
                    "yaml",
                    "--request-timeout=5s",
                ],
                "",
            );
            eprintln!("---- the objects\n{}{}", answer.stdout, answer.stderr);
            let requests: Vec<String> = self.requests().iter().map(Request::line).collect();
            eprintln!("---- the product's requests\n{}", requests.join("\n"));
        }
    }
}
