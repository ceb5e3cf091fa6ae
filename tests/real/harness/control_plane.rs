//! How each server of a cluster is started: its arguments and its secrets.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use kube::Client;

use super::parts::part;
use super::ports::free_address;
use super::process::Process;
use super::wait::{eventually, seconds};

/// Features that are off by default in the version of the parts and that the
/// product can use where they are on.
const FEATURES: &str = "--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true";

/// The users that have a token from the start: name of the token, user and
/// group. The product is not one of them.
const USERS: [(&str, &str, &str); 4] = [
    ("admin", "admin", "system:masters"),
    ("scheduler", "system:kube-scheduler", ""),
    ("controllers", "system:kube-controller-manager", ""),
    ("kwok", "kwok", "system:masters"),
];

/// Every request once, when it is answered, without bodies.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
";

/// Writes what the API server reads at its start: the key that signs
/// ServiceAccount tokens, the users' tokens and the audit policy.
pub(crate) fn write_secrets(folder: &Path) {
    let key = rcgen::KeyPair::generate().expect("a key pair");
    write(folder, "sa.key", &key.serialize_pem());
    write(folder, "sa.pub", &key.public_key_pem());
    let tokens: String = USERS
        .iter()
        .map(|(name, user, group)| format!("{name}-token,{user},{name},\"{group}\"\n"))
        .collect();
    write(folder, "tokens.csv", &tokens);
    write(folder, "audit-policy.yaml", AUDIT_POLICY);
}

fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    std::fs::write(&path, content)
        .unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}

/// etcd without fsync: the tests survive no power cut, and need none.
pub(crate) fn etcd(folder: &Path, address: SocketAddr) -> Process {
    let client = format!("http://{address}");
    let peer = format!("http://{}", free_address());
    let mut command = Command::new(part("etcd"));
    command
        .arg("--unsafe-no-fsync")
        .args(["--log-level", "warn"])
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &client])
        .args(["--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")]);
    Process::spawn("etcd", command, folder)
}

/// kube-apiserver with RBAC in force and an audit log.
pub(crate) fn apiserver(folder: &Path, address: SocketAddr, etcd: SocketAddr) -> Process {
    let mut command = Command::new(part("kube-apiserver"));
    command
        .args(["--etcd-servers", &format!("http://{etcd}")])
        .args(["--bind-address", "127.0.0.1"])
        .args(["--secure-port", &address.port().to_string()])
        .arg("--cert-dir")
        .arg(folder.join("certs"))
        .args(["--service-account-issuer", "https://kubernetes.default.svc"])
        .arg("--service-account-key-file")
        .arg(folder.join("sa.pub"))
        .arg("--service-account-signing-key-file")
        .arg(folder.join("sa.key"))
        .arg("--token-auth-file")
        .arg(folder.join("tokens.csv"))
        .args(["--authorization-mode", "Node,RBAC"])
        .args(["--service-cluster-ip-range", "10.96.0.0/24"])
        // As kubeadm sets it; the exporter reads the kernel log of its node.
        .arg("--allow-privileged=true")
        // Pods need no token of their own: kwok runs no container.
        .arg("--disable-admission-plugins=ServiceAccount")
        .arg("--runtime-config=resource.k8s.io/v1beta2=true")
        .arg(FEATURES)
        .arg("--audit-policy-file")
        .arg(folder.join("audit-policy.yaml"))
        .arg("--audit-log-path")
        .arg(folder.join("audit.log"))
        // A request is in the log before its answer leaves, so that a test
        // that saw the answer finds it there.
        .args(["--audit-log-mode", "blocking"]);
    Process::spawn("kube-apiserver", command, folder)
}

/// kube-scheduler, alone and so without an election.
pub(crate) fn scheduler(folder: &Path, kubeconfig: &Path) -> Process {
    let mut command = Command::new(part("kube-scheduler"));
    command.arg("--kubeconfig").arg(kubeconfig).args([
        "--leader-elect=false",
        "--secure-port=0",
        FEATURES,
    ]);
    Process::spawn("kube-scheduler", command, folder)
}

/// kube-controller-manager, alone and so without an election. `which` are its
/// controllers, `*` for those that are on by default.
pub(crate) fn controllers(folder: &Path, kubeconfig: &Path, which: &str) -> Process {
    let mut command = Command::new(part("kube-controller-manager"));
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--service-account-private-key-file")
        .arg(folder.join("sa.key"))
        .arg("--use-service-account-credentials")
        .arg(format!("--controllers={which}"))
        .args(["--leader-elect=false", "--secure-port=0", FEATURES]);
    Process::spawn("kube-controller-manager", command, folder)
}

/// kwok, which plays the kubelet of every node.
pub(crate) fn kwok(folder: &Path, kubeconfig: &Path) -> Process {
    let mut command = Command::new(part("kwok"));
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--config")
        .arg(part("kwok-stages.yaml"))
        .args([
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
        ])
        .args(["--server-address", &free_address().to_string()]);
    Process::spawn("kwok", command, folder)
}

/// Waits until the API server says that it is ready.
///
/// # Panics
///
/// At once when the server has ended.
pub(crate) async fn wait_until_ready(admin: &Client, apiserver: &mut Process) {
    eventually(seconds(90), "the API server to be ready", async || {
        apiserver.expect_running();
        let request = http_get("/readyz");
        match admin.request_text(request).await {
            Ok(answer) if answer.trim() == "ok" => Ok(()),
            Ok(answer) => Err(answer),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
}

fn http_get(path: &str) -> hyper::Request<Vec<u8>> {
    hyper::Request::get(path)
        .body(Vec::new())
        .expect("a request for a constant path")
}
