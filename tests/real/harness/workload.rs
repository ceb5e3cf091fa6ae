//! Workloads: GPU pods, CPU pods beside them, and what protects them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::nodes::GPU;
use super::wait::eventually;

/// Creates a namespace.
pub(crate) async fn namespace(admin: &Client, name: &str) {
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
    Api::<Namespace>::all(admin.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap_or_else(|error| panic!("create namespace {name}: {error}"));
}

/// Creates a Deployment of `replicas` pods that hold `gpus` GPUs each; with 0
/// GPUs it is a Deployment of CPU pods.
pub(crate) async fn deployment(
    admin: &Client,
    namespace: &str,
    name: &str,
    replicas: u32,
    gpus: u32,
) {
    let limits: Value = if gpus == 0 {
        json!({"cpu": "1", "memory": "1Gi"})
    } else {
        json!({"cpu": "1", "memory": "1Gi", GPU: gpus.to_string()})
    };
    let resources = json!({"limits": limits});
    create(admin, namespace, name, replicas, resources, json!([])).await;
}

/// Creates a Deployment of one pod that holds what `claim` says: the one entry
/// of `spec.resourceClaims`, but for its name.
pub(crate) async fn claiming_deployment(
    admin: &Client,
    namespace: &str,
    name: &str,
    mut claim: Value,
) {
    claim["name"] = json!("device");
    let resources = json!({
        "limits": {"cpu": "1", "memory": "1Gi"},
        "claims": [{"name": "device"}],
    });
    create(admin, namespace, name, 1, resources, json!([claim])).await;
}

async fn create(
    admin: &Client,
    namespace: &str,
    name: &str,
    replicas: u32,
    resources: Value,
    claims: Value,
) {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {
                    "labels": {"app": name},
                    "annotations": kubelet_delays(Duration::from_millis(100)),
                },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "main",
                        "image": "example.test/workload:1",
                        "resources": resources,
                    }],
                    "resourceClaims": claims,
                },
            },
        },
    }))
    .expect("a deployment");
    Api::<Deployment>::namespaced(admin.clone(), namespace)
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap_or_else(|error| panic!("create deployment {name}: {error}"));
}

/// The annotations that tell kwok how long a pod's start and end take. Its own
/// defaults are up to 5 s each, drawn by chance.
fn kubelet_delays(delay: Duration) -> Value {
    let delay = format!("{}ms", delay.as_millis());
    let mut annotations = serde_json::Map::new();
    for stage in ["pod-create", "pod-ready", "pod-delete"] {
        for key in ["delay", "jitter-delay"] {
            if (stage, key) != ("pod-delete", "jitter-delay") {
                annotations.insert(
                    format!("{stage}.stage.kwok.x-k8s.io/{key}"),
                    Value::String(delay.clone()),
                );
            }
        }
    }
    Value::Object(annotations)
}

/// Creates a PodDisruptionBudget that lets `max_unavailable` pods of `app` go
/// at a time, and returns once the disruption controller has counted the pods
/// and lets that many go.
pub(crate) async fn disruption_budget(
    admin: &Client,
    namespace: &str,
    app: &str,
    max_unavailable: u32,
) {
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": app},
        "spec": {
            "maxUnavailable": max_unavailable,
            "selector": {"matchLabels": {"app": app}},
        },
    }))
    .expect("a budget");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(admin.clone(), namespace);
    budgets
        .create(&PostParams::default(), &budget)
        .await
        .unwrap_or_else(|error| panic!("create budget for {app}: {error}"));
    let allowed = i32::try_from(max_unavailable).expect("a small number");
    eventually(
        Duration::from_secs(30),
        &format!("the budget of {app} to be counted"),
        async || {
            let budget = budgets.get(app).await.map_err(|error| error.to_string())?;
            let status = budget.status.ok_or("no status")?;
            if status.disruptions_allowed == Some(allowed) && status.expected_pods > Some(0) {
                return Ok(());
            }
            Err(format!(
                "{:?} of {:?} pods may go",
                status.disruptions_allowed, status.expected_pods
            ))
        },
    )
    .await;
}

/// The pods of `app`, those that are being deleted too.
pub(crate) async fn pods(admin: &Client, namespace: &str, app: &str) -> Vec<Pod> {
    Api::<Pod>::namespaced(admin.clone(), namespace)
        .list(&ListParams::default().labels(&format!("app={app}")))
        .await
        .unwrap_or_else(|error| panic!("list pods of {app}: {error}"))
        .items
}

/// Waits until exactly `count` pods of `app` are ready and none is being
/// deleted, and returns them.
pub(crate) async fn ready_pods(
    admin: &Client,
    namespace: &str,
    app: &str,
    count: usize,
    within: Duration,
) -> Vec<Pod> {
    eventually(
        within,
        &format!("{count} pods of {app} to be ready"),
        async || {
            let pods = pods(admin, namespace, app).await;
            if pods.len() == count
                && pods
                    .iter()
                    .all(|pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none())
            {
                return Ok(pods);
            }
            Err(pods.iter().map(describe).collect::<Vec<_>>().join("; "))
        },
    )
    .await
}

/// Asks the Eviction API to let `pod` go, as `kubectl drain` would, and returns
/// the HTTP status code of the answer.
pub(crate) async fn evict(admin: &Client, pod: &Pod) -> u16 {
    let name = pod_name(pod);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    });
    let pods: Api<Pod> = Api::namespaced(admin.clone(), namespace);
    let answer: Result<Value, kube::Error> = pods
        .create_subresource("eviction", name, &PostParams::default(), &body)
        .await;
    match answer {
        Ok(_) => 201,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("evict {name}: {error}"),
    }
}

/// Whether the pod's condition Ready is True.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    pod.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Name of the pod.
pub(crate) fn pod_name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// UID of the pod.
pub(crate) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// The node that the pod is bound to, or an empty name.
pub(crate) fn node_of(pod: &Pod) -> &str {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

fn describe(pod: &Pod) -> String {
    format!(
        "{} on {:?}: {}{}{}",
        pod_name(pod),
        node_of(pod),
        pod.status
            .as_ref()
            .and_then(|status| status.phase.as_deref())
            .unwrap_or("no phase"),
        if is_ready(pod) {
            ", ready"
        } else {
            ", not ready"
        },
        if pod.metadata.deletion_timestamp.is_some() {
            ", being deleted"
        } else {
            ""
        },
    )
}
