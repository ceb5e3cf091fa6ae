//! Kubeconfig files and clients for the users of a test cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

/// Writes a kubeconfig for the user that `token` belongs to, and returns its
/// path. The server's own certificate authority is trusted and no other.
pub(crate) fn write(
    folder: &Path,
    user: &str,
    server: SocketAddr,
    authority: &Path,
    token: &str,
) -> PathBuf {
    let path = folder.join(format!("{user}.kubeconfig"));
    // JSON is YAML too, so no writer of YAML is needed.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority": authority,
        }}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
    });
    std::fs::write(&path, config.to_string()).expect("a kubeconfig can be written");
    path
}

/// A client for the user of the kubeconfig at `path`. It does not retry by
/// itself: a test wants to see the 429 that it got.
pub(crate) async fn client(path: &Path) -> Client {
    let file = Kubeconfig::read_from(path).expect("the kubeconfig was just written");
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .expect("the kubeconfig is complete");
    config.default_retry = false;
    Client::try_from(config).expect("a client for a loopback server")
}
