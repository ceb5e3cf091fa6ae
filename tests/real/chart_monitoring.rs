//! What the chart gives to those who watch: how Prometheus reaches the endpoints.

use serde_json::{Value, json};

use crate::chart_values::objects;

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
