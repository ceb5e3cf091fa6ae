//! TLS and basic authentication over real sockets.
#![allow(clippy::unwrap_used)]

mod changes;
mod passwords;
mod tls;

use super::pki_tests::{Authority, Signed};
use super::{Limits, Router, Server, StatusCode, WebConfig, text};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};

const SOON: Duration = Duration::from_secs(30);
const ONCE: &str = "GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const KEEP: &str = "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n";
const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

/// A server and the folder of its configuration.
struct Place {
    folder: TempDir,
    address: SocketAddr,
    success: prometheus_client::metrics::gauge::Gauge,
    _stop: DropGuard,
}

/// A folder with a certificate, its key and the configuration.
fn folder(server: &Signed, config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("cert.pem", &server.certificate);
    write("key.pem", &server.key);
    write("web.yml", config);
    folder
}

impl Place {
    async fn start(folder: TempDir, limits: Limits) -> Self {
        let config = WebConfig::open(folder.path().join("web.yml")).unwrap();
        let config = config.every(Duration::from_millis(5));
        let success = config.reload_success();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(any, limits).await.unwrap();
        let server = server.with_web_config(Some(config));
        let address = server.local_address().unwrap();
        let router =
            Router::new().get("/quick", |_| async { text(StatusCode::OK, "quick answer") });
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(router, stop.clone()));
        Self {
            folder,
            address,
            success,
            _stop: stop.drop_guard(),
        }
    }

    fn write(&self, name: &str, text: &str) {
        // Renamed, as whoever rotates certificates does.
        let (new, path) = (
            self.folder.path().join("new"),
            self.folder.path().join(name),
        );
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    async fn until_success_is(&self, value: i64) {
        let reached = async {
            while self.success.get() != value {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(SOON, reached).await.unwrap();
    }

    async fn plain(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn answers_plainly(&self) -> bool {
        let mut plain = self.plain().await;
        plain.write_all(ONCE.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // At most an alert, perhaps cut short by the end of the connection.
        let _ = plain.read_to_end(&mut answer).await;
        answer.starts_with(b"HTTP")
    }

    async fn tls(&self, client: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(client));
        connector.connect(name, self.plain().await).await
    }

    /// What is answered over TLS; an error where there is no answer.
    async fn ask(&self, client: ClientConfig) -> io::Result<String> {
        let asked = async { exchange(self.tls(client).await?, ONCE).await };
        tokio::time::timeout(SOON, asked).await.unwrap()
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    request: &str,
) -> io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

/// Reads one answer to [`KEEP`] and leaves the connection open.
async fn read_one<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<String> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"quick answer") {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8(answer).unwrap())
}

/// A client that trusts an authority.
fn client_of(
    authority: &Authority,
    own: Option<&Signed>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

fn client(authority: &Authority, own: Option<&Signed>) -> ClientConfig {
    client_of(authority, own, &[&TLS13, &TLS12])
}
