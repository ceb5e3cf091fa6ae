//! A Kubernetes control plane with kwok as its kubelets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use rustix::process::Signal;
use tempfile::TempDir;

use super::ports::free_address;
use super::process::Process;
use super::wait::{eventually, seconds};
use super::{audit, control_plane, kubeconfig};

/// etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kwok, on
/// free ports and in a folder of their own; all of it ends with this value.
pub(crate) struct Cluster {
    /// An administrator's client; for the test, never for the product.
    pub(crate) admin: Client,
    // Ended in this order: clients before the servers that they would miss.
    kwok: Option<Process>,
    controllers: Process,
    scheduler: Option<Process>,
    apiserver: Process,
    _etcd: Process,
    etcd_address: SocketAddr,
    address: SocketAddr,
    admin_kubeconfig: PathBuf,
    // Last, so that the folder is there until every process has ended.
    folder: TempDir,
}

/// How much of a cluster is started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    ApiAlone,
}

/// The controllers of a cluster without kubelets. The first makes the default
/// ServiceAccount, which a start waits for.
const FEW_CONTROLLERS: &str =
    "serviceaccount-controller,garbage-collector-controller,namespace-controller";

impl Cluster {
    /// Starts all parts and returns when the API server is ready and the
    /// controllers have made the default ServiceAccount.
    pub(crate) async fn start() -> Self {
        Self::start_with(Extent::Whole).await
    }

    /// Starts a cluster in which nothing happens by itself but the collection
    /// of garbage and the end of namespaces: no scheduler, no kubelets, no
    /// counting of budgets, no pods made for a Deployment.
    pub(crate) async fn start_without_kubelets() -> Self {
        Self::start_with(Extent::ApiAlone).await
    }

    async fn start_with(extent: Extent) -> Self {
        let folder = TempDir::with_prefix("gpu-remediator-real-").expect("a temporary folder");
        let path = folder.path();
        let etcd_address = free_address();
        let address = free_address();

        let etcd = control_plane::etcd(path, etcd_address);
        control_plane::write_secrets(path);
        let mut apiserver = control_plane::apiserver(path, address, etcd_address);
        let authority = path.join("certs/apiserver.crt");
        eventually(seconds(30), "the API server's certificate", async || {
            apiserver.expect_running();
            match std::fs::read_to_string(&authority) {
                Ok(text) if text.contains("END CERTIFICATE") => Ok(()),
                Ok(_) => Err("not written to its end".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
        let config = |user: &str| {
            kubeconfig::write(path, user, address, &authority, &format!("{user}-token"))
        };
        let admin_kubeconfig = config("admin");
        let admin = kubeconfig::client(&admin_kubeconfig).await;
        control_plane::wait_until_ready(&admin, &mut apiserver).await;

        let whole = extent == Extent::Whole;
        let scheduler = whole.then(|| control_plane::scheduler(path, &config("scheduler")));
        let which = if whole { "*" } else { FEW_CONTROLLERS };
        let controllers = control_plane::controllers(path, &config("controllers"), which);
        let kwok = whole.then(|| control_plane::kwok(path, &config("kwok")));
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
        eventually(seconds(60), "the controllers to be at work", async || {
            accounts
                .get("default")
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
        .await;
        Self {
            admin,
            kwok,
            controllers,
            scheduler,
            apiserver,
            _etcd: etcd,
            etcd_address,
            address,
            admin_kubeconfig,
            folder,
        }
    }

    /// The folder of this cluster: configurations, logs, what a test adds.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The administrator's kubeconfig, for kubectl and Helm.
    pub(crate) fn admin_kubeconfig(&self) -> &Path {
        &self.admin_kubeconfig
    }

    /// Writes a kubeconfig for a user with `token`.
    pub(crate) fn kubeconfig_for(&self, user: &str, token: &str) -> PathBuf {
        let authority = self.folder().join("certs/apiserver.crt");
        kubeconfig::write(self.folder(), user, self.address, &authority, token)
    }

    /// The requests that the API server has answered so far, oldest first.
    pub(crate) fn audit(&self) -> Vec<audit::Request> {
        audit::read(&self.folder().join("audit.log"))
    }

    /// Stops the API server in the middle of whatever it does: connections are
    /// taken, and nothing is answered.
    pub(crate) fn stall_apiserver(&self) {
        self.apiserver.signal(Signal::STOP);
    }

    /// Lets the API server go on.
    pub(crate) fn resume_apiserver(&self) {
        self.apiserver.signal(Signal::CONT);
    }

    /// Ends the API server, as in an outage. etcd keeps what it holds.
    pub(crate) fn stop_apiserver(&mut self) {
        self.apiserver.kill();
    }

    /// Starts the API server again, on the same address and with the same
    /// certificate, and returns when it is ready.
    pub(crate) async fn start_apiserver_again(&mut self) {
        self.apiserver =
            control_plane::apiserver(self.folder.path(), self.address, self.etcd_address);
        control_plane::wait_until_ready(&self.admin, &mut self.apiserver).await;
    }

    /// Names of the parts that have ended by themselves, which none should.
    pub(crate) fn ended_parts(&mut self) -> Vec<&'static str> {
        [
            ("kwok", self.kwok.as_mut()),
            ("kube-controller-manager", Some(&mut self.controllers)),
            ("kube-scheduler", self.scheduler.as_mut()),
            ("kube-apiserver", Some(&mut self.apiserver)),
        ]
        .into_iter()
        .filter_map(|(name, process)| process?.exit_status().map(|_| name))
        .collect()
    }
}
