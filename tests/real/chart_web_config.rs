//! TLS and passwords by the chart's values: the file is there, and the kubelet still gets an answer.

use std::path::Path;

use clap::Parser as _;
use gpu_remediator::cli::{Cli, Command};
use serde_json::{Value, json};

use crate::chart_values::{arguments, objects, pod};

/// The two workloads, and the values of each.
const WORKLOADS: [(&str, &str); 2] = [("Deployment", "controller"), ("DaemonSet", "exporter")];

/// The workload's pod with these values of its `webConfig`.
fn pod_with(kind: &str, component: &str, values: &[&str]) -> Value {
    let settings: Vec<String> = values
        .iter()
        .map(|value| format!("{component}.webConfig.{value}"))
        .collect();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    pod(&objects(&settings), kind)
}

/// The object of that name in a list of the pod.
fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| item["name"] == name)
}

/// The file that the product would read.
fn web_config_file(pod: &Value) -> Option<String> {
    let line = std::iter::once("gpu-remediator").chain(arguments(pod));
    let cli = Cli::try_parse_from(line).expect("arguments that the product takes");
    let file = match cli.command {
        Command::Controller(arguments) => arguments.web_config_file,
        Command::Exporter(arguments) => arguments.web_config_file,
        other => panic!("the chart runs {other:?}"),
    };
    file.map(|file| file.to_str().expect("a path of text").to_owned())
}

fn probes(pod: &Value) -> [Value; 2] {
    ["livenessProbe", "readinessProbe"].map(|name| {
        let mut probe = pod["containers"][0][name].clone();
        let fields = probe.as_object_mut().expect("a probe");
        fields.remove("periodSeconds").expect("a period");
        fields.remove("failureThreshold");
        probe
    })
}

#[test]
fn without_a_web_config_nothing_is_mounted_and_the_probes_are_plain_http() {
    for (kind, component) in WORKLOADS {
        let pod = pod_with(kind, component, &[]);
        assert_eq!(web_config_file(&pod), None, "{kind}");
        assert_eq!(named(&pod["volumes"], "web-config"), None, "{kind}");
        assert_eq!(
            probes(&pod),
            [
                json!({"httpGet": {"path": "/healthz", "port": "http"}}),
                json!({"httpGet": {"path": "/readyz", "port": "http"}}),
            ],
            "{kind}"
        );
    }
}

#[test]
fn both_secrets_are_one_folder_that_follows_them() {
    for (kind, component) in WORKLOADS {
        for (values, sources) in [
            (vec!["secretName=web"], json!([{"secret": {"name": "web"}}])),
            (
                vec!["secretName=web", "certificateSecretName=web-tls"],
                json!([{"secret": {"name": "web"}}, {"secret": {"name": "web-tls"}}]),
            ),
        ] {
            let pod = pod_with(kind, component, &values);
            let volume = named(&pod["volumes"], "web-config").expect("a volume");
            // Whole Secrets: the file names what it likes.
            assert_eq!(
                volume,
                &json!({"name": "web-config", "projected": {"sources": sources}})
            );
            let mounts = &pod["containers"][0]["volumeMounts"];
            let mount = named(mounts, "web-config").expect("a mount");
            assert_eq!(mount["readOnly"], true);
            // A file mounted by subPath would never see a renewed certificate.
            assert_eq!(mount["subPath"], Value::Null);
            let file = web_config_file(&pod).expect("the product is told the file");
            assert_eq!(
                Path::new(&file),
                Path::new(mount["mountPath"].as_str().expect("a path")).join("web-config.yml"),
            );
        }
    }
}

#[test]
fn the_other_workload_keeps_what_it_has() {
    let objects = objects(&["exporter.webConfig.secretName=web"]);
    let controller = pod(&objects, "Deployment");
    assert_eq!(web_config_file(&controller), None);
    assert_eq!(controller["volumes"], Value::Null);
    let with = self::objects(&[
        "controller.webConfig.secretName=web",
        "prometheus.bearerTokenSecret.name=token",
        "controller.extraVolumes[0].name=ca",
        "controller.extraVolumes[0].configMap.name=ca",
    ]);
    assert_eq!(web_config_file(&pod(&with, "DaemonSet")), None);
    let controller = pod(&with, "Deployment");
    for volume in ["prometheus-token", "web-config", "ca"] {
        assert!(named(&controller["volumes"], volume).is_some(), "{volume}");
    }
}

/// The kubelet has no password and no client certificate: a probe that asked would restart the pod for ever.
#[test]
fn the_kubelet_only_connects_unless_it_is_said_how_it_may_ask() {
    for (kind, component) in WORKLOADS {
        let pod = pod_with(kind, component, &["secretName=web"]);
        let connects = json!({"tcpSocket": {"port": "http"}});
        assert_eq!(probes(&pod), [connects.clone(), connects], "{kind}");
        for scheme in ["HTTPS", "HTTP"] {
            let told = format!("probeScheme={scheme}");
            let pod = pod_with(kind, component, &["secretName=web", &told]);
            assert_eq!(
                probes(&pod),
                ["/healthz", "/readyz"].map(
                    |path| json!({"httpGet": {"path": path, "port": "http", "scheme": scheme}})
                ),
                "{kind}"
            );
        }
    }
}
