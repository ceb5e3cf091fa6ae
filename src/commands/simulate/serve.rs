//! A cluster of any size on loopback ports, for measurements of a controller that runs as a process of its own.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::SimulateArgs;
use crate::sim::api_server::ApiServer;
use crate::sim::api_server::resources::{NAMESPACES, PODS};
use crate::sim::run::Setup;
use crate::sim::run::{Simulation, shipped};
use crate::sim::world::WorldPlan;

/// When hardware breaks.
const FAULTS_AFTER: Duration = Duration::from_secs(30);

/// Serves until the process is interrupted.
pub(super) async fn serve(args: &SimulateArgs) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.faults <= args.nodes,
        "--faults {} is more than there are nodes: --nodes {}",
        args.faults,
        args.nodes
    );
    let api_listener = TcpListener::bind(args.listen_api)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen_api))?;
    let prometheus_listener = TcpListener::bind(args.listen_prometheus)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen_prometheus))?;
    let world = WorldPlan::new().nodes(args.nodes, 8);
    let mut setup = Setup::new(world, shipped::rules(None)?, shipped::policy()?);
    setup.scrape_interval = Duration::from_secs(15);
    // The controller that is measured has the clock of the machine.
    setup.origin = jiff::Timestamp::now();
    setup.watched = false;
    let simulation = Simulation::start(setup)?;
    let made = std::time::Instant::now();
    pods(&simulation.api, args.nodes, args.pods).context("the pods cannot be made")?;
    eprintln!(
        "{} nodes and {} pods after {:.1} s",
        args.nodes,
        args.pods,
        made.elapsed().as_secs_f64()
    );
    let stop = CancellationToken::new();
    let mut out = std::io::stdout();
    writeln!(out, "API server: http://{}", api_listener.local_addr()?)?;
    writeln!(
        out,
        "Prometheus: http://{}",
        prometheus_listener.local_addr()?
    )?;
    let (api, prometheus) = (simulation.api.clone(), simulation.prometheus.clone());
    let (no_more, no_more_either) = (stop.clone(), stop.clone());
    let servers = [
        tokio::spawn(async move { api.serve(api_listener, "controller", no_more).await }),
        tokio::spawn(async move { prometheus.serve(prometheus_listener, no_more_either).await }),
    ];
    let hardware = simulation.world.hardware().clone();
    let broken = args.faults;
    let breaks = async {
        tokio::time::sleep(FAULTS_AFTER).await;
        for number in 1..=broken {
            hardware.xid(&format!("gpu-{number}"), 0, 79);
        }
        if broken > 0 {
            eprintln!("Xid 79 on {broken} nodes");
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for an interrupt")?,
        () = breaks => {}
    }
    stop.cancel();
    for server in servers {
        server.await?;
    }
    Ok(())
}

/// Pods that run already, spread over the nodes; the first eight of each node have a GPU. Nobody owns them: an owner that
/// exists would scale them, and pods of one that does not exist would be collected.
fn pods(api: &ApiServer, nodes: u32, pods: u32) -> anyhow::Result<()> {
    let kubelet = api.store("kubelet");
    kubelet
        .create(NAMESPACES, json!({"metadata": {"name": "load"}}))
        .map_err(|refusal| anyhow::anyhow!("{}", refusal.message))?;
    for number in 0..pods {
        let node = format!("gpu-{}", number % nodes + 1);
        let name = format!("pod-{number}");
        let gpu = number / nodes < 8;
        let limits = if gpu {
            json!({"nvidia.com/gpu": "1"})
        } else {
            json!({})
        };
        let made = kubelet
            .create(
                PODS,
                json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {
                        "namespace": "load", "name": name,
                        "labels": {"app": "load", "pod-template-hash": "5d4f8c7b9d"},
                    },
                    "spec": {
                        "nodeName": node, "terminationGracePeriodSeconds": 30,
                        "containers": [{"name": "main", "image": "registry.example/model:1",
                            "resources": {"limits": limits.clone(), "requests": limits}}],
                    },
                }),
            )
            .and_then(|_| {
                kubelet.change_status(PODS, Some("load"), &name, |pod| {
                    pod["status"] = json!({
                        "phase": "Running",
                        "conditions": [{"type": "Ready", "status": "True"}],
                    });
                })
            });
        made.map_err(|refusal| anyhow::anyhow!("{}", refusal.message))?;
    }
    Ok(())
}
