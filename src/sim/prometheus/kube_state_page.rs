//! The metrics of kube-state-metrics that guards ask for, with its names and labels.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::Page;

/// Objects of the cluster, as its API shows them.
pub trait Cluster: Send + Sync {
    /// Grows with each change of any object.
    fn revision(&self) -> u64;

    /// All objects of a kind, by its plural name in lower case.
    fn list(&self, plural: &str) -> Vec<Arc<Value>>;
}

/// The page.
pub struct KubeStatePage {
    cluster: Arc<dyn Cluster>,
}

impl KubeStatePage {
    /// The page about a cluster. It has labels such as `namespace`, `pod` and `node` of its own.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>) -> Self {
        Self { cluster }
    }
}

/// Metrics that are one number of an object: name, help, plural, label of the object's name, where the number is, and what
/// it is where it is not said.
const NUMBERS: [(&str, &str, &str, &str, &str, f64); 12] = [
    (
        "kube_deployment_spec_replicas",
        "Pods that are wanted.",
        "deployments",
        "deployment",
        "/spec/replicas",
        1.0,
    ),
    (
        "kube_deployment_status_replicas",
        "Pods.",
        "deployments",
        "deployment",
        "/status/replicas",
        0.0,
    ),
    (
        "kube_deployment_status_replicas_ready",
        "Pods that are ready.",
        "deployments",
        "deployment",
        "/status/readyReplicas",
        0.0,
    ),
    (
        "kube_deployment_status_replicas_available",
        "Pods that are available.",
        "deployments",
        "deployment",
        "/status/availableReplicas",
        0.0,
    ),
    (
        "kube_deployment_status_replicas_unavailable",
        "Pods that are not available.",
        "deployments",
        "deployment",
        "/status/unavailableReplicas",
        0.0,
    ),
    (
        "kube_statefulset_replicas",
        "Pods that are wanted.",
        "statefulsets",
        "statefulset",
        "/spec/replicas",
        1.0,
    ),
    (
        "kube_statefulset_status_replicas",
        "Pods.",
        "statefulsets",
        "statefulset",
        "/status/replicas",
        0.0,
    ),
    (
        "kube_statefulset_status_replicas_ready",
        "Pods that are ready.",
        "statefulsets",
        "statefulset",
        "/status/readyReplicas",
        0.0,
    ),
    (
        "kube_statefulset_status_replicas_available",
        "Pods that are available.",
        "statefulsets",
        "statefulset",
        "/status/availableReplicas",
        0.0,
    ),
    (
        "kube_job_status_active",
        "Pods that run.",
        "jobs",
        "job_name",
        "/status/active",
        0.0,
    ),
    (
        "kube_poddisruptionbudget_status_pod_disruptions_allowed",
        "Evictions that are allowed.",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "/status/disruptionsAllowed",
        0.0,
    ),
    (
        "kube_poddisruptionbudget_status_current_healthy",
        "Pods that are healthy.",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "/status/currentHealthy",
        0.0,
    ),
];
const PHASES: [&str; 5] = ["Pending", "Succeeded", "Failed", "Running", "Unknown"];
const STATES: [&str; 3] = ["true", "false", "unknown"];

impl Page for KubeStatePage {
    fn version(&self) -> Option<u64> {
        Some(self.cluster.revision())
    }

    fn scrape(&self, _now: Timestamp) -> Result<String, String> {
        let mut page = String::new();
        for (name, help, plural, label, path, unsaid) in NUMBERS {
            family(&mut page, name, help);
            for object in self.cluster.list(plural) {
                let labels = [
                    ("namespace", text(&object, "/metadata/namespace")),
                    (label, text(&object, "/metadata/name")),
                ];
                let value = object
                    .pointer(path)
                    .and_then(Value::as_f64)
                    .unwrap_or(unsaid);
                sample(&mut page, name, &labels, value);
            }
        }
        let nodes = self.cluster.list("nodes");
        self::nodes(&mut page, &nodes);
        pods(&mut page, &self.cluster.list("pods"));
        Ok(page)
    }
}

fn nodes(page: &mut String, nodes: &[Arc<Value>]) {
    family(
        page,
        "kube_node_spec_unschedulable",
        "Whether a node takes new pods.",
    );
    for node in nodes {
        let cordoned = node
            .pointer("/spec/unschedulable")
            .and_then(Value::as_bool)
            .unwrap_or_default();
        let labels = [("node", text(node, "/metadata/name"))];
        sample(page, "kube_node_spec_unschedulable", &labels, one(cordoned));
    }
    family(
        page,
        "kube_node_status_condition",
        "The condition of a node.",
    );
    for node in nodes {
        let name = text(node, "/metadata/name");
        for (condition, status) in conditions(node) {
            for state in STATES {
                let labels = [("node", name), ("condition", condition), ("status", state)];
                sample(
                    page,
                    "kube_node_status_condition",
                    &labels,
                    one(status.eq_ignore_ascii_case(state)),
                );
            }
        }
    }
}

