#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::*;
use crate::sim::api_server::resources::{DEPLOYMENTS, JOBS, POD_DISRUPTION_BUDGETS, PODS};

struct Ground {
    api: ApiServer,
    world: World,
    store: Store,
}

fn ground(plan: WorldPlan) -> Ground {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let api = ApiServer::new(clock.clone());
    let world = World::start(&api, clock, plan, 7);
    let store = api.store("test");
    Ground { api, world, store }
}

impl Ground {
    async fn after(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn pods(&self, app: &str) -> Vec<Arc<Value>> {
        let mut pods = self.store.list(PODS);
        pods.retain(|pod| pod["metadata"]["labels"]["app"] == app);
        pods
    }

    fn ready(&self, app: &str) -> Vec<Arc<Value>> {
        let mut pods = self.pods(app);
        pods.retain(|pod| view::condition(pod, "Ready") == Some("True"));
        pods
    }

    async fn evict(&self, pod: &Value) -> Result<(), u16> {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": "ml"},
        });
        let path = format!("/api/v1/namespaces/ml/pods/{name}/eviction");
        let request = hyper::Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body).unwrap())
            .unwrap();
        match self.api.client("test").request::<Value>(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) => Err(status.code),
            Err(error) => panic!("{error}"),
        }
    }
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_and_gets_another_pod_for_one_that_leaves() {
    let plan = WorldPlan::new().nodes(2, 8);
    let ground = ground(
        plan.workload(Workload::new("ml", "llm", Owner::Deployment, 3, 2).min_available("2")),
    );
    ground.after(6).await;
    assert_eq!(ground.ready("llm").len(), 3);
    let deployment = ground.store.get(DEPLOYMENTS, Some("ml"), "llm").unwrap();
    assert_eq!(deployment["status"]["availableReplicas"], 3);
    let allowed = || {
        let budget = ground.store.get(POD_DISRUPTION_BUDGETS, Some("ml"), "llm");
        budget.unwrap()["status"]["disruptionsAllowed"].clone()
    };
    assert_eq!(allowed(), 1);

    let pods = ground.ready("llm");
    ground.evict(&pods[0]).await.unwrap();
    assert_eq!(ground.evict(&pods[1]).await, Err(429));
    ground.after(1).await;
    assert_eq!(allowed(), 0);
    assert_eq!(ground.pods("llm").len(), 4);
    ground.after(6).await;
    assert_eq!(
        (ground.pods("llm").len(), ground.ready("llm").len()),
        (3, 3)
    );
    assert_eq!(allowed(), 1);
    ground.evict(&pods[1]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cordoned_nodes_take_no_pod_and_a_full_cluster_says_so() {
    let ground = ground(WorldPlan::new().nodes(2, 8).workload(Workload::new(
        "ml",
        "llm",
        Owner::Deployment,
        2,
        8,
    )));
    ground.after(6).await;
    let pods = ground.ready("llm");
    assert_ne!(node_of(&pods[0]), node_of(&pods[1]));
    ground.world.person().cordon(node_of(&pods[0])).unwrap();
    ground.evict(&pods[0]).await.unwrap();
    ground.after(10).await;
    let waiting = ground.pods("llm");
    let waiting: Vec<_> = waiting
        .iter()
        .filter(|pod| node_of(pod).is_empty())
        .collect();
    assert_eq!(waiting.len(), 1);
    let conditions = waiting[0]["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["reason"], "Unschedulable");
    ground.world.person().uncordon(node_of(&pods[0])).unwrap();
    ground.after(6).await;
    assert_eq!(ground.ready("llm").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_keeps_its_names_and_waits_for_the_old_pod() {
    let behaviour = Behaviour {
        end: Duration::from_secs(20),
        ..Behaviour::default()
    };
    let db = Workload::new("ml", "db", Owner::StatefulSet, 3, 1).behaving(behaviour);
    let ground = ground(WorldPlan::new().nodes(2, 8).workload(db));
    ground.after(6).await;
    assert!(ground.pods("db").len() < 3, "one after the other");
    ground.after(12).await;
    let before = ground.ready("db");
    assert_eq!(before.len(), 3);
    ground.evict(&before[1]).await.unwrap();
    ground.after(15).await;
    let same = |pods: &[Arc<Value>]| pods[1]["metadata"]["uid"] == before[1]["metadata"]["uid"];
    assert!(same(&ground.pods("db")));
    ground.after(12).await;
    let after = ground.ready("db");
    assert_eq!(after.len(), 3);
    assert_eq!(after[1]["metadata"]["name"], "db-1");
    assert!(!same(&after));
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_replaces_the_index_that_left_and_ends() {
    let behaviour = Behaviour {
        run: Some(Duration::from_secs(60)),
        ..Behaviour::default()
    };
    let train = Workload::new("ml", "train", Owner::Job, 2, 1).behaving(behaviour);
    let ground = ground(WorldPlan::new().nodes(2, 8).workload(train));
    ground.after(6).await;
    let pods = ground.ready("train");
    let label = "batch.kubernetes.io/job-completion-index";
    let index = |pod: &Value| pod["metadata"]["labels"][label].clone();
    ground.evict(&pods[0]).await.unwrap();
    ground.after(10).await;
    let now = ground.ready("train");
    assert_eq!(now.len(), 2);
    assert_eq!(
        now.iter()
            .filter(|pod| index(pod) == index(&pods[0]))
            .count(),
        1
    );
    ground.after(120).await;
    let job = ground.store.get(JOBS, Some("ml"), "train").unwrap();
    assert_eq!(view::condition(&job, "Complete"), Some("True"));
    assert_eq!(job["status"]["succeeded"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_hangs_holds_its_gpu_until_it_lets_go() {
    let stuck = Workload::new("ml", "stuck", Owner::Deployment, 1, 8);
    let ground = ground(WorldPlan::new().nodes(1, 8).workload(stuck));
    ground.after(6).await;
    let pods = ground.ready("stuck");
    ground
        .world
        .pods()
        .change("ml", "stuck", |b| b.hangs = true);
    ground.evict(&pods[0]).await.unwrap();
    ground.after(3600).await;
    let both = ground.pods("stuck");
    assert_eq!(both.len(), 2);
    assert_eq!(both.iter().filter(|pod| node_of(pod).is_empty()).count(), 1);
    ground
        .world
        .pods()
        .change("ml", "stuck", |b| b.hangs = false);
    ground.after(10).await;
    assert_eq!(
        (ground.pods("stuck").len(), ground.ready("stuck").len()),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_without_power_is_not_ready_and_its_pods_come_back_with_it() {
    let ground = ground(WorldPlan::new().nodes(2, 8).workload(Workload::new(
        "ml",
        "llm",
        Owner::Deployment,
        2,
        8,
    )));
    ground.after(6).await;
    let node = node_of(&ground.ready("llm")[0]).to_owned();
    ground.world.hardware().power_off(&node);
    ground.after(30).await;
    assert_eq!(ground.ready("llm").len(), 2);
    ground.after(20).await;
    assert_eq!(ground.ready("llm").len(), 1);
    let seen = ground.store.get(NODES, None, &node).unwrap();
    assert_eq!(view::condition(&seen, "Ready"), Some("Unknown"));
    ground.world.hardware().power_on(&node);
    ground.after(10).await;
    assert_eq!(ground.ready("llm").len(), 2);
    let seen = ground.store.get(NODES, None, &node).unwrap();
    assert_eq!(view::condition(&seen, "Ready"), Some("True"));
    assert_eq!(seen["spec"]["taints"].as_array().map_or(0, Vec::len), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_takes_its_pods_along_and_joins_again_as_another() {
    let ground = ground(WorldPlan::new().nodes(2, 8).workload(Workload::new(
        "ml",
        "llm",
        Owner::Deployment,
        2,
        8,
    )));
    ground.after(6).await;
    let node = node_of(&ground.ready("llm")[0]).to_owned();
    let before = ground.store.get(NODES, None, &node).unwrap();
    ground.world.person().delete_node(&node).unwrap();
    ground.after(10).await;
    assert_eq!(ground.ready("llm").len(), 1);
    ground.world.rejoin(&node);
    ground.after(10).await;
    assert_eq!(ground.ready("llm").len(), 2);
    let after = ground.store.get(NODES, None, &node).unwrap();
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn images_that_cannot_be_pulled_and_pods_that_never_serve_are_seen() {
    let failing = Behaviour {
        image_fails: true,
        ..Behaviour::default()
    };
    let mute = Behaviour {
        never_ready: true,
        ..Behaviour::default()
    };
    let ground = ground(
        WorldPlan::new()
            .nodes(1, 8)
            .workload(Workload::new("ml", "bad", Owner::Deployment, 1, 1).behaving(failing))
            .workload(Workload::new("ml", "mute", Owner::Deployment, 1, 1).behaving(mute))
            .workload(Workload::new("ml", "agent", Owner::DaemonSet, 1, 0)),
    );
    ground.after(10).await;
    let waiting = &ground.pods("bad")[0]["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    assert_eq!(ground.pods("mute")[0]["status"]["phase"], "Running");
    assert_eq!(
        (ground.ready("bad").len(), ground.ready("mute").len()),
        (0, 0)
    );
    assert_eq!(ground.ready("agent").len(), 1);
}
