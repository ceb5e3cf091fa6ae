//! Proof of the checker: each rule has wrong examples that it catches, and right ones that it lets pass.

use super::*;

/// The violations of one file, without their places.
fn broken(room: &str, path: &str, text: &str) -> Vec<String> {
    check(room, path, text)
        .into_iter()
        .map(|v| v.what)
        .collect()
}

#[test]
fn catches_imports_in_the_wrong_direction() {
    for (room, text) in [
        ("guards", "use crate::prometheus::Client;"),
        ("api", "use crate::kubernetes::nodes;"),
        ("slo", "fn f() { crate::http::serve() }"),
        ("rules", "use crate::{api::names, controller::evaluate};"),
        ("remediation", "use crate::telemetry;"),
        ("xid", "pub use crate::exporter as e;"),
        ("prometheus", "use crate::kubernetes::clients::call;"),
        ("kubernetes", "use crate::nvml::Sample;"),
        ("nvml", "pub(crate) use crate::kmsg::Record;"),
        ("kmsg", "use crate::controller;"),
        ("http", "use crate::prometheus;"),
        ("telemetry", "use crate::kubernetes;"),
        ("exporter", "use crate::controller::World;"),
        ("controller", "use crate::exporter::Settings;"),
        ("controller", "use crate::sim;"),
        ("controller", "use crate::commands::run;"),
        ("sim", "use crate::cli::Arguments;"),
        ("commands", "use crate::cli;"),
        ("guards", "use gpu_remediator::prometheus;"),
        (
            "guards",
            "use crate::{\n    api,\n    kubernetes::{nodes, pods},\n};",
        ),
    ] {
        let path = format!("{room}/x.rs");
        assert_eq!(broken(room, &path, text).len(), 1, "{room}: {text}");
    }
}

#[test]
fn lets_imports_in_the_right_direction_pass() {
    for (room, text) in [
        ("guards", "use crate::api::policy::Budget;"),
        ("remediation", "use crate::{guards::budget, slo::matching};"),
        ("prometheus", "use crate::rules::Sample; use crate::http;"),
        ("kubernetes", "use crate::telemetry; use super::nodes;"),
        ("exporter", "use crate::{nvml, kmsg, xid, http, telemetry};"),
        (
            "controller",
            "use crate::{prometheus, kubernetes, remediation};",
        ),
        ("sim", "use crate::controller;"),
        ("commands", "use crate::{controller, exporter, sim, rules};"),
        ("cli", "use crate::commands;"),
        ("main", "use gpu_remediator::{cli, commands};"),
        ("lib", "pub mod api; pub use crate::kubernetes::nodes;"),
    ] {
        let path = format!("{room}/x.rs");
        assert_eq!(
            broken(room, &path, text),
            Vec::<String>::new(),
            "{room}: {text}"
        );
    }
}

#[test]
fn follows_super_to_the_room_where_it_leads() {
    let text = "use super::super::kubernetes::nodes;";
    assert_eq!(
        broken("guards", "guards/budget.rs", text),
        ["guards must not use kubernetes"]
    );
    assert_eq!(
        broken("guards", "guards/mod.rs", "use super::kubernetes::nodes;"),
        ["guards must not use kubernetes"]
    );
    assert!(broken("guards", "guards/budget.rs", "use super::window;").is_empty());
    assert!(broken("guards", "guards/deep/x.rs", "use super::super::window;").is_empty());
}

#[test]
fn catches_a_pure_room_that_touches_the_world() {
    for text in [
        "async fn f() {}",
        "fn f() { g(async move { 1 }) }",
        "fn f() { g().await }",
        "use tokio::sync::watch;",
        "use futures::StreamExt;",
        "use kube::Client;",
        "use kube::{Client, ResourceExt};",
        "use kube::{\n    CustomResource,\n    client::Body,\n};",
        "fn f(api: kube::Api<Node>) {}",
        "use kube::api::Api;",
        "use kube::runtime::watcher;",
        "use reqwest::Url;",
        "use hyper::body;",
        "fn f() { tracing::info!(1) }",
        "let now = jiff::Timestamp::now();",
        "use std::time::SystemTime;",
        "let t = Instant::now();",
        "use std::{collections::BTreeMap, fs};",
        "let a = std::env::var(name);",
        "use std::net::IpAddr;",
    ] {
        assert_eq!(broken("slo", "slo/x.rs", text).len(), 1, "{text}");
        let found = broken("kubernetes", "kubernetes/x.rs", text);
        assert!(found.is_empty(), "an adapter may: {text}: {found:?}");
    }
}

#[test]
fn lets_a_pure_room_speak_of_the_world() {
    for text in [
        "/// Unlike `tokio`, and without std::fs.\nfn f() {}",
        "/* async fn /* nested */ tokio */ fn f() {}",
        "const M: &str = \"use kube::Client; \\\" tokio\";",
        "const M: &str = r#\"tracing \" hyper\"#;",
        "use kube::{CustomResource, KubeSchema};",
        "fn f(hyperbola: &str, tracings: u8) {}",
        "fn f<'a>(c: char) -> bool { c == '\"' || c == '\\'' }",
        "fn f(now: Timestamp) {}",
        "#[cfg(test)]\nmod tests { use std::fs; async fn f() { if a { b } } }",
        "#[cfg(test)]\nmod decide_tests;\nfn f() {}",
    ] {
        assert_eq!(
            broken("slo", "slo/x.rs", text),
            Vec::<String>::new(),
            "{text}"
        );
    }
    assert!(broken("slo", "slo/matching_tests.rs", "use std::fs;").is_empty());
}

#[test]
fn sees_what_stands_after_a_test_module() {
    let text = "#[cfg(test)]\nmod tests { fn f() { } }\nuse tokio::time;\n#[cfg(test)]\nmod more;\nuse std::fs;";
    let lines: Vec<usize> = check("slo", "slo/x.rs", text)
        .iter()
        .map(|v| v.line)
        .collect();
    assert_eq!(lines, [3, 6]);
}

#[test]
fn counts_every_line_of_every_file() {
    let longest = "\n".repeat(LONGEST_FILE);
    assert!(broken("slo", "slo/x.rs", &longest).is_empty());
    let longer = "\n".repeat(LONGEST_FILE + 1);
    assert_eq!(broken("slo", "slo/x.rs", &longer).len(), 1);
    assert_eq!(broken("slo", "slo/x_tests.rs", &longer).len(), 1);
}

#[test]
fn a_new_room_must_be_placed() {
    assert_eq!(broken("utils", "utils/mod.rs", "").len(), 1);
    assert_eq!(
        broken("slo", "slo/x.rs", "use crate::utils::f;"),
        ["slo must not use utils"]
    );
}
