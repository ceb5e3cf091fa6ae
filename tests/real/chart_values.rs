//! What Helm makes of the chart's values, without a cluster.

use std::time::Duration;

use clap::Parser as _;
use gpu_remediator::api::PromDuration;
use gpu_remediator::cli::{Cli, Command};
use gpu_remediator::kubernetes::lease::LeaseSettings;
use serde_json::{Value, json};

use crate::harness::tools::{Answer, helm, repository};

pub(crate) fn template(release: &str, settings: &[&str]) -> Answer {
    let home = tempfile::tempdir().expect("a folder");
    let chart = repository("charts/gpu-remediator");
    let mut arguments = vec![
        "template",
        release,
        chart.to_str().expect("a path of text"),
        "--kube-version",
        "1.36.3",
    ];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    helm(home.path(), arguments)
}

pub(crate) fn objects(settings: &[&str]) -> Vec<Value> {
    let text = template("x", settings).expect_ok(&format!("helm template {settings:?}"));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("Helm prints YAML");
    assert!(!objects.is_empty());
    objects
}

/// The pod that the workload of `kind` starts.
pub(crate) fn pod(objects: &[Value], kind: &str) -> Value {
    objects
        .iter()
        .find(|object| object["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind}"))["spec"]["template"]["spec"]
        .clone()
}

pub(crate) fn arguments(pod: &Value) -> Vec<&str> {
    pod["containers"][0]["args"]
        .as_array()
        .expect("arguments")
        .iter()
        .map(|argument| argument.as_str().expect("an argument of text"))
        .collect()
}

#[test]
fn the_product_takes_the_arguments_that_the_chart_gives() {
    for settings in [
        vec![],
        vec![
            "prometheus.bearerTokenSecret.name=prometheus",
            "exporter.nvml=/usr/lib/libnvidia-ml.so.1",
            "controller.webConfig.secretName=web",
            "exporter.webConfig.secretName=web",
        ],
    ] {
        let objects = objects(&settings);
        for kind in ["Deployment", "DaemonSet"] {
            let pod = pod(&objects, kind);
            let line = std::iter::once("gpu-remediator").chain(arguments(&pod));
            if let Err(error) = Cli::try_parse_from(line) {
                panic!("{kind} with {settings:?}: {error}");
            }
        }
    }
}

