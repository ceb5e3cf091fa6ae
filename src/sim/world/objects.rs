//! The objects that a plan asks for, as people would have written them.

use serde_json::{Value, json};

use super::plan::{GPU_MODEL, NODE_MILLICPU, NodePlan, Owner, Workload};

/// A node that is Ready.
pub(super) fn node(plan: &NodePlan) -> Value {
    let mut labels = json!({
        "kubernetes.io/hostname": plan.name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": plan.zone,
    });
    if plan.gpus > 0 {
        labels["nvidia.com/gpu.present"] = json!("true");
        labels["nvidia.com/gpu.product"] = json!(GPU_MODEL.replace(' ', "-"));
        labels["nvidia.com/gpu.count"] = json!(plan.gpus.to_string());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": plan.name, "labels": labels},
        "spec": {"providerID": format!("sim://{}", plan.name)},
    })
}

/// The status that a kubelet reports.
pub(super) fn node_status(gpus: u32, now: &str) -> Value {
    let mut resources = json!({
        "cpu": format!("{}m", NODE_MILLICPU),
        "memory": "2Ti",
        "pods": "250",
    });
    if gpus > 0 {
        resources["nvidia.com/gpu"] = json!(gpus.to_string());
    }
    json!({
        "capacity": resources,
        "allocatable": resources,
        "conditions": [condition("Ready", "True", "KubeletReady", now)],
        "nodeInfo": {"kubeletVersion": "v1.36.0", "operatingSystem": "linux", "architecture": "amd64"},
    })
}

/// A condition.
pub(super) fn condition(kind: &str, status: &str, reason: &str, now: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now})
}

/// The objects of a workload, its budget last.
pub(super) fn workload(plan: &Workload) -> Vec<(&'static str, Value)> {
    let meta =
        json!({"namespace": plan.namespace, "name": plan.name, "labels": {"app": plan.name}});
    let selector = json!({"matchLabels": {"app": plan.name}});
    let template = template(plan);
    let mut objects = Vec::new();
    match plan.owner {
        Owner::Deployment => objects.push((
            "deployments",
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
                "spec": {"replicas": plan.replicas, "selector": selector, "template": template},
            }),
        )),
        Owner::StatefulSet => objects.push((
            "statefulsets",
            json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta,
                "spec": {
                    "replicas": plan.replicas, "serviceName": plan.name,
                    "selector": selector, "template": template,
                },
            }),
        )),
        Owner::DaemonSet => objects.push((
            "daemonsets",
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta,
                "spec": {"selector": selector, "template": template},
            }),
        )),
        Owner::Job | Owner::PlainJob => {
            let mode = if plan.owner == Owner::Job {
                "Indexed"
            } else {
                "NonIndexed"
            };
            objects.push((
                "jobs",
                json!({
                    "apiVersion": "batch/v1", "kind": "Job", "metadata": meta,
                    "spec": {
                        "completions": plan.replicas, "parallelism": plan.replicas,
                        "completionMode": mode, "backoffLimit": 1000, "template": template,
                    },
                }),
            ));
        }
        Owner::Nobody => {
            for number in 0..plan.replicas {
                let mut pod = template.clone();
                pod["apiVersion"] = json!("v1");
                pod["kind"] = json!("Pod");
                pod["metadata"]["namespace"] = json!(plan.namespace);
                pod["metadata"]["name"] = json!(format!("{}-{number}", plan.name));
                objects.push(("pods", pod));
            }
        }
    }
    if let Some(least) = &plan.min_available {
        let least = least.parse::<u32>().map_or(json!(least), |n| json!(n));
        objects.push((
            "poddisruptionbudgets",
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta,
                "spec": {"minAvailable": least, "selector": selector},
            }),
        ));
    }
    objects
}

fn template(plan: &Workload) -> Value {
    let mut resources = json!({"requests": {"cpu": "1"}, "limits": {}});
    if plan.gpus > 0 {
        resources["limits"]["nvidia.com/gpu"] = json!(plan.gpus.to_string());
        resources["requests"]["nvidia.com/gpu"] = json!(plan.gpus.to_string());
    }
    let restart = match plan.owner {
        Owner::Job | Owner::PlainJob => "Never",
        _ => "Always",
    };
    json!({
        "metadata": {"labels": {"app": plan.name}},
        "spec": {
            "terminationGracePeriodSeconds": plan.grace.as_secs(),
            "restartPolicy": restart,
            "containers": [{"name": "main", "image": "registry.example/model:1", "resources": resources}],
        },
    })
}

/// A pod of an owner, from its template.
pub(super) fn pod_of(owner: &Value, meta: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": owner["spec"]["template"]["metadata"],
        "spec": owner["spec"]["template"]["spec"],
    });
    pod["metadata"]["namespace"] = owner["metadata"]["namespace"].clone();
    pod["metadata"]["ownerReferences"] = json!([owner_reference(owner)]);
    if let (Some(to), Some(from)) = (pod["metadata"].as_object_mut(), meta.as_object()) {
        for (name, value) in from {
            match (to.get_mut(name).and_then(Value::as_object_mut), value) {
                // Labels and annotations are added to those of the template.
                (Some(known), Value::Object(more)) => known.extend(more.clone()),
                _ => {
                    to.insert(name.clone(), value.clone());
                }
            }
        }
    }
    pod
}

/// What says that an object belongs to its controller.
pub(super) fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}
