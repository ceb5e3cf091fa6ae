//! The chart on a real API server: it is accepted, and it gives the rights
//! that the product needs and no more.

use std::ffi::OsString;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::chart::{self, NAMESPACE};
use crate::harness::cluster::Cluster;
use crate::harness::tools::{helm, kubectl, repository};
use crate::harness::wait::{eventually, seconds};
use crate::harness::{kubeconfig, nodes};

#[test]
fn helm_lint_finds_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let chart = repository("charts/gpu-remediator");
    for settings in [
        "crds.keep=true",
        "podMonitor.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true",
        "exporter.enabled=false,crds.install=false",
        "dashboards.enabled=true,controller.webConfig.secretName=web,exporter.webConfig.secretName=web",
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
        // The product takes the larger unit first.
        (
            "controller.leaderElection.leaseDuration=5s1m",
            "/controller/leaderElection/leaseDuration",
        ),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        // A name that the API server would refuse.
        ("fullnameOverride=UPPER", "/fullnameOverride"),
        ("fullnameOverride=under_score", "/fullnameOverride"),
        ("nameOverride=ends-", "/nameOverride"),
        (
            "exporter.serviceAccount.name=Me",
            "/exporter/serviceAccount/name",
        ),
        (
            "exporter.webConfig.probeScheme=https",
            "/exporter/webConfig/probeScheme",
        ),
        // Without a file that names them, certificates protect nothing.
        (
            "controller.webConfig.certificateSecretName=tls",
            "/controller/webConfig/secretName",
        ),
        ("podMonitor.scheme=HTTPS", "/podMonitor/scheme"),
        (
            "serviceMonitor.basicAuth.username=me",
            "/serviceMonitor/basicAuth/username",
        ),
        ("dashboards.labelValue=1", "/dashboards/labelValue"),
        ("dashboards.namespace=Monitoring", "/dashboards/namespace"),
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
async fn helm_installs_says_what_is_needed_upgrades_and_keeps_the_faults() {
    let cluster = Cluster::start().await;
    let release = |arguments: &[&str]| {
        let chart = repository("charts/gpu-remediator");
        let mut all: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        for argument in &mut all {
            if argument == "CHART" {
                *argument = chart.clone().into_os_string();
            }
        }
        all.extend(["--namespace".into(), NAMESPACE.into()]);
        all.extend([
            "--kubeconfig".into(),
            cluster.admin_kubeconfig().as_os_str().to_owned(),
        ]);
        helm(cluster.folder(), all).expect_ok(&format!("helm {arguments:?}"))
    };
    let notes = release(&["install", "gpu-remediator", "CHART", "--create-namespace"]);
    // Without that label there is no exporter, and nothing else would say so.
    for said in [
        "kubectl get nodes -l nvidia.com/gpu.present=true",
        "http://prometheus-operated.monitoring.svc:9090",
        "prometheusRule.enabled is false",
    ] {
        assert!(notes.contains(said), "{said:?} is not in {notes}");
    }
    let notes = release(&[
        "upgrade",
        "gpu-remediator",
        "CHART",
        "--set-json",
        "exporter.nodeSelector={\"nvidia.com/gpu.present\":null,\"pool\":\"gpu\"}",
        "--set",
        "prometheus.bearerTokenSecret.name=prometheus-reader",
    ]);
    assert!(notes.contains("kubectl get nodes -l pool=gpu\n"), "{notes}");

    // As docs/operations.md has it: what was set before stays.
    let secret = |workload: &str| format!("{workload}.webConfig.secretName=web");
    release(&[
        "upgrade",
        "gpu-remediator",
        "CHART",
        "--reset-then-reuse-values",
        "--set",
        "dashboards.enabled=true,exporter.webConfig.probeScheme=HTTPS",
        "--set",
        &secret("exporter"),
        "--set",
        &secret("controller"),
    ]);
    let told = kubectl(
        cluster.admin_kubeconfig(),
        [
            "get",
            "configmap,daemonset,deployment",
            "-n",
            NAMESPACE,
            "-o",
            "json",
        ],
        "",
    )
    .expect_ok("kubectl get");
    let told: Value = serde_json::from_str(&told).expect("a list");
    let items = told["items"].as_array().expect("items");
    let dashboard = |item: &&Value| item["data"]["gpu-remediator-gpu-health.json"].is_string();
    assert_eq!(items.iter().filter(dashboard).count(), 1, "{told}");
    let workloads: Vec<_> = items
        .iter()
        .map(|item| (item["kind"].as_str(), &item["spec"]["template"]["spec"]))
        .filter(|(kind, _)| *kind != Some("ConfigMap"))
        .collect();
    assert_eq!(workloads.len(), 2, "{told}");
    for (kind, pod) in workloads {
        let volumes = pod["volumes"].to_string();
        assert!(volumes.contains(r#""secret":{"name":"web"}"#), "{volumes}");
        if kind == Some("DaemonSet") {
            assert_eq!(pod["nodeSelector"], json!({"pool": "gpu"}));
            assert_eq!(
                pod["containers"][0]["livenessProbe"]["httpGet"]["scheme"],
                "HTTPS"
            );
        } else {
            assert!(volumes.contains("prometheus-reader"), "{volumes}");
        }
    }

    release(&["uninstall", "gpu-remediator"]);
    let kept = kubectl(
        cluster.admin_kubeconfig(),
        ["get", "crd,deployment,daemonset", "-A", "-o", "name"],
        "",
    )
    .expect_ok("kubectl get");
    let mut kept: Vec<&str> = kept.lines().collect();
    kept.sort_unstable();
    let definition = |name: &str| {
        format!("customresourcedefinition.apiextensions.k8s.io/{name}.gpu-remediator.dev")
    };
    assert_eq!(
        kept,
        ["gpufaultrules", "gpufaults", "remediationpolicies"].map(definition)
    );
}

#[tokio::test]
async fn the_controller_may_do_its_work_and_nothing_besides() {
    let cluster = Cluster::start().await;
    let product = chart::install(&cluster).await;
    let client = kubeconfig::client(&product).await;
    let may = async |verb: &str, resource: &str, namespace: &str| {
        may(&client, verb, resource, namespace).await
    };
    for (verb, resource) in [
        ("patch", "nodes"),
        ("watch", "pods"),
        ("create", "pods/eviction"),
        ("list", "poddisruptionbudgets.policy"),
        ("get", "deployments.apps"),
        ("create", "gpufaults.gpu-remediator.dev"),
        ("delete", "gpufaults.gpu-remediator.dev"),
        ("update", "gpufaults.gpu-remediator.dev/status"),
        ("patch", "gpufaultrules.gpu-remediator.dev/status"),
        ("patch", "remediationpolicies.gpu-remediator.dev/status"),
        ("create", "events.events.k8s.io"),
    ] {
        assert!(
            may(verb, resource, "inference").await,
            "{verb} {resource} is denied"
        );
    }
    let leases = "leases.coordination.k8s.io";
    assert!(may_by_name(&client, "update", leases, NAMESPACE, chart::LEASE).await);
    // Nobody else's lease: other controllers may live in the namespace.
    assert!(!may("update", leases, NAMESPACE).await);

    for (verb, resource) in [
        ("delete", "nodes"),
        ("create", "nodes"),
        ("patch", "nodes/status"),
        ("delete", "pods"),
        ("get", "pods"),
        ("update", "gpufaults.gpu-remediator.dev"),
        ("create", "pods"),
        ("patch", "pods"),
        ("create", "pods/exec"),
        ("create", "pods/binding"),
        ("create", "serviceaccounts/token"),
        ("get", "secrets"),
        ("list", "configmaps"),
        ("patch", "deployments.apps"),
        ("delete", "poddisruptionbudgets.policy"),
        ("create", "gpufaultrules.gpu-remediator.dev"),
        ("patch", "gpufaultrules.gpu-remediator.dev"),
        ("delete", "remediationpolicies.gpu-remediator.dev"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("update", "leases.coordination.k8s.io"),
        ("*", "*.*"),
    ] {
        assert!(
            !may(verb, resource, "inference").await,
            "{verb} {resource} is allowed"
        );
    }
}

/// Whether the user of `client` may do `verb` on `resource`, which is written
/// `RESOURCE[.GROUP][/SUBRESOURCE]`, in `namespace`.
async fn may(client: &Client, verb: &str, resource: &str, namespace: &str) -> bool {
    may_by_name(client, verb, resource, namespace, "").await
}

/// The same for the one object of that name.
async fn may_by_name(
    client: &Client,
    verb: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let review: SelfSubjectAccessReview = serde_json::from_value(json!({
        "spec": {"resourceAttributes": {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": namespace,
            "name": name,
        }},
    }))
    .expect("a review");
    Api::<SelfSubjectAccessReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await
        .expect("everyone may ask about themselves")
        .status
        .expect("a review is answered")
        .allowed
}
