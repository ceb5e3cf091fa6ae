//! The chart on a real API server: it is accepted, and it gives the rights
//! that the product needs and no more.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::Api;

use crate::harness::chart::{self, NAMESPACE};
use crate::harness::cluster::Cluster;
use crate::harness::nodes;
use crate::harness::tools::{helm, kubectl, repository};
use crate::harness::wait::{eventually, seconds};

#[test]
fn helm_lint_finds_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let chart = repository("charts/gpu-remediator");
    for settings in [
        "crds.keep=true",
        "podMonitor.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true",
        "exporter.enabled=false,crds.install=false",
    ] {
        let chart = chart.to_str().expect("a path of text");
        helm(
            home.path(),
            [
                "lint",
                "--strict",
                chart,
                "--kube-version",
                "1.36.3",
                "--set",
                settings,
            ],
        )
        .expect_ok(&format!("helm lint --set {settings}"));
    }
}

#[test]
fn values_that_cannot_work_are_refused_with_their_name() {
    let home = tempfile::tempdir().expect("a folder");
    let chart = repository("charts/gpu-remediator");
    let chart = chart.to_str().expect("a path of text");
    for (setting, named) in [
        ("controller.replicas=0", "/controller/replicas"),
        ("controller.replica=2", "replica"),
        ("prometheus.url=prometheus:9090", "/prometheus/url"),
        (
            "prometheus.url=http://user:secret@prometheus:9090",
            "/prometheus/url",
        ),
        (
            "controller.leaderElection.leaseDuration=15",
            "/controller/leaderElection/leaseDuration",
        ),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
    ] {
        let answer = helm(
            home.path(),
            [
                "template",
                "x",
                chart,
                "--kube-version",
                "1.36.3",
                "--set",
                setting,
            ],
        );
        assert!(!answer.ok, "{setting} was taken");
        assert!(
            answer.stderr.contains(named),
            "{setting}: {}",
            answer.stderr
        );
    }
}

#[tokio::test]
async fn the_chart_is_accepted_and_runs_an_exporter_on_every_gpu_node() {
    let cluster = Cluster::start().await;
    nodes::create(&cluster.admin, "gpu-a", "zone-1").await;
    nodes::create(&cluster.admin, "gpu-b", "zone-1").await;
    chart::install(&cluster).await;

    // What was applied is applied again without a change or a conflict.
    let again = kubectl(
        cluster.admin_kubeconfig(),
        ["apply", "--server-side", "-n", NAMESPACE, "-f", "-"],
        &chart::render(&cluster, &[]),
    )
    .expect_ok("kubectl apply once more");
    assert!(!again.contains("created"), "{again}");

    let daemons: Api<DaemonSet> = Api::namespaced(cluster.admin.clone(), NAMESPACE);
    eventually(seconds(40), "an exporter on both nodes", async || {
        let status = daemons
            .get("gpu-remediator-exporter")
            .await
            .map_err(|error| error.to_string())?
            .status
            .ok_or("no status")?;
        if status.desired_number_scheduled == 2 && status.number_ready == 2 {
            return Ok(());
        }
        Err(format!(
            "{} of {} ready",
            status.number_ready, status.desired_number_scheduled
        ))
    })
    .await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.admin.clone(), NAMESPACE);
    eventually(seconds(40), "both controllers", async || {
        let status = deployments
            .get("gpu-remediator-controller")
            .await
            .map_err(|error| error.to_string())?
            .status
            .ok_or("no status")?;
        match status.ready_replicas {
            Some(2) => Ok(()),
            other => Err(format!("{other:?} ready")),
        }
    })
    .await;
}

#[tokio::test]
async fn the_controller_may_do_its_work_and_nothing_besides() {
    let cluster = Cluster::start().await;
    let product = chart::install(&cluster).await;
    let may = |verb: &str, resource: &str, namespace: &str| {
        // "no" is also the answer's exit status, so the text is what counts.
        let answer = kubectl(
            &product,
            ["auth", "can-i", verb, resource, "-n", namespace],
            "",
        );
        match answer.stdout.trim() {
            "yes" => true,
            "no" => false,
            other => panic!("can-i {verb} {resource}: {other} {}", answer.stderr),
        }
    };
    for (verb, resource) in [
        ("patch", "nodes"),
        ("watch", "pods"),
        ("create", "pods/eviction"),
        ("create", "gpufaults.gpu-remediator.dev"),
        ("patch", "gpufaults.gpu-remediator.dev/status"),
        ("patch", "gpufaultrules.gpu-remediator.dev/status"),
        ("patch", "remediationpolicies.gpu-remediator.dev/status"),
        ("create", "events.events.k8s.io"),
    ] {
        assert!(
            may(verb, resource, "inference"),
            "{verb} {resource} is denied"
        );
    }
    assert!(may("update", "leases.coordination.k8s.io", NAMESPACE));

    for (verb, resource) in [
        ("delete", "nodes"),
        ("create", "nodes"),
        ("patch", "nodes/status"),
        ("delete", "pods"),
        ("create", "pods"),
        ("patch", "pods"),
        ("create", "pods/exec"),
        ("get", "secrets"),
        ("list", "configmaps"),
        ("patch", "deployments.apps"),
        ("delete", "poddisruptionbudgets.policy"),
        ("create", "gpufaultrules.gpu-remediator.dev"),
        ("delete", "remediationpolicies.gpu-remediator.dev"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("update", "leases.coordination.k8s.io"),
        ("*", "*"),
    ] {
        assert!(
            !may(verb, resource, "inference"),
            "{verb} {resource} is allowed"
        );
    }
}
