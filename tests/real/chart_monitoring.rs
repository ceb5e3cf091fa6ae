//! What the chart gives to those who watch: how Prometheus reaches the endpoints, and the dashboard.

use serde_json::{Value, json};

use crate::chart_values::objects;
use crate::harness::tools::repository;

/// The one object of that kind.
fn object<'a>(objects: &'a [Value], kind: &str) -> Option<&'a Value> {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let first = found.next();
    assert!(found.next().is_none(), "two of {kind}");
    first
}

#[test]
fn a_monitor_says_how_prometheus_gets_in() {
    for (values, kind, endpoints) in [
        ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
        ("serviceMonitor", "ServiceMonitor", "endpoints"),
    ] {
        let endpoint = |settings: &[&str]| {
            let enabled = format!("{values}.enabled=true");
            let settings: Vec<String> = std::iter::once(enabled)
                .chain(settings.iter().map(|setting| format!("{values}.{setting}")))
                .collect();
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            let objects = objects(&settings);
            let list = &object(&objects, kind).expect("a monitor")["spec"][endpoints];
            assert_eq!(list.as_array().map(Vec::len), Some(1), "{kind}");
            list[0].clone()
        };
        let plain = endpoint(&[]);
        assert_eq!(plain["honorLabels"], true, "{kind}");
        let mut expected = plain.clone();
        for field in ["scheme", "tlsConfig", "basicAuth"] {
            assert_eq!(plain[field], Value::Null, "{kind}");
        }
        expected["scheme"] = json!("https");
        expected["tlsConfig"] = json!({
            "serverName": "gpu-remediator",
            "ca": {"secret": {"name": "tls", "key": "ca.crt"}},
        });
        expected["basicAuth"] = json!({
            "username": {"name": "scrape", "key": "username"},
            "password": {"name": "scrape", "key": "password"},
        });
        let told = endpoint(&[
            "scheme=https",
            "tlsConfig.serverName=gpu-remediator",
            "tlsConfig.ca.secret.name=tls",
            "tlsConfig.ca.secret.key=ca\\.crt",
            "basicAuth.username.name=scrape",
            "basicAuth.username.key=username",
            "basicAuth.password.name=scrape",
            "basicAuth.password.key=password",
        ]);
        assert_eq!(told, expected, "{kind}");
    }
}

#[test]
fn the_dashboard_is_a_config_map_for_the_sidecar_of_grafana_and_only_if_wanted() {
    assert_eq!(object(&objects(&[]), "ConfigMap"), None);
    let by_default = objects(&["dashboards.enabled=true"]);
    let map = object(&by_default, "ConfigMap").expect("a ConfigMap");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(map["metadata"]["annotations"], Value::Null);
    assert_eq!(map["metadata"]["namespace"], "default");
    let data = map["data"].as_object().expect("data");
    // The sidecar writes the keys of all ConfigMaps into one folder.
    assert_eq!(
        data.keys().collect::<Vec<_>>(),
        ["gpu-remediator-gpu-health.json"]
    );
    let file = std::fs::read_to_string(repository("dashboards/gpu-health.json"));
    assert_eq!(
        data["gpu-remediator-gpu-health.json"].as_str(),
        Some(&*file.expect("the dashboard")),
    );

    let told = objects(&[
        "dashboards.enabled=true",
        "dashboards.label=dashboards",
        "dashboards.labelValue=gpu",
        "dashboards.namespace=monitoring",
        "dashboards.annotations.grafana_folder=GPU",
    ]);
    let metadata = &object(&told, "ConfigMap").expect("a ConfigMap")["metadata"];
    assert_eq!(metadata["namespace"], "monitoring");
    assert_eq!(metadata["labels"]["dashboards"], "gpu");
    assert_eq!(metadata["labels"]["grafana_dashboard"], Value::Null);
    assert_eq!(metadata["annotations"], json!({"grafana_folder": "GPU"}));
}