fn pods(page: &mut String, pods: &[Arc<Value>]) {
    let labels = |pod: &'_ Value| {
        let found = ["/metadata/namespace", "/metadata/name", "/metadata/uid"]
            .map(|path| text(pod, path).to_owned());
        let [namespace, name, uid] = found;
        (namespace, name, uid)
    };
    family(page, "kube_pod_info", "What a pod is.");
    for pod in pods {
        let (namespace, name, uid) = labels(pod);
        let all = [
            ("namespace", namespace.as_str()),
            ("pod", name.as_str()),
            ("uid", uid.as_str()),
            ("node", text(pod, "/spec/nodeName")),
            (
                "created_by_kind",
                text(pod, "/metadata/ownerReferences/0/kind"),
            ),
            (
                "created_by_name",
                text(pod, "/metadata/ownerReferences/0/name"),
            ),
        ];
        sample(page, "kube_pod_info", &all, 1.0);
    }
    family(page, "kube_pod_status_phase", "The phase of a pod.");
    for pod in pods {
        let (namespace, name, uid) = labels(pod);
        for phase in PHASES {
            let all = [
                ("namespace", namespace.as_str()),
                ("pod", &name),
                ("uid", &uid),
                ("phase", phase),
            ];
            sample(
                page,
                "kube_pod_status_phase",
                &all,
                one(text(pod, "/status/phase") == phase),
            );
        }
    }
    family(page, "kube_pod_status_ready", "Whether a pod is ready.");
    for pod in pods {
        let (namespace, name, uid) = labels(pod);
        let ready = conditions(pod).find(|(condition, _)| *condition == "Ready");
        // A pod without the condition has no series, as a pod that no kubelet has seen yet.
        for state in STATES.into_iter().filter(|_| ready.is_some()) {
            let is = ready.is_some_and(|(_, status)| status.eq_ignore_ascii_case(state));
            let all = [
                ("namespace", namespace.as_str()),
                ("pod", &name),
                ("uid", &uid),
                ("condition", state),
            ];
            sample(page, "kube_pod_status_ready", &all, one(is));
        }
    }
}

fn conditions(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    conditions.map(|condition| (text(condition, "/type"), text(condition, "/status")))
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn one(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

fn family(page: &mut String, name: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge");
}

fn sample(page: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    page.push_str(name);
    page.push('{');
    for (number, (label, value)) in labels.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let _ = write!(page, "{comma}{label}=\"{value}\"");
    }
    let _ = writeln!(page, "}} {value}");
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    struct One;

    impl Cluster for One {
        fn revision(&self) -> u64 {
            1
        }

        fn list(&self, plural: &str) -> Vec<Arc<Value>> {
            let meta = json!({"name": "a", "namespace": "n", "uid": "u"});
            let objects = match plural {
                "deployments" => vec![
                    json!({"metadata": meta, "spec": {"replicas": 3}, "status": {"availableReplicas": 2}}),
                ],
                "nodes" => vec![json!({
                    "metadata": {"name": "node-1"},
                    "spec": {"unschedulable": true},
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                })],
                "pods" => vec![json!({
                    "metadata": meta,
                    "spec": {"nodeName": "node-1"},
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
                })],
                _ => Vec::new(),
            };
            objects.into_iter().map(Arc::new).collect()
        }
    }

    #[test]
    fn objects_become_series_with_the_names_that_guards_know() {
        let page = KubeStatePage::new(Arc::new(One))
            .scrape(Timestamp::UNIX_EPOCH)
            .unwrap();
        for line in [
            "kube_deployment_spec_replicas{namespace=\"n\",deployment=\"a\"} 3",
            "kube_deployment_status_replicas_available{namespace=\"n\",deployment=\"a\"} 2",
            "kube_deployment_status_replicas_ready{namespace=\"n\",deployment=\"a\"} 0",
            "kube_node_spec_unschedulable{node=\"node-1\"} 1",
            "kube_node_status_condition{node=\"node-1\",condition=\"Ready\",status=\"true\"} 1",
            "kube_node_status_condition{node=\"node-1\",condition=\"Ready\",status=\"unknown\"} 0",
            "kube_pod_status_phase{namespace=\"n\",pod=\"a\",uid=\"u\",phase=\"Running\"} 1",
            "kube_pod_status_phase{namespace=\"n\",pod=\"a\",uid=\"u\",phase=\"Failed\"} 0",
            "kube_pod_status_ready{namespace=\"n\",pod=\"a\",uid=\"u\",condition=\"true\"} 0",
            "kube_pod_status_ready{namespace=\"n\",pod=\"a\",uid=\"u\",condition=\"false\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(super::super::exposition::read(&page).is_ok());
    }
}
