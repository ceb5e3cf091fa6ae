//! Who holds the GPUs, as a kubelet says on its socket: the client alone, and the exporter as a process.

use crate::kubelet::{Answer, Kubelet, Pod, claim, framed, plugin, pod};
use crate::process::{Exporter, Metrics, SOON, fake_library};
use gpu_remediator::kubernetes::pod_resources::{Device, PodResources};
use nvidia_ml::scenario::Scenario;
use std::path::Path;
use std::time::Duration;

const UUID_0: &str = "GPU-00000000-0000-4000-8000-0000000000f0";
const UUID_1: &str = "GPU-00000001-0000-4000-8000-0000000000f0";
const SOCKET: &str = "kubelet.sock";

fn client(socket: &Path, deadline: Duration) -> PodResources {
    PodResources {
        socket: socket.to_owned(),
        deadline,
    }
}

/// The code of the failure that the answer is.
async fn failure(answer: Answer, deadline: Duration) -> &'static str {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join(SOCKET);
    let _kubelet = Kubelet::listen(&socket, answer);
    client(&socket, deadline).list().await.unwrap_err().code()
}

#[tokio::test]
async fn every_kind_of_device_is_read_from_the_messages_of_a_kubelet() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join(SOCKET);
    let pods = vec![
        pod("plugin", plugin("nvidia.com/gpu", &[UUID_0])),
        pod("shared", plugin("nvidia.com/gpu.shared", &["GPU-a::3"])),
        pod("mig", plugin("nvidia.com/mig-1g.10gb", &["MIG-b"])),
        pod("other", plugin("nvidia.com/hostdev", &["0000:3b:00.0"])),
        pod("dra", claim(&["gpu-0", "gpu-1"])),
        pod("none", plugin("example.com/fuse", &["1"])),
    ];
    let _kubelet = Kubelet::listen(&socket, Answer::Pods(pods));
    let plugin = |of_gpus, id: &str| Device::Plugin {
        of_gpus,
        id: id.to_owned(),
    };
    let claimed = |name: &str| Device::Claimed {
        name: name.to_owned(),
        cdi: vec![format!("k8s.gpu.nvidia.com/device={name}")],
    };
    let mut told = Vec::new();
    for pod in client(&socket, SOON).list().await.unwrap() {
        assert_eq!(
            (&*pod.namespace, &*pod.containers[0].name),
            ("inference", "server")
        );
        assert_eq!(pod.containers.len(), 1);
        told.push((pod.name, pod.containers[0].devices.clone()));
    }
    let expected = [
        ("plugin", vec![plugin(true, UUID_0)]),
        ("shared", vec![plugin(true, "GPU-a::3")]),
        ("mig", vec![plugin(true, "MIG-b")]),
        ("other", vec![plugin(false, "0000:3b:00.0")]),
        ("dra", vec![claimed("gpu-0"), claimed("gpu-1")]),
    ];
    assert_eq!(
        told,
        expected.map(|(name, devices)| (name.to_owned(), devices))
    );
}

#[tokio::test]
async fn what_a_bad_kubelet_says_is_an_error_with_a_name() {
    let pods = Answer::Pods(vec![pod("a", plugin("nvidia.com/gpu", &[UUID_0]))]);
    let Answer::Pods(list) = &pods else {
        unreachable!();
    };
    let message = prost::Message::encode_to_vec(&list[0]);
    let mut half = framed(&message);
    half.truncate(half.len() / 2);
    let mut compressed = framed(b"");
    compressed[0] = 1;
    let cases = [
        (Answer::Status(12), "unimplemented"),
        (Answer::Status(8), "resource_exhausted"),
        (Answer::Bytes(b"not protobuf".to_vec()), "bad_answer"),
        (Answer::Bytes(vec![0x0a, 0xff]), "bad_answer"),
        (Answer::Framed(half), "internal"),
        (Answer::Framed(compressed), "internal"),
        (Answer::Framed(vec![]), "internal"),
        (Answer::NoStatus, "unknown"),
        (
            Answer::Framed(vec![0, 0xff, 0xff, 0xff, 0xff]),
            "out_of_range",
        ),
        (Answer::NoHttp, "unknown"),
    ];
    let mut codes = Vec::new();
    for (answer, _) in &cases {
        codes.push(failure(answer.clone(), SOON).await);
    }
    assert_eq!(codes, cases.map(|(_, code)| code));
    let soon = Duration::from_millis(50);
    for answer in [Answer::Silence, Answer::Endless] {
        assert_eq!(failure(answer, soon).await, "deadline_exceeded");
    }
}

