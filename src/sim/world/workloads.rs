//! The workload controllers: Deployment, ReplicaSet, StatefulSet, DaemonSet and Job, as far as a drain meets them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::objects::{owner_reference, pod_of};
use super::view::{Key, Pod, View, condition};
use crate::sim::api_server::Store;
use crate::sim::api_server::resources::{
    DAEMON_SETS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS,
};

/// The controllers' own ways to the API server, so that each write says who did it.
pub(super) struct Controllers {
    deployments: Store,
    replica_sets: Store,
    stateful_sets: Store,
    daemon_sets: Store,
    jobs: Store,
}

impl Controllers {
    pub(super) fn new(store: impl Fn(&str) -> Store) -> Self {
        Self {
            deployments: store("deployment-controller"),
            replica_sets: store("replicaset-controller"),
            stateful_sets: store("statefulset-controller"),
            daemon_sets: store("daemonset-controller"),
            jobs: store("job-controller"),
        }
    }

    /// Brings one object nearer to what it asks for.
    pub(super) fn reconcile(&self, view: &View, place: usize, key: &Key, now: &str) {
        let Some(object) = view.objects[place].get(key) else {
            return;
        };
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        match place {
            0 => self.deployment(view, key, object),
            1 => self.replica_set(view, key, object),
            2 => self.stateful_set(view, key, object),
            3 => self.daemon_set(view, key, object),
            4 => self.job(view, key, object, now),
            _ => {}
        }
    }

