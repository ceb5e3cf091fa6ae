//! The contract of `tests/contract`, on the real API server. One cluster serves all cases, and several at a time: each
//! keeps to names of its own.

use std::sync::Arc;

use futures::future::LocalBoxFuture;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::harness::cluster::Cluster;
use crate::harness::wait::{eventually, seconds};

#[macro_use]
#[path = "../contract/mod.rs"]
mod suite;

/// A case, to be run on any ground.
type Case = fn(suite::ground::Ground) -> LocalBoxFuture<'static, ()>;

macro_rules! table {
    ($($group:ident { $($case:ident)* })*) => {
        /// Name of each case, and the case.
        const CASES: &[(&str, Case)] = &[
            $($((
                stringify!($case),
                |ground| Box::pin(async move { suite::$group::$case(&ground).await }),
            ),)*)*
        ];
    };
}

cases!(table);

/// How many cases run at a time: most of their time is waiting.
const AT_A_TIME: usize = 8;

#[tokio::test]
async fn every_case_holds_on_the_real_api_server() {
    let mut cluster = Cluster::start_without_kubelets().await;
    install_custom_resources(&cluster.admin).await;

    let runs = CASES.iter().map(|(name, case)| {
        let client = cluster.admin.clone();
        async move {
            // The real server's memory of a resource begins after its start, so it has nothing to forget.
            let forget = Arc::new(|| ());
            let run = async { case(suite::ground::Ground::new(client, name, forget).await).await };
            let ended = std::panic::AssertUnwindSafe(run).catch_unwind().await;
            ended.is_err().then_some(*name)
        }
    });
    let failed: Vec<&str> = stream::iter(runs)
        .buffer_unordered(AT_A_TIME)
        .filter_map(async |failed| failed)
        .collect()
        .await;
    assert!(
        failed.is_empty(),
        "{} of {} cases fail: {failed:#?}",
        failed.len(),
        CASES.len()
    );
    assert!(
        cluster.ended_parts().is_empty(),
        "{:?}",
        cluster.ended_parts()
    );
}

async fn install_custom_resources(admin: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(admin.clone());
    for (_, definition) in gpu_remediator::api::definitions() {
        api.create(&PostParams::default(), &definition)
            .await
            .expect("an administrator adds a resource");
    }
    for (plural, _) in gpu_remediator::api::definitions() {
        let path = format!("/apis/gpu-remediator.dev/v1alpha1/{plural}");
        eventually(seconds(30), &format!("{plural} to be served"), async || {
            let request = hyper::Request::get(&path)
                .body(Vec::new())
                .expect("a request");
            admin
                .request_text(request)
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
        .await;
    }
}