#[tokio::test]
async fn a_large_answer_is_read_to_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join(SOCKET);
    let other = pod("other", plugin("example.com/fuse", &[&"x".repeat(100_000)]));
    let size = prost::Message::encoded_len(&other) + 4;
    let mut pods = vec![other; (16 * 1024 * 1024 - 1000) / size];
    pods.push(pod("llm", plugin("nvidia.com/gpu", &[UUID_0])));
    let kubelet = Kubelet::listen(&socket, Answer::Pods(pods.clone()));
    let client = client(&socket, SOON);
    let told = client.list().await.unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].name, "llm");
    pods.resize(pods.len() + 2, pods[0].clone());
    kubelet.set(Answer::Pods(pods));
    assert_eq!(client.list().await.unwrap_err().code(), "out_of_range");
}

#[tokio::test]
async fn without_a_kubelet_there_is_no_socket_or_nobody_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join(SOCKET);
    let client = client(&socket, SOON);
    let code = async || client.list().await.map_err(|error| error.code());
    assert_eq!(code().await, Err("no_socket"));
    std::fs::write(&socket, "").unwrap();
    assert_eq!(code().await, Err("connection"));
    let kubelet = Kubelet::listen(&socket, Answer::Pods(vec![]));
    assert_eq!(code().await, Ok(vec![]));
    kubelet.kill();
    let dead = async { while code().await != Err("connection") {} };
    tokio::time::timeout(SOON, dead).await.expect("it is dead");
    let _kubelet = Kubelet::listen(&socket, Answer::Pods(vec![]));
    assert_eq!(code().await, Ok(vec![]));
}

const COLLECTOR: &str = r#"node="node-1",collector="pod_resources"}"#;

/// An exporter on two GPUs of the fake driver that asks a kubelet which is not there yet.
async fn exporter() -> Exporter {
    let directory = tempfile::tempdir().unwrap();
    let scenario = directory.path().join("scenario.yaml");
    Scenario::healthy(2).write(&scenario).unwrap();
    let socket = directory.path().join(SOCKET);
    let (socket, library) = (socket.to_str().unwrap().to_owned(), fake_library());
    let flags = [
        "--pod-resources-socket",
        &socket,
        "--collector.pod_resources.interval",
        "20ms",
        "--nvml",
        library.to_str().unwrap(),
    ];
    Exporter::start(directory, &flags).await
}

fn holds(metrics: &Metrics, labels: &str) -> bool {
    metrics.is("gpu_pod_info", &[&format!("{labels}}}")], 1.0)
}

fn of(gpu: u32, uuid: &str, pod: &str) -> String {
    format!(
        r#"node="node-1",gpu="{gpu}",UUID="{uuid}",namespace="inference",pod="{pod}",container="server""#
    )
}

