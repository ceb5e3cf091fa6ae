//! An Alertmanager that posts every alert to one webhook at once.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::parts::part;
use super::ports::free_address;
use super::process::Process;
use super::prometheus::{get_ok, http_client};
use super::wait::{eventually, seconds};

/// A running Alertmanager.
pub(crate) struct Alertmanager {
    _process: Process,
    address: SocketAddr,
}

impl Alertmanager {
    /// Starts an Alertmanager that delivers to `webhook`, and returns when it
    /// is ready.
    pub(crate) async fn start(folder: &Path, webhook: &str) -> Self {
        let folder = folder.join("alertmanager");
        std::fs::create_dir_all(&folder).expect("a folder");
        let configuration = json!({
            "route": {
                "receiver": "webhook",
                "group_by": ["alertname"],
                "group_wait": "0s",
                "group_interval": "1s",
                "repeat_interval": "1h",
            },
            "receivers": [{
                "name": "webhook",
                "webhook_configs": [{"url": webhook, "send_resolved": true}],
            }],
        });
        let file = folder.join("alertmanager.yml");
        std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
        let address = free_address();
        let mut command = Command::new(part("alertmanager"));
        command
            .arg("--config.file")
            .arg(&file)
            .arg("--storage.path")
            .arg(folder.join("data"))
            .args(["--web.listen-address", &address.to_string()])
            // Alone, and so without gossip.
            .arg("--cluster.listen-address=")
            .args(["--log.level", "warn"]);
        let process = Process::spawn("alertmanager", command, &folder);
        let http = http_client();
        eventually(seconds(30), "Alertmanager to be ready", async || {
            get_ok(&http, &format!("http://{address}/-/ready")).await
        })
        .await;
        Self {
            _process: process,
            address,
        }
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