#[test]
fn the_token_for_prometheus_comes_from_a_secret_and_only_if_asked_for() {
    let without = pod(&objects(&[]), "Deployment");
    assert_eq!(without["volumes"], Value::Null);
    assert!(
        !arguments(&without)
            .iter()
            .any(|argument| argument.contains("token"))
    );

    let with = pod(
        &objects(&[
            "prometheus.bearerTokenSecret.name=prometheus-reader",
            "prometheus.bearerTokenSecret.key=bearer",
        ]),
        "Deployment",
    );
    let file = arguments(&with)
        .into_iter()
        .find_map(|argument| argument.strip_prefix("--prometheus-bearer-token-file="))
        .expect("the controller is told the file");
    let volume = &with["volumes"][0];
    let item = &volume["secret"]["items"][0];
    assert_eq!(volume["secret"]["secretName"], "prometheus-reader");
    assert_eq!(item["key"], "bearer");
    let mount = &with["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], volume["name"]);
    assert_eq!(mount["readOnly"], true);
    // A file mounted by subPath would never see a renewed token.
    assert_eq!(mount["subPath"], Value::Null);
    assert_eq!(
        file,
        format!(
            "{}/{}",
            mount["mountPath"].as_str().expect("a path"),
            item["path"].as_str().expect("a path")
        )
    );
}

#[test]
fn what_the_chart_does_not_foresee_can_be_added_to_the_controller() {
    let pod = pod(
        &objects(&[
            "prometheus.bearerTokenSecret.name=prometheus-reader",
            "controller.extraEnv[0].name=SSL_CERT_FILE",
            "controller.extraEnv[0].value=/ca/ca.crt",
            "controller.extraVolumes[0].name=ca",
            "controller.extraVolumes[0].configMap.name=prometheus-ca",
            "controller.extraVolumeMounts[0].name=ca",
            "controller.extraVolumeMounts[0].mountPath=/ca",
        ]),
        "Deployment",
    );
    let container = &pod["containers"][0];
    assert!(
        container["env"]
            .as_array()
            .expect("variables")
            .contains(&json!({"name": "SSL_CERT_FILE", "value": "/ca/ca.crt"}))
    );
    assert_eq!(
        pod["volumes"][1],
        json!({"name": "ca", "configMap": {"name": "prometheus-ca"}})
    );
    assert_eq!(
        container["volumeMounts"][1],
        json!({"name": "ca", "mountPath": "/ca"})
    );
}

#[test]
fn a_release_whose_name_has_dots_gets_names_that_a_service_may_have() {
    let text = template("my.release", &[]).expect_ok("helm template");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("Helm prints YAML");
    let names: Vec<&str> = objects
        .iter()
        .filter(|object| object["kind"] == "Service")
        .map(|object| object["metadata"]["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        names,
        [
            "my-release-gpu-remediator-controller",
            "my-release-gpu-remediator-exporter"
        ]
    );
}

#[test]
fn times_of_the_election_that_the_controller_would_refuse_are_refused_before() {
    let time = |text: &str| -> Duration {
        let time: PromDuration = text.parse().expect("a duration");
        time.into()
    };
    let mut taken = 0;
    for [lease, renew, retry] in [
        ["15s", "10s", "2s"],
        ["5s", "10s", "2s"],
        ["10s", "10s", "2s"],
        ["10s1ms", "10s", "2s"],
        ["1m30s", "1m", "29s999ms"],
        ["1m30s", "1m", "30s"],
        ["1h", "1m30s", "1m"],
        ["500ms", "400ms", "100ms"],
        ["1s", "999ms", "400ms"],
    ] {
        let answer = template(
            "x",
            &[
                &format!("controller.leaderElection.leaseDuration={lease}"),
                &format!("controller.leaderElection.renewDeadline={renew}"),
                &format!("controller.leaderElection.retryPeriod={retry}"),
            ],
        );
        let settings = LeaseSettings {
            namespace: "x".to_owned(),
            name: "x".to_owned(),
            identity: "x".to_owned(),
            duration: time(lease),
            renew_deadline: time(renew),
            retry_period: time(retry),
        };
        assert_eq!(
            answer.ok,
            settings.validate().is_ok(),
            "{settings:?}: {}",
            answer.stderr
        );
        if answer.ok {
            taken += 1;
        } else {
            assert!(
                answer.stderr.contains("controller.leaderElection."),
                "{}",
                answer.stderr
            );
        }
    }
    assert_eq!(taken, 3);
}

#[test]
fn the_exporter_sees_the_folder_of_the_kubelets_socket_and_only_if_wanted() {
    let mount = |pod: &Value| {
        let mounts = pod["containers"][0]["volumeMounts"].as_array().cloned();
        let is = |mount: &&Value| mount["name"] == "pod-resources";
        mounts.expect("mounts").iter().find(is).cloned()
    };
    for (settings, folder) in [
        (vec![], "/var/lib/kubelet/pod-resources"),
        (
            vec!["exporter.podResourcesPath=/var/lib/k0s/kubelet/pod-resources"],
            "/var/lib/k0s/kubelet/pod-resources",
        ),
    ] {
        let pod = pod(&objects(&settings), "DaemonSet");
        let mount = mount(&pod).expect("a mount");
        assert_eq!(mount["readOnly"], true);
        // The file alone would be the socket of a kubelet that is gone, after its first restart.
        assert_eq!(mount["subPath"], Value::Null);
        let socket = format!(
            "--pod-resources-socket={}/kubelet.sock",
            mount["mountPath"].as_str().expect("a path")
        );
        assert!(arguments(&pod).contains(&&*socket), "{socket}");
        let volumes = pod["volumes"].as_array().expect("volumes");
        assert!(
            volumes.contains(&json!({"name": "pod-resources",
                "hostPath": {"path": folder, "type": "DirectoryOrCreate"}})),
            "{volumes:?}"
        );
    }
    let without = pod(&objects(&["exporter.podResourcesPath="]), "DaemonSet");
    assert_eq!(mount(&without), None);
    assert!(arguments(&without).contains(&"--pod-resources-socket="));
    assert_eq!(without["volumes"].as_array().map(Vec::len), Some(1));
    let refused = template("x", &["exporter.podResourcesPath=kubelet"]);
    assert!(
        !refused.ok && refused.stderr.contains("podResourcesPath"),
        "{}",
        refused.stderr
    );
}

/// GKE refuses system priority classes outside kube-system, and the pods would never be created.
#[test]
fn nothing_asks_for_a_system_priority_class_unless_told_to() {
    let by_default = objects(&[]);
    for kind in ["Deployment", "DaemonSet"] {
        assert_eq!(
            pod(&by_default, kind)["priorityClassName"],
            Value::Null,
            "{kind}"
        );
    }
    let told = objects(&[
        "controller.priorityClassName=system-cluster-critical",
        "exporter.priorityClassName=system-node-critical",
    ]);
    assert_eq!(
        pod(&told, "Deployment")["priorityClassName"],
        "system-cluster-critical"
    );
    assert_eq!(
        pod(&told, "DaemonSet")["priorityClassName"],
        "system-node-critical"
    );
}

/// A container that starts again in the same pod would take the lease of the one before it for its own, although the
/// other may still be in the middle of an effect. Without the flag the controller makes a name that is its own.
#[test]
fn a_controller_that_starts_again_has_another_name_in_the_election() {
    let pod = pod(&objects(&[]), "Deployment");
    let line = std::iter::once("gpu-remediator").chain(arguments(&pod));
    let cli = Cli::try_parse_from(line).expect("arguments that the product takes");
    let Command::Controller(arguments) = cli.command else {
        panic!("the Deployment runs something else");
    };
    assert_eq!(arguments.identity, None);
}
