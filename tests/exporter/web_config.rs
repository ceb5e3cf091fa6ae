//! The exporter behind TLS and a password, and with a web configuration that cannot be used.

use crate::process::{SOON, command};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn it_serves_tls_to_those_who_know_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    write("cert.pem", &certificate);
    write("key.pem", &key.serialize_pem());
    let hash = bcrypt::hash("hunter2", 4).unwrap();
    let config = format!(
        "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\nbasic_auth_users:\n  alice: {hash}\n"
    );
    write("web.yml", &config);
    let mut process = command()
        .args(["--simulate", "1", "--node-name", "node-1"])
        .args(["--listen", "127.0.0.1:0", "--log-format", "json", "--kmsg"])
        .arg(folder.path().join("kmsg"))
        .env(
            "GPU_EXPORTER_WEB_CONFIG_FILE",
            folder.path().join("web.yml"),
        )
        .stderr(Stdio::piped())
        .spawn()
        .map(Running)
        .unwrap();
    let mut log = BufReader::new(process.0.stderr.take().unwrap());
    let address: std::net::SocketAddr = loop {
        let mut line = String::new();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the exporter ended");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        if line["message"] == "listening" {
            break line["address"].as_str().unwrap().parse().unwrap();
        }
    };
    // So that its log never blocks it.
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let trusted = reqwest::Certificate::from_pem(certificate.as_bytes()).unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([trusted])
        .resolve("localhost", address)
        .build()
        .unwrap();
    let ask = |path: &str, password: &str| {
        let address = format!("https://localhost:{}{path}", address.port());
        let asked = client.get(address).basic_auth("alice", Some(password));
        async { asked.send().await.unwrap() }
    };
    for path in ["/", "/metrics", "/healthz", "/readyz"] {
        assert_eq!(ask(path, "wrong").await.status(), 401, "{path}");
    }
    let page = ask("/", "hunter2").await.text().await.unwrap();
    assert!(page.contains("<a href=\"/metrics\">"), "{page}");
    let series = "gpu_exporter_web_config_reload_success{node=\"node-1\"}";
    let is = async |value: u8| {
        let text = ask("/metrics", "hunter2").await.text().await.unwrap();
        text.contains(&format!("\n{series} {value}\n"))
    };
    assert!(is(1).await);

    write("web.yml", "tls_server_config: [\n");
    let deadline = Instant::now() + SOON;
    while !is(0).await {
        assert!(Instant::now() < deadline, "the broken file was not noticed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_web_configuration_that_cannot_be_used_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yml");
    for (text, expected) in [
        (
            "tls_server_config:\n  cert: a\n  cert_fil: b\n",
            "web.yml:3:3: unknown key `cert_fil`",
        ),
        (
            "tls_server_config:\n  cert_file: a.pem\n",
            "web.yml:2:14: tls_server_config.cert_file: cannot read",
        ),
        (
            "basic_auth_users:\n  alice: hunter2\n",
            "this is no bcrypt hash",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = command()
            .args([
                "--simulate",
                "1",
                "--node-name",
                "a",
                "--listen",
                "127.0.0.1:0",
            ])
            .arg(format!("--web.config.file={}", file.display()))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains(expected),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
    }
}
