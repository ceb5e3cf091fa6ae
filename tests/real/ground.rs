//! Whether the ground is firm: what the other tests take for granted of the
//! real servers, without the product.

use crate::harness::alertmanager::Alertmanager;
use crate::harness::cluster::Cluster;
use crate::harness::prometheus::{Prometheus, Settings};
use crate::harness::wait::{eventually, seconds};
use crate::harness::webhook::{MetricsPage, Webhook};
use crate::harness::{nodes, workload};

#[tokio::test]
async fn pods_that_ask_for_gpus_are_scheduled_run_and_replaced_elsewhere() {
    let mut cluster = Cluster::start().await;
    nodes::create(&cluster.admin, "gpu-a", "zone-1").await;
    workload::namespace(&cluster.admin, "inference").await;
    workload::deployment(&cluster.admin, "inference", "llm", 2, 4).await;
    workload::deployment(&cluster.admin, "inference", "cpu", 1, 0).await;

    let before = workload::ready_pods(&cluster.admin, "inference", "llm", 2, seconds(30)).await;
    assert!(before.iter().all(|pod| workload::node_of(pod) == "gpu-a"));
    workload::ready_pods(&cluster.admin, "inference", "cpu", 1, seconds(30)).await;
    workload::disruption_budget(&cluster.admin, "inference", "llm", 1).await;

    // The node is full, so a replacement waits until there is another node, and
    // the budget is used up until then.
    assert_eq!(workload::evict(&cluster.admin, &before[0]).await, 201);
    assert_eq!(workload::evict(&cluster.admin, &before[1]).await, 429);

    nodes::create(&cluster.admin, "gpu-b", "zone-2").await;
    let stayed = workload::uid(&before[1]);
    let gone = workload::uid(&before[0]);
    let after = workload::ready_pods(&cluster.admin, "inference", "llm", 2, seconds(30)).await;
    assert!(after.iter().any(|pod| workload::uid(pod) == stayed));
    assert!(after.iter().all(|pod| workload::uid(pod) != gone));

    // Who asked for what is on record, with the answer.
    let evictions: Vec<u16> = cluster
        .audit()
        .iter()
        .filter(|request| request.is("create", "pods", "eviction"))
        .map(|request| request.code())
        .collect();
    assert_eq!(evictions, [201, 429]);
    assert!(
        cluster.ended_parts().is_empty(),
        "{:?}",
        cluster.ended_parts()
    );
}

#[tokio::test]
async fn the_api_server_comes_back_with_all_that_it_held() {
    let mut cluster = Cluster::start().await;
    let node = nodes::create(&cluster.admin, "gpu-a", "zone-1").await;
    cluster.stop_apiserver();
    assert_eq!(cluster.ended_parts(), ["kube-apiserver"]);
    cluster.start_apiserver_again().await;
    let again = nodes::get(&cluster.admin, "gpu-a").await;
    assert_eq!(again.metadata.uid, node.metadata.uid);
}

#[tokio::test]
async fn an_alert_goes_from_a_scraped_page_through_alertmanager_to_the_webhook() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = MetricsPage::start("# TYPE probe gauge\nprobe{node=\"gpu-a\"} 0\n").await;
    let webhook = Webhook::start().await;
    let alertmanager = Alertmanager::start(folder.path(), &webhook.url()).await;
    let rules = folder.path().join("rules.yaml");
    std::fs::write(
        &rules,
        r#"groups: [{name: test, rules: [{alert: ProbeIsOne, expr: probe == 1,
           annotations: {summary: "{{ $labels.node }} is at {{ $value }}"}}]}]"#,
    )
    .expect("a rule file");
    let mut prometheus = Prometheus::start(
        folder.path(),
        Settings {
            targets: vec![("page".to_owned(), vec![page.address()])],
            rules: vec![rules],
            alertmanager: Some(alertmanager.address()),
        },
    )
    .await;
    prometheus.eventually(seconds(10), "probe == 0").await;
    assert!(webhook.alerts().await.is_empty());

    page.set("# TYPE probe gauge\nprobe{node=\"gpu-a\"} 1\n")
        .await;
    let alert = webhook.firing(seconds(20), "ProbeIsOne").await;
    assert_eq!(alert.labels["node"], "gpu-a");
    assert_eq!(alert.annotations["summary"], "gpu-a is at 1");

    // An outage loses no sample.
    prometheus.stop();
    assert!(prometheus.query("probe").await.is_err());
    prometheus.start_again().await;
    eventually(
        seconds(10),
        "the samples from before the outage",
        async || {
            let seen = prometheus.query("min_over_time(probe[5m]) == 0").await?;
            if seen.is_empty() {
                return Err("no sample of 0".to_owned());
            }
            Ok(())
        },
    )
    .await;
}
