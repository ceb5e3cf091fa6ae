//! Prometheus or the API server is gone for a while, or the driver hangs.

use gpu_remediator::api::Phase;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::policy::Policy;
use super::world::{GPU, INFERENCE, World};
use crate::harness::product::{SHORT_ELECTION, sample};
use crate::harness::wait::{eventually, seconds, throughout};
use crate::harness::workload;

#[tokio::test]
async fn without_prometheus_no_fault_opens_and_no_node_comes_back() {
    let mut world = World::start(Policy::drain_node()).await;
    let mut controller = world.controller().await;
    world.fail_gpu();
    world
        .until(seconds(60), "the repair to be awaited", |status| {
            status.reason == "Verifying" && status.timeline.drained_at.is_some()
        })
        .await;
    world.prometheus.stop();
    world.repair();
    // The other node fails as well, which nobody can know now.
    world.spare.fall_off_the_bus(0);
    eventually(
        seconds(20),
        "the outage to be visible",
        async || match sample(&controller.metrics().await, "gpu_remediator_prometheus_up") {
            0.0 => Ok(()),
            other => Err(format!("gpu_remediator_prometheus_up is {other}")),
        },
    )
    .await;
    throughout(
        seconds(8),
        "nothing is decided without evidence",
        async || {
            let status = world.fault().await?.status.unwrap_or_default();
            match (status.phase, world.isolation().await) {
                (Phase::Processing, (true, Some(_))) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        },
    )
    .await;
    world.spare.heal(0);
    world.prometheus.start_again().await;
    eventually(seconds(60), "the node to come back", async || {
        match world.isolation().await {
            (false, None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    controller.process().expect_running();
}

#[tokio::test]
async fn a_prometheus_that_talks_nonsense_opens_nothing() {
    let mut world = World::start(Policy::drain_node()).await;
    let fake = MockServer::start().await;
    let controller = world
        .controller_that_asks(&fake.uri(), SHORT_ELECTION)
        .await;
    world.fail_gpu();
    let series = r#"{"metric":{"node":"gpu-a","UUID":"GPU-1","gpu":"3"},"value":[0,"NaN"]}"#;
    let answers = [
        (200, "<html>please sign in</html>".to_owned()),
        (503, "Service Unavailable".to_owned()),
        (200, r#"{"status":"success"}"#.to_owned()),
        (
            200,
            r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.to_owned(),
        ),
        (
            422,
            r#"{"status":"error","errorType":"execution","error":"found duplicate series"}"#
                .to_owned(),
        ),
        // The same series twice: which of them is right?
        (
            200,
            format!(
                r#"{{"status":"success","data":{{"resultType":"vector","result":[{series},{series}]}}}}"#
            ),
        ),
    ];
    for (status, body) in answers {
        fake.reset().await;
        Mock::given(any())
            .respond_with(
                ResponseTemplate::new(status).set_body_raw(body.clone(), "application/json"),
            )
            .mount(&fake)
            .await;
        let before = failures(&controller.metrics().await);
        eventually(
            seconds(15),
            &format!("{body} to be counted as a failure"),
            async || {
                let now = failures(&controller.metrics().await);
                if now > before + 3.0 {
                    return Ok(());
                }
                Err(format!("{now} failures, {before} before"))
            },
        )
        .await;
        let faults = world.faults().await.expect("a list");
        assert!(faults.is_empty(), "{body} opened {faults:?}");
    }
    assert_eq!(world.isolation().await, (false, None));
}

/// Evaluations of the rule for Xid 79 that had no trustworthy answer.
fn failures(metrics: &str) -> f64 {
    metrics
        .lines()
        .filter(|line| line.starts_with("gpu_remediator_rule_evaluation_failures_total{"))
        .filter(|line| line.contains("alert=\"GpuFellOffTheBus\""))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// Opens the gate behind the cordon, and sees the fault through to its end.
async fn ends_well(world: &mut World) {
    world
        .application(super::world::Application {
            gate: 1,
            ..super::world::FINE
        })
        .await;
    world
        .until(seconds(90), "the drain to be over", |status| {
            status.timeline.drained_at.is_some()
        })
        .await;
    // The ReplicaSet controller and the scheduler may take most of a minute to
    // find back, later than the node would be back.
    workload::ready_pods(
        &world.cluster.admin,
        INFERENCE,
        "llm",
        world.before.len(),
        seconds(120),
    )
    .await;
    world.repair();
    world.expect_recovered().await;
}

#[tokio::test]
async fn an_api_server_that_is_gone_for_half_a_minute_costs_nothing_but_time() {
    let mut world = World::start(Policy::drain_node().gate_after_cordon()).await;
    let mut controller = world.controller().await;
    world.fail_gpu();
    world
        .until(seconds(30), "the node to be cordoned", |status| {
            status.isolation.is_some()
        })
        .await;
    world.cluster.stop_apiserver();
    throughout(
        seconds(30),
        "the controller lives on",
        async || match controller.process().exit_status() {
            None => Ok(()),
            Some(status) => Err(format!("it ended: {status}")),
        },
    )
    .await;
    world.cluster.start_apiserver_again().await;
    ends_well(&mut world).await;
    controller.process().expect_running();
}

/// A renewal that comes only a little late goes on in the same term, and no
/// leader is made anew who would look at everything.
#[tokio::test]
async fn an_api_server_that_stalls_for_less_than_the_lease_leaves_no_fault_behind() {
    let mut world = World::start(Policy::drain_node().gate_after_cordon()).await;
    let mut controller = world.controller().await;
    world.fail_gpu();
    world
        .until(seconds(30), "the node to be cordoned", |status| {
            status.isolation.is_some()
        })
        .await;
    for stall in [2, 3, 4] {
        world.cluster.stall_apiserver();
        throughout(
            seconds(stall),
            "the controller lives on",
            async || match controller.process().exit_status() {
                None => Ok(()),
                Some(status) => Err(format!("it ended: {status}")),
            },
        )
        .await;
        world.cluster.resume_apiserver();
    }
    ends_well(&mut world).await;
}

#[tokio::test]
async fn a_driver_call_that_hangs_does_not_hang_the_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut exporter = crate::harness::product::Exporter::start(folder.path(), "gpu-a").await;
    exporter.change(|scenario| scenario.gpus[GPU].hang_seconds = 600.0);
    eventually(seconds(30), "the hang to be told", async || {
        let (metrics, took) = exporter.metrics().await;
        // Milliseconds; the bound leaves room for a machine that is busy
        // building.
        assert!(took < std::time::Duration::from_millis(500), "{took:?}");
        // Which labels a GPU has that never answered is the exporter's affair.
        let hung = metrics.lines().any(|line| {
            line.starts_with("gpu_collect_hung{")
                && line.contains("gpu=\"3\"")
                && line.rsplit(' ').next().and_then(|value| value.parse().ok()) == Some(1.0)
        });
        if hung {
            return Ok(());
        }
        Err("gpu_collect_hung is not 1".to_owned())
    })
    .await;
}