#[tokio::test]
async fn the_pods_of_each_gpu_are_on_the_page_and_follow_the_kubelet() {
    let exporter = exporter().await;
    let missing = |metrics: &Metrics| {
        let errors = "gpu_exporter_pod_resources_errors_total";
        metrics.is("gpu_exporter_collector_success", &[COLLECTOR], 0.0)
            && metrics.values(errors, &[r#"code="no_socket""#]) >= vec![2.0]
    };
    let without = exporter.until("its absence is told", missing).await;
    assert!(!without.0.contains("gpu_pod_info"));
    let last = "gpu_exporter_collector_last_success_timestamp_seconds";
    assert!(without.values(last, &[COLLECTOR]).is_empty());

    let pods: Vec<Pod> = vec![
        pod("whole", plugin("nvidia.com/gpu", &[UUID_0])),
        pod(
            "shared-0",
            plugin("nvidia.com/gpu.shared", &[&format!("{UUID_1}::0")]),
        ),
        pod(
            "shared-1",
            plugin("nvidia.com/gpu.shared", &[&format!("{UUID_1}::1")]),
        ),
        pod("dra", claim(&["gpu-1"])),
        pod(
            "mig",
            plugin("nvidia.com/mig-1g.10gb", &[&format!("MIG-{UUID_0}/7/0")]),
        ),
        pod("odd", claim(&["gpu-9"])),
        pod("network", plugin("nvidia.com/hostdev", &["0000:3b:00.0"])),
    ];
    let socket = exporter.path(SOCKET);
    let kubelet = Kubelet::listen(&socket, Answer::Pods(pods));
    let whole = of(0, UUID_0, "whole");
    let success = "gpu_exporter_collector_success";
    let told = |metrics: &Metrics| holds(metrics, &whole) && metrics.is(success, &[COLLECTOR], 1.0);
    let metrics = exporter
        .until("the kubelet is found without a restart", told)
        .await;
    for labels in [
        of(1, UUID_1, "shared-0"),
        of(1, UUID_1, "shared-1"),
        of(1, UUID_1, "dra"),
        of(0, UUID_0, "mig").replace("namespace", r#"GPU_I_ID="7",namespace"#),
        r#"node="node-1",namespace="inference",pod="odd",container="server",device_id="gpu-9""#
            .to_owned(),
    ] {
        assert!(holds(&metrics, &labels), "{labels}\n{}", metrics.0);
    }
    assert_eq!(metrics.values("gpu_pod_info", &[]).len(), 6);
    assert_eq!(
        metrics
            .values("gpu_exporter_collector_duration_seconds", &[COLLECTOR])
            .len(),
        1
    );
    assert_eq!(metrics.values(last, &[COLLECTOR]).len(), 1);
    for family in ["gpu_pod_info", "gpu_exporter_collector_success"] {
        let heads = metrics.0.matches(&format!("# TYPE {family} ")).count();
        assert_eq!(heads, 1, "{family}");
    }

    // A kubelet that was restarted has another socket, and knows of other pods.
    kubelet.kill();
    let kubelet = Kubelet::listen(
        &socket,
        Answer::Pods(vec![pod("next", plugin("nvidia.com/gpu", &[UUID_1]))]),
    );
    let next = of(1, UUID_1, "next");
    let replaced = exporter
        .until("the next kubelet is asked", |metrics| holds(metrics, &next))
        .await;
    assert_eq!(
        replaced.values("gpu_pod_info", &[]).len(),
        1,
        "the others have ended"
    );

    kubelet.stop();
    let gone = |metrics: &Metrics| !metrics.0.contains("gpu_pod_info") && missing(metrics);
    exporter.until("what is old is not told", gone).await;
}

#[tokio::test]
async fn a_kubelet_that_does_not_answer_stops_no_scrape_and_keeps_nothing_old() {
    let exporter = exporter().await;
    let socket = exporter.path(SOCKET);
    let pods = Answer::Pods(vec![pod("whole", plugin("nvidia.com/gpu", &[UUID_0]))]);
    let kubelet = Kubelet::listen(&socket, pods.clone());
    let whole = of(0, UUID_0, "whole");
    exporter
        .until("it is told", |metrics| holds(metrics, &whole))
        .await;
    for (answer, code) in [
        (Answer::Silence, r#"code="deadline_exceeded""#),
        (Answer::Status(12), r#"code="unimplemented""#),
        (Answer::Bytes(vec![0xff]), r#"code="bad_answer""#),
    ] {
        kubelet.set(answer);
        let failed = |metrics: &Metrics| {
            let errors = "gpu_exporter_pod_resources_errors_total";
            !metrics.values(errors, &[code]).is_empty()
                && metrics.is("gpu_exporter_collector_success", &[COLLECTOR], 0.0)
                && !metrics.0.contains("gpu_pod_info")
        };
        let metrics = exporter.until(code, failed).await;
        assert_eq!(
            metrics.values("gpu_up", &[]),
            [1.0, 1.0],
            "the driver is asked on"
        );
        kubelet.set(pods.clone());
        exporter
            .until("it is told again", |metrics| holds(metrics, &whole))
            .await;
    }
}

#[tokio::test]
async fn a_kubelet_that_is_not_to_be_asked_has_no_series() {
    let directory = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(
        directory,
        &["--simulate", "1", "--pod-resources-socket", ""],
    )
    .await;
    let up = |metrics: &Metrics| metrics.is("gpu_up", &[], 1.0);
    let metrics = exporter.until("it is up", up).await;
    assert!(!metrics.0.contains("pod_resources"));
}
