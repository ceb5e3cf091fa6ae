//! Cordons of people, faults that meet, restarts, and nodes that go.

use gpu_remediator::api::Phase;
use gpu_remediator::sim::world::{Owner, Workload, WorldPlan};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::cluster::{Cluster, HOUR, Look, MINUTE, policy, run, shipped_rules};

fn llm(replicas: u32) -> Workload {
    Workload::new("ml", "llm", Owner::Deployment, replicas, 4)
}

async fn cluster(nodes: u32, replicas: u32) -> Cluster {
    let plan = WorldPlan::new().nodes(nodes, 8).workload(llm(replicas));
    Cluster::start(plan, shipped_rules(), policy(|_| {})).await
}

#[test]
fn b1_what_a_person_had_cordoned_stays_cordoned_after_recovery() {
    run(async {
        let cluster = cluster(3, 4).await;
        let (person, hardware) = (cluster.sim.world.person(), cluster.sim.world.hardware());
        person.cordon("gpu-1").unwrap();
        cluster.wait(MINUTE).await;
        hardware.xid("gpu-1", 0, 79);
        let marked = |s: &_| Look::is_marked(s, "gpu-1");
        cluster.until("marked", MINUTE, marked).await;
        cluster.wait(MINUTE).await;
        hardware.repair("gpu-1");
        let back = |s: &_| Look::phase(s, "gpu-1") == Some(Phase::Recovered);
        cluster.until("recovered", HOUR, back).await;
        assert!(cluster.sim.is_cordoned("gpu-1") && !cluster.sim.is_marked("gpu-1"));
        cluster.end();
    });
}

#[test]
fn b2_a_person_who_uncordons_in_the_middle_is_obeyed_until_the_next_occurrence() {
    for stage in [Phase::Processing, Phase::Recovering] {
        run(async move {
            let mut cluster = cluster(3, 4).await;
            let (person, hardware) = (
                cluster.sim.world.person(),
                cluster.sim.world.hardware().clone(),
            );
            hardware.xid("gpu-1", 0, 79);
            let out = |s: &_| Look::is_cordoned(s, "gpu-1");
            cluster.until("isolated", MINUTE, out).await;
            if stage == Phase::Recovering {
                hardware.repair("gpu-1");
                let there = |s: &_| Look::phase(s, "gpu-1") == Some(Phase::Recovering);
                cluster.until("recovering", HOUR, there).await;
            }
            person.uncordon("gpu-1").unwrap();
            let cancelled = |s: &_| Look::phase(s, "gpu-1") == Some(Phase::Cancelled);
            cluster.until("cancelled", MINUTE, cancelled).await;
            let changes = cluster.node_changes();
            for _ in 0..3 {
                cluster.wait(5 * MINUTE).await;
                assert!(!cluster.sim.is_cordoned("gpu-1"));
                assert_eq!(cluster.sim.status("gpu-1").unwrap().occurrence, 1);
                cluster.restart();
            }
            assert!(
                cluster.node_changes() <= changes + 1,
                "only the mark is removed"
            );
            cluster.wait(MINUTE).await;
            hardware.repair("gpu-1");
            cluster.wait(MINUTE).await;
            hardware.xid("gpu-1", 0, 79);
            cluster.until("isolated again", MINUTE, out).await;
            assert_eq!(cluster.sim.status("gpu-1").unwrap().occurrence, 2);
            cluster.end();
        });
    }
}

#[test]
fn b10_one_bad_node_of_three_is_taken_out_under_a_share_of_twenty_percent() {
    run(async {
        let plan = WorldPlan::new().nodes(3, 8);
        let share = policy(|p| p.budget.max_unavailable = Some(IntOrString::String("20%".into())));
        let cluster = Cluster::start(plan, shipped_rules(), share).await;
        cluster.sim.world.hardware().xid("gpu-2", 0, 79);
        cluster.wait(MINUTE).await;
        assert!(cluster.sim.is_cordoned("gpu-2"));
        cluster.sim.world.hardware().xid("gpu-3", 0, 79);
        cluster.wait(10 * MINUTE).await;
        assert!(!cluster.sim.is_cordoned("gpu-3"), "one, and no more");
        assert_eq!(cluster.sim.reason("gpu-3"), "BudgetMaxUnavailable");
        cluster.end();
    });
}

#[test]
fn b12_a_repaired_node_comes_back_while_the_budget_is_used_up_by_others() {
    run(async {
        let cluster = cluster(10, 4).await;
        let (person, hardware) = (cluster.sim.world.person(), cluster.sim.world.hardware());
        hardware.xid("gpu-1", 0, 79);
        let out = |s: &_| Look::is_cordoned(s, "gpu-1");
        cluster.until("isolated", MINUTE, out).await;
        for node in 4..=10 {
            person.cordon(&format!("gpu-{node}")).unwrap();
        }
        hardware.repair("gpu-1");
        let back = |s: &_| Look::phase(s, "gpu-1") == Some(Phase::Recovered);
        cluster.until("recovered", HOUR, back).await;
        assert!(!cluster.sim.is_cordoned("gpu-1"));
        assert_eq!(cluster.sim.cordoned(), 7);
        cluster.end();
    });
}
