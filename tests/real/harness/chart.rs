//! The product's chart, installed as an administrator does, and the rights
//! that it gives.

use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::cluster::Cluster;
use super::tools::{helm, kubectl, repository};
use super::workload;

/// Where the chart is installed.
pub(crate) const NAMESPACE: &str = "gpu-remediator";

/// The ServiceAccount of the controller.
pub(crate) const CONTROLLER_ACCOUNT: &str = "gpu-remediator-controller";

/// Name of the lease that the controllers contend for.
pub(crate) const LEASE: &str = "gpu-remediator";

/// The chart's objects as YAML, with `settings` as `--set` takes them.
pub(crate) fn render(cluster: &Cluster, settings: &[&str]) -> String {
    let chart = repository("charts/gpu-remediator");
    let mut arguments = vec![
        "template".into(),
        "gpu-remediator".into(),
        chart.into_os_string(),
        "--namespace".into(),
        NAMESPACE.into(),
        // Without a cluster Helm assumes an old Kubernetes.
        "--kube-version".into(),
        "1.36.3".into(),
    ];
    for setting in settings {
        arguments.push("--set".into());
        arguments.push((*setting).into());
    }
    helm(cluster.folder(), arguments).expect_ok("helm template")
}

/// Installs the chart by `helm template | kubectl apply --server-side` and
/// returns a kubeconfig with the rights of the controller's ServiceAccount and
/// no others.
pub(crate) async fn install(cluster: &Cluster) -> PathBuf {
    workload::namespace(&cluster.admin, NAMESPACE).await;
    let objects = render(cluster, &[]);
    kubectl(
        cluster.admin_kubeconfig(),
        ["apply", "--server-side", "-n", NAMESPACE, "-f", "-"],
        &objects,
    )
    .expect_ok("kubectl apply of the chart");
    kubectl(
        cluster.admin_kubeconfig(),
        [
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=30s",
        ],
        "",
    )
    .expect_ok("the custom resources to be served");
    cluster.kubeconfig_for("product", &token(cluster).await)
}

/// A token of the controller's ServiceAccount, as its pod would get it.
async fn token(cluster: &Cluster) -> String {
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 7200}}))
            .expect("a token request");
    Api::<ServiceAccount>::namespaced(cluster.admin.clone(), NAMESPACE)
        .create_token_request(CONTROLLER_ACCOUNT, &PostParams::default(), &request)
        .await
        .expect("an administrator gets a token for the chart's account")
        .status
        .and_then(|status| status.token)
        .expect("a token request is answered with a token")
}