    fn deployment(&self, view: &View, key: &Key, deployment: &Arc<Value>) {
        let (namespace, name) = key;
        let uid = deployment["metadata"]["uid"].as_str().unwrap_or_default();
        let replicas = wanted(deployment);
        let owned = view.objects[1].values();
        let owned = owned.filter(|set| super::view::uid_of_owner(set).as_deref() == Some(uid));
        let Some(set) = owned.into_iter().next() else {
            let set = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {
                    "namespace": namespace, "name": format!("{name}-6d4b75cb6d"),
                    "labels": deployment["spec"]["template"]["metadata"]["labels"],
                    "ownerReferences": [owner_reference(deployment)],
                },
                "spec": {
                    "replicas": replicas, "selector": deployment["spec"]["selector"],
                    "template": deployment["spec"]["template"],
                },
            });
            // A set that is there already comes with the next change.
            let _ = self.deployments.create(REPLICA_SETS, set);
            return;
        };
        if wanted(set) != replicas {
            let set_name = set["metadata"]["name"].as_str().unwrap_or_default();
            let _ = self
                .deployments
                .change(REPLICA_SETS, Some(namespace), set_name, |set| {
                    set["spec"]["replicas"] = json!(replicas);
                });
        }
        let count = |field: &str| set["status"][field].as_u64().unwrap_or(0);
        let status = json!({
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": count("replicas"), "updatedReplicas": count("replicas"),
            "readyReplicas": count("readyReplicas"), "availableReplicas": count("availableReplicas"),
            "unavailableReplicas": replicas.saturating_sub(count("availableReplicas")),
        });
        report(&self.deployments, DEPLOYMENTS, key, deployment, status);
    }

    fn replica_set(&self, view: &View, key: &Key, set: &Arc<Value>) {
        let replicas = wanted(set);
        let mut active: Vec<(Key, Pod)> = view.pods_of(set);
        active.retain(|(_, pod)| pod.is_active());
        let have = active.len() as u64;
        for _ in have..replicas {
            let name = format!("{}-", key.1);
            let _ = self
                .replica_sets
                .create(PODS, pod_of(set, json!({"generateName": name})));
        }
        if have > replicas {
            // Pods that serve nobody go first, then the youngest.
            active.sort_by_key(|(key, pod)| {
                let created = pod.value["metadata"]["creationTimestamp"].as_str();
                let bound = pod.node.is_some();
                (
                    bound,
                    pod.ready,
                    std::cmp::Reverse(created.map(str::to_owned)),
                    key.clone(),
                )
            });
            for ((namespace, name), _) in active.iter().take((have - replicas) as usize) {
                let _ = self.replica_sets.delete(PODS, Some(namespace), name, None);
            }
        }
        let ready = active.iter().filter(|(_, pod)| pod.ready).count();
        let status = json!({
            "observedGeneration": set["metadata"]["generation"],
            "replicas": have.min(replicas.max(have)), "readyReplicas": ready, "availableReplicas": ready,
            "fullyLabeledReplicas": have,
        });
        report(&self.replica_sets, REPLICA_SETS, key, set, status);
    }

    fn stateful_set(&self, view: &View, key: &Key, set: &Arc<Value>) {
        let replicas = wanted(set);
        let mut ready = 0;
        let mut waits = false;
        for ordinal in 0..replicas {
            let name = format!("{}-{ordinal}", key.1);
            let pod = view.pods.get(&(key.0.clone(), name.clone()));
            match pod {
                // The name is taken until the pod is gone: the next one waits for that.
                Some(pod) if !pod.is_active() => {
                    if pod.finished && !pod.deleting {
                        let _ = self.stateful_sets.delete(PODS, Some(&key.0), &name, None);
                    }
                    waits = true;
                }
                Some(pod) if pod.ready => ready += 1,
                Some(_) => waits = true,
                None if waits => {}
                None => {
                    let labels = json!({
                        "statefulset.kubernetes.io/pod-name": name,
                        "apps.kubernetes.io/pod-index": ordinal.to_string(),
                    });
                    let _ = self
                        .stateful_sets
                        .create(PODS, pod_of(set, json!({"name": name, "labels": labels})));
                    waits = true;
                }
            }
        }
        for ((namespace, name), pod) in view.pods_of(set).into_iter().rev() {
            let ordinal = name.rsplit('-').next().and_then(|o| o.parse::<u64>().ok());
            if pod.is_active() && ordinal.is_some_and(|o| o >= replicas) {
                let _ = self
                    .stateful_sets
                    .delete(PODS, Some(&namespace), &name, None);
            }
        }
        let have = view.pods_of(set).len();
        let status = json!({
            "observedGeneration": set["metadata"]["generation"], "replicas": have,
            "readyReplicas": ready, "availableReplicas": ready, "currentReplicas": have,
        });
        report(&self.stateful_sets, STATEFUL_SETS, key, set, status);
    }

    fn daemon_set(&self, view: &View, key: &Key, set: &Arc<Value>) {
        let pods = view.pods_of(set);
        for node in view.nodes.keys() {
            let here = |(_, pod): &(Key, Pod)| pod.node.as_ref() == Some(node) && !pod.finished;
            if !pods.iter().any(here) {
                let mut pod = pod_of(set, json!({"generateName": format!("{}-", key.1)}));
                pod["spec"]["nodeName"] = json!(node);
                pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
                let _ = self.daemon_sets.create(PODS, pod);
            }
        }
        let ready = pods.iter().filter(|(_, pod)| pod.ready).count();
        let status = json!({
            "observedGeneration": set["metadata"]["generation"],
            "desiredNumberScheduled": view.nodes.len(), "currentNumberScheduled": pods.len(),
            "numberReady": ready, "numberAvailable": ready, "numberMisscheduled": 0,
        });
        report(&self.daemon_sets, DAEMON_SETS, key, set, status);
    }

    fn job(&self, view: &View, key: &Key, job: &Arc<Value>, now: &str) {
        let is = |kind: &str| condition(job, kind) == Some("True");
        if is("Complete") || is("Failed") {
            return;
        }
        let pods = view.pods_of(job);
        let suspended = job["spec"]["suspend"] == true;
        if suspended {
            for ((namespace, name), _) in pods.iter().filter(|(_, pod)| pod.is_active()) {
                let _ = self.jobs.delete(PODS, Some(namespace), name, None);
            }
        }
        let completions = job["spec"]["completions"].as_u64().unwrap_or(1);
        let phase = |pod: &Pod| pod.value["status"]["phase"].as_str().map(str::to_owned);
        let succeeded =
            |(_, pod): &&(Key, Pod)| phase(pod).is_some_and(|phase| phase == "Succeeded");
        let done = pods.iter().filter(succeeded).count() as u64;
        // A pod that is being deleted has failed: pods that are gone are not seen any more, so the count is kept.
        let failed_now = pods
            .iter()
            .filter(|(_, pod)| phase(pod).is_some_and(|phase| phase == "Failed"))
            .count() as u64;
        let failed = job["status"]["failed"]
            .as_u64()
            .unwrap_or(0)
            .max(failed_now);
        let finished = done >= completions;
        if !suspended && !finished {
            let indexed = job["spec"]["completionMode"] == "Indexed";
            let active = |(_, pod): &&(Key, Pod)| pod.is_active();
            if indexed {
                for index in 0..completions {
                    let index = index.to_string();
                    let label = "batch.kubernetes.io/job-completion-index";
                    let mine = |(_, pod): &(Key, Pod)| {
                        pod.value["metadata"]["labels"][label] == index.as_str()
                    };
                    let alive = |entry: &(Key, Pod)| {
                        mine(entry) && (entry.1.is_active() || succeeded(&entry))
                    };
                    if !pods.iter().any(alive) {
                        let marks = json!({label: index});
                        let name = format!("{}-{index}-", key.1);
                        let meta = json!({
                            "generateName": name, "annotations": marks,
                            "labels": {
                                label: index, "job-name": key.1,
                                "batch.kubernetes.io/job-name": key.1,
                            },
                        });
                        let _ = self.jobs.create(PODS, pod_of(job, meta));
                    }
                }
            } else {
                let have = pods.iter().filter(active).count() as u64;
                for _ in have + done..completions {
                    let meta = json!({
                        "generateName": format!("{}-", key.1),
                        "labels": {"job-name": key.1, "batch.kubernetes.io/job-name": key.1},
                    });
                    let _ = self.jobs.create(PODS, pod_of(job, meta));
                }
            }
        }
        let active = pods.iter().filter(|(_, pod)| pod.is_active()).count();
        let ready = pods.iter().filter(|(_, pod)| pod.ready && pod.is_active());
        let mut status = json!({
            "active": active, "ready": ready.count(), "succeeded": done, "failed": failed,
            "startTime": job["status"].get("startTime").cloned().unwrap_or(json!(now)),
        });
        if suspended {
            status["conditions"] = json!([super::objects::condition(
                "Suspended",
                "True",
                "JobSuspended",
                now
            )]);
            if is("Suspended") {
                status["conditions"] = job["status"]["conditions"].clone();
            }
        } else if finished {
            status["conditions"] = json!([
                super::objects::condition("SuccessCriteriaMet", "True", "CompletionsReached", now),
                super::objects::condition("Complete", "True", "CompletionsReached", now),
            ]);
            status["completionTime"] = json!(now);
        }
        report(&self.jobs, JOBS, key, job, status);
    }
}

fn wanted(object: &Value) -> u64 {
    object["spec"]["replicas"].as_u64().unwrap_or(1)
}

/// Writes a status where it says something new.
pub(super) fn report(
    store: &Store,
    resource: &'static crate::sim::api_server::Resource,
    key: &Key,
    object: &Value,
    status: Value,
) {
    if object["status"] != status {
        // An object that is gone has no status to write.
        let _ = store.change_status(resource, Some(&key.0), &key.1, |o| o["status"] = status);
    }
}
