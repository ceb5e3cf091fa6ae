//! `rules check` as its user sees it: the real binary on files with every kind of mistake.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use wiremock::matchers::{body_string_contains, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const FOLDER: &str = "tests/fixtures/rules";

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpu-remediator"))
        .args(["rules", "check"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("GPU_REMEDIATOR_PROMETHEUS")
        .output()
        .unwrap()
}

/// The exit code and what was printed.
fn shown(output: &Output) -> String {
    format!(
        "exit code {}\n{}{}",
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn file(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

#[test]
fn a_good_file() {
    insta::assert_snapshot!(shown(&check(&[&file("good.yaml")])));
}

#[test]
fn every_mistake_is_pointed_at() {
    insta::assert_snapshot!(shown(&check(&[&file("bad.yaml")])));
}

#[test]
fn warnings_alone_do_not_fail() {
    insta::assert_snapshot!(shown(&check(&[&file("warnings.yaml")])));
}

#[test]
fn a_policy_that_is_not_among_the_files_is_missed() {
    insta::assert_snapshot!(shown(&check(&[
        &file("no-policy.yaml"),
        &file("good.yaml")
    ])));
}

#[test]
fn policies_are_not_missed_when_none_are_known() {
    let output = check(&[&file("no-policy.yaml")]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let output = check(&[&file("no-policy.yaml"), "--policies", &file("good.yaml")]);
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
}

#[test]
fn what_is_not_yaml() {
    insta::assert_snapshot!(shown(&check(&[&file("syntax.yaml")])));
}

#[test]
fn problems_as_json() {
    insta::assert_snapshot!(shown(&check(&[
        &file("no-policy.yaml"),
        &file("good.yaml"),
        "--output",
        "json"
    ])));
}

#[test]
fn the_shipped_rules_are_clean() {
    let output = check(&["rules"]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert!(
        String::from_utf8_lossy(&output.stdout).ends_with("0 errors, 0 warnings\n"),
        "{}",
        shown(&output)
    );
}

#[test]
fn every_shipped_alert_has_a_runbook_and_every_policy_fits_its_resource() {
    use gpu_remediator::api::{GpuFaultRule, RemediationPolicy};
    use gpu_remediator::guards::condition::Condition;
    use gpu_remediator::rules::template::{Dialect, PolicyVariables, Template};

    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules: GpuFaultRule = serde_saphyr::from_str(
        &std::fs::read_to_string(root.join("rules/xid-fatal.yaml")).unwrap(),
    )
    .unwrap();
    for rule in rules.spec.groups.iter().flat_map(|group| &group.rules) {
        assert!(
            root.join(&rule.annotations["runbook_url"]).is_file(),
            "{}",
            rule.alert
        );
    }
    let policy: RemediationPolicy = serde_saphyr::from_str(
        &std::fs::read_to_string(root.join("rules/policies/drain-node.yaml")).unwrap(),
    )
    .unwrap();
    let expr = Template::parse(&policy.spec.recovery.healthy.expr, Dialect::Policy)
        .unwrap()
        .expand_query(&PolicyVariables {
            node: "a".into(),
            ..Default::default()
        })
        .unwrap();
    assert_eq!(Condition::proof(&expr).not_understood(), None);
}

#[test]
fn every_mistake_of_a_policy_is_pointed_at() {
    insta::assert_snapshot!(shown(&check(&[&file("bad-policy.yaml")])));
    // A policy given for its name alone is looked at as well.
    let output = check(&[
        &file("warnings.yaml"),
        "--policies",
        &file("bad-policy.yaml"),
    ]);
    let text = shown(&output);
    assert!(text.contains("there is no mode `Bogus`"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("latin.yaml"), b"groups: \xe9\n").unwrap();
    std::fs::create_dir(path("empty")).unwrap();
    let missing = path("none.yaml");
    let output = check(&[
        &missing,
        &path("latin.yaml"),
        &path("empty"),
        &file("bad.yaml"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = shown(&output);
    for expected in [
        format!("cannot read {missing}"),
        format!("{} is not UTF-8", path("latin.yaml")),
        format!("the folder {} holds no YAML file", path("empty")),
        "has no field `keepFiringFor`".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
}

#[test]
fn one_name_may_be_given_once() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.yaml");
    std::fs::copy(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file("good.yaml")),
        &copy,
    )
    .unwrap();
    let output = check(&[&file("good.yaml"), copy.to_str().unwrap()]);
    let text = shown(&output);
    assert!(
        output.status.code() == Some(1)
            && text.contains("good.yaml has a GpuFaultRule `good` already")
            && text.contains("good.yaml has a RemediationPolicy `drain-node` already"),
        "{text}"
    );
    // The same file given twice is one file.
    let output = check(&[&file("good.yaml"), "--policies", &file("good.yaml")]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
}

#[test]
fn the_standard_input() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_gpu-remediator"))
        .args(["rules", "check", "-"])
        .env_remove("GPU_REMEDIATOR_PROMETHEUS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process
        .stdin
        .take()
        .unwrap()
        .write_all(b"groups: 3\n")
        .unwrap();
    insta::assert_snapshot!(shown(&process.wait_with_output().unwrap()));
}

/// A server that knows nothing of `parse_query` where `parses` is false, and accepts or refuses every query.
async fn prometheus(parses: bool, accepts: bool) -> MockServer {
    let server = MockServer::start().await;
    let answer = if accepts {
        ResponseTemplate::new(200)
            .set_body_string(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#)
    } else {
        ResponseTemplate::new(400).set_body_string(
            r#"{"status":"error","errorType":"bad_data","error":"1:31: parse error: unexpected \"+\""}"#,
        )
    };
    let at = if parses {
        "/api/v1/parse_query"
    } else {
        "/api/v1/query"
    };
    Mock::given(path(at))
        .and(body_string_contains("query=rate"))
        .respond_with(answer)
        .expect(1)
        .mount(&server)
        .await;
    server
}

async fn check_with(server: &MockServer, name: &str) -> Output {
    let (uri, name) = (server.uri(), file(name));
    tokio::task::spawn_blocking(move || check(&[&name, "--prometheus", &uri]))
        .await
        .unwrap()
}

#[tokio::test]
async fn what_the_parser_refuses_is_an_error_unless_prometheus_accepts_it() {
    let alone = check(&[&file("newer-promql.yaml")]);
    assert_eq!(alone.status.code(), Some(1), "{}", shown(&alone));
    for parses in [true, false] {
        let server = prometheus(parses, true).await;
        let output = check_with(&server, "newer-promql.yaml").await;
        assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
        let text = shown(&output);
        assert!(
            text.contains("warning[doubtful-promql]") && text.contains("0 errors, 1 warning"),
            "{text}"
        );
        let server = prometheus(parses, false).await;
        let output = check_with(&server, "newer-promql.yaml").await;
        assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        assert!(
            shown(&output).contains("Prometheus refuses the expression: 1:31: parse error"),
            "{}",
            shown(&output)
        );
    }
}

#[test]
fn a_prometheus_that_does_not_answer_is_an_error_without_credentials() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let output = check(&[
        &file("good.yaml"),
        "--prometheus",
        &format!("http://user:hunter2@127.0.0.1:{port}"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = shown(&output);
    assert!(
        text.contains("cannot be reached") && !text.contains("hunter2"),
        "{text}"
    );
}
