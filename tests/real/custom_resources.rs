//! The custom resources as the real API server sees them: what it refuses, and
//! what `kubectl explain` tells.

use serde_json::{Value, json};

use crate::harness::chart;
use crate::harness::cluster::Cluster;
use crate::harness::tools::kubectl;
use crate::harness::wait::{eventually, seconds};

const KINDS: [&str; 3] = ["gpufaults", "gpufaultrules", "remediationpolicies"];

fn policy(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1",
        "kind": "RemediationPolicy",
        "metadata": {"name": "probe"},
        "spec": {
            "mode": "Enforce",
            "guards": {"pauseIf": [{"name": "errors", "expr": "errors > 1"}]},
            "budget": {"maxUnavailable": "10%", "maxConcurrent": 1},
            "steps": [{"cordon": {}}, {"evictPods": {"timeout": "15m"}}],
            "recovery": {"healthy": {"expr": "gpu_up == 1", "for": "10m"}},
        },
    });
    change(&mut object);
    object
}

fn fault() -> Value {
    json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1",
        "kind": "GpuFault",
        "metadata": {"name": "probe"},
        "spec": {"nodeName": "gpu-a", "policyRef": {"name": "drain-node"}},
    })
}

fn rule(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "apiVersion": "gpu-remediator.dev/v1alpha1",
        "kind": "GpuFaultRule",
        "metadata": {"name": "probe"},
        "spec": {"groups": [{"name": "probe", "interval": "5s", "rules": [{
            "alert": "Probe",
            "expr": "gpu_up == 0",
            "remediation": {"policy": "drain-node"},
        }]}]},
    });
    change(&mut object);
    object
}

#[tokio::test]
async fn objects_that_cannot_work_are_refused_with_a_reason() {
    let cluster = Cluster::start().await;
    chart::install(&cluster).await;
    let apply = |object: &Value| {
        kubectl(
            cluster.admin_kubeconfig(),
            ["apply", "--server-side", "--dry-run=server", "-f", "-"],
            &object.to_string(),
        )
    };
    // Each of the three is accepted as it is, so that what is refused below is
    // refused for its change alone.
    for good in [policy(|_| ()), rule(|_| ()), fault()] {
        apply(&good).expect_ok("a good object");
    }
    let bad: [(Value, &[&str]); 12] = [
        (
            policy(|p| p["spec"]["mode"] = json!("Enforced")),
            &["mode", "Unsupported value"],
        ),
        (
            policy(|p| p["spec"]["budget"]["maxUnavailable"] = json!(-1)),
            &["maxUnavailable", "positive"],
        ),
        (
            policy(|p| p["spec"]["budget"]["maxUnavailable"] = json!(0)),
            &["maxUnavailable", "positive"],
        ),
        (
            policy(|p| p["spec"]["budget"]["maxUnavailable"] = json!("0%")),
            &["maxUnavailable", "positive"],
        ),
        (
            policy(|p| p["spec"]["budget"]["maxConcurrent"] = json!(-2)),
            &["maxConcurrent"],
        ),
        (
            policy(|p| {
                p["spec"]["steps"][0] = json!({"cordon": {}, "evictPods": {"timeout": "1m"}})
            }),
            &["steps", "exactly one action"],
        ),
        (
            policy(|p| p["spec"]["steps"][0] = json!({})),
            &["steps[0]", "one and only one"],
        ),
        (policy(|p| p["spec"]["steps"] = json!([])), &["steps"]),
        (
            policy(|p| p["spec"]["guards"]["pauseIf"][0] = json!({"name": "errors"})),
            &["expr", "Required"],
        ),
        (
            policy(|p| p["spec"]["guards"]["pauseIf"][0]["expr"] = json!("  ")),
            &["expr", "a guard has an expr"],
        ),
        (
            policy(|p| p["spec"]["steps"][1]["evictPods"]["timeout"] = json!("fifteen minutes")),
            &["timeout"],
        ),
        (
            rule(|r| r["spec"]["groups"][0]["interval"] = json!("5")),
            &["interval"],
        ),
    ];
    for (object, reasons) in &bad {
        let answer = apply(object);
        assert!(!answer.ok, "accepted: {object}");
        for reason in *reasons {
            assert!(
                answer.stderr.contains(reason),
                "no {reason:?} in {}",
                answer.stderr
            );
        }
    }
    // A field that nobody knows is refused where the client asks for strictness,
    // as kubectl does.
    let unknown = rule(|r| r["spec"]["groups"][0]["rules"][0]["fro"] = json!("5m"));
    let answer = kubectl(
        cluster.admin_kubeconfig(),
        ["create", "--dry-run=server", "-f", "-"],
        &unknown.to_string(),
    );
    assert!(!answer.ok && answer.stderr.contains("fro"), "{answer:?}");
}

#[tokio::test]
async fn what_was_seen_cannot_be_rewritten() {
    let cluster = Cluster::start().await;
    chart::install(&cluster).await;
    kubectl(
        cluster.admin_kubeconfig(),
        ["create", "-f", "-"],
        &fault().to_string(),
    )
    .expect_ok("a fault made by hand");
    let answer = kubectl(
        cluster.admin_kubeconfig(),
        [
            "patch",
            "gpufault",
            "probe",
            "--type=merge",
            "-p",
            r#"{"spec":{"nodeName":"gpu-b"}}"#,
        ],
        "",
    );
    assert!(!answer.ok, "{}", answer.stdout);
    assert!(answer.stderr.contains("immutable"), "{}", answer.stderr);

    // Found by its short name and by its category.
    for name in ["gf", "gpu-remediator"] {
        let listed = kubectl(cluster.admin_kubeconfig(), ["get", name, "-o", "name"], "")
            .expect_ok("kubectl get");
        assert!(
            listed.contains("gpufault.gpu-remediator.dev/probe"),
            "{listed}"
        );
    }
}

#[tokio::test]
async fn kubectl_explains_every_field() {
    let cluster = Cluster::start().await;
    chart::install(&cluster).await;
    for kind in KINDS {
        let text = kubectl(
            cluster.admin_kubeconfig(),
            [
                "get",
                "crd",
                &format!("{kind}.gpu-remediator.dev"),
                "-o",
                "json",
            ],
            "",
        )
        .expect_ok("the resource definition");
        let definition: Value = serde_json::from_str(&text).expect("JSON");
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut silent = Vec::new();
        for part in ["spec", "status"] {
            undescribed(
                &schema["properties"][part],
                &format!("{kind}.{part}"),
                &mut silent,
            );
        }
        assert!(silent.is_empty(), "without a description: {silent:#?}");

        // What kubectl explains from is made a moment after the definition is accepted.
        let explained = eventually(seconds(30), "kubectl to explain it", async || {
            let answer = kubectl(
                cluster.admin_kubeconfig(),
                ["explain", kind, "--recursive"],
                "",
            );
            if answer.ok {
                Ok(answer.stdout)
            } else {
                Err(answer.stderr)
            }
        })
        .await;
        assert!(explained.contains("spec"), "{explained}");
        assert!(
            !explained.contains("<empty>"),
            "{kind} has no description:\n{explained}"
        );
    }
}

/// Collects the paths below `schema` that have no description.
fn undescribed(schema: &Value, path: &str, silent: &mut Vec<String>) {
    if schema["description"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        silent.push(path.to_owned());
    }
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (name, property) in properties {
        undescribed(property, &format!("{path}.{name}"), silent);
    }
    // An item is described by its list.
    let inside = &schema["items"]["properties"];
    for (name, property) in inside.as_object().into_iter().flatten() {
        undescribed(property, &format!("{path}[].{name}"), silent);
    }
}
