//! TLS and basic authentication over real sockets.
#![allow(clippy::unwrap_used)]
use super::pki_tests::{Authority, Signed};
use super::{Limits, Router, Server, StatusCode, WebConfig, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::SanType;
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

#[tokio::test]
async fn with_tls_nothing_is_answered_plainly() {
    let authority = Authority::new("one");
    let place = Place::start(folder(&authority.server(), TLS), Limits::default()).await;
    let answer = place.ask(client(&authority, None)).await.unwrap();
    assert!(answer.ends_with("quick answer"), "{answer}");
    assert!(!place.answers_plainly().await);
    // Who trusts somebody else does not take it for the server.
    let other = Authority::new("two");
    assert!(place.ask(client(&other, None)).await.is_err());
}

#[tokio::test]
async fn client_certificates_are_asked_for_as_configured() {
    let authority = Authority::new("one");
    let other = Authority::new("two");
    let name = || vec![SanType::DnsName("prometheus".try_into().unwrap())];
    let (good, foreign) = (authority.client(name()), other.client(name()));
    // Whether a client gets in without a certificate, with one of the CA's, and with one of another's.
    for (kind, expected) in [
        ("NoClientCert", [true, true, true]),
        ("RequestClientCert", [true, true, true]),
        ("RequireAnyClientCert", [false, true, true]),
        ("VerifyClientCertIfGiven", [true, true, false]),
        ("RequireAndVerifyClientCert", [false, true, false]),
    ] {
        let mut config = format!("{TLS}  client_auth_type: {kind}\n");
        if kind != "NoClientCert" {
            config.push_str("  client_ca_file: ca.pem\n");
        }
        let folder = folder(&authority.server(), "");
        std::fs::write(folder.path().join("ca.pem"), &authority.pem).unwrap();
        std::fs::write(folder.path().join("web.yml"), config).unwrap();
        let place = Place::start(folder, Limits::default()).await;
        for versions in [&[&TLS13], &[&TLS12]] {
            for (own, expected) in [None, Some(&good), Some(&foreign)]
                .into_iter()
                .zip(expected)
            {
                let answered = place.ask(client_of(&authority, own, versions)).await;
                assert_eq!(
                    answered.is_ok(),
                    expected,
                    "{kind} {versions:?}: {answered:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn client_certificates_need_one_of_the_allowed_names() {
    let authority = Authority::new("one");
    let config = format!(
        "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  client_allowed_sans:\n  \
         - prometheus.example\n  - spiffe://cluster/prometheus\n  - sre@example.org\n  - 192.0.2.7\n  - 2001:db8::7\n"
    );
    let folder = folder(&authority.server(), &config);
    std::fs::write(folder.path().join("ca.pem"), &authority.pem).unwrap();
    let place = Place::start(folder, Limits::default()).await;
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    for (names, expected) in [
        (vec![dns("prometheus.example")], true),
        (vec![dns("other"), dns("prometheus.example")], true),
        (
            vec![SanType::URI(
                "spiffe://cluster/prometheus".try_into().unwrap(),
            )],
            true,
        ),
        (
            vec![SanType::Rfc822Name("sre@example.org".try_into().unwrap())],
            true,
        ),
        (vec![SanType::IpAddress("192.0.2.7".parse().unwrap())], true),
        (
            vec![SanType::IpAddress("2001:db8::7".parse().unwrap())],
            true,
        ),
        (vec![], false),
        (vec![dns("*.example")], false),
        (vec![dns("a.prometheus.example")], false),
        (
            vec![SanType::IpAddress("192.0.2.8".parse().unwrap())],
            false,
        ),
    ] {
        let own = authority.client(names.clone());
        let answered = place.ask(client(&authority, Some(&own))).await;
        assert_eq!(answered.is_ok(), expected, "{names:?}: {answered:?}");
    }
}

#[tokio::test]
async fn versions_and_suites_are_as_configured() {
    let authority = Authority::new("one");
    let start = |more: &str| {
        let config = format!("{TLS}{more}");
        Place::start(folder(&authority.server(), &config), Limits::default())
    };
    let only_13 = start("  min_version: TLS13\n").await;
    assert!(
        only_13
            .ask(client_of(&authority, None, &[&TLS12]))
            .await
            .is_err()
    );
    assert!(
        only_13
            .ask(client_of(&authority, None, &[&TLS13]))
            .await
            .is_ok()
    );
    let only_12 = start("  max_version: TLS12\n").await;
    assert!(
        only_12
            .ask(client_of(&authority, None, &[&TLS13]))
            .await
            .is_err()
    );
    assert!(
        only_12
            .ask(client_of(&authority, None, &[&TLS12]))
            .await
            .is_ok()
    );
    let suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    let one = start(&format!("  cipher_suites: [{suite}]\n")).await;
    let stream = one
        .tls(client_of(&authority, None, &[&TLS12]))
        .await
        .unwrap();
    let chosen = stream
        .get_ref()
        .1
        .negotiated_cipher_suite()
        .unwrap()
        .suite();
    assert_eq!(format!("{chosen:?}"), suite);
    let curve = start("  curve_preferences: [CurveP384]\n").await;
    let stream = curve.tls(client(&authority, None)).await.unwrap();
    let group = stream.get_ref().1.negotiated_key_exchange_group().unwrap();
    assert_eq!(format!("{:?}", group.name()), "secp384r1");
}

#[tokio::test]
async fn a_rotated_certificate_is_served_without_a_restart() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let place = Place::start(folder(&old.server(), TLS), Limits::default()).await;
    let mut kept = place.tls(client(&old, None)).await.unwrap();
    kept.write_all(KEEP.as_bytes()).await.unwrap();
    let answer = read_one(&mut kept).await.unwrap();
    assert!(!answer.contains("connection: close"), "{answer}");

    // The key comes a moment after the certificate, and between the two they do not fit.
    let rotated = new.server();
    place.write("cert.pem", &rotated.certificate);
    place.until_success_is(0).await;
    assert!(
        place.ask(client(&old, None)).await.is_ok(),
        "the old one is still served"
    );
    place.write("key.pem", &rotated.key);
    place.until_success_is(1).await;
    assert!(place.ask(client(&new, None)).await.is_ok());
    assert!(place.ask(client(&old, None)).await.is_err());

    // Who kept a connection is answered on it, and comes again on a new one.
    kept.write_all(KEEP.as_bytes()).await.unwrap();
    let answer = read_one(&mut kept).await.unwrap();
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_broken_file_changes_nothing() {
    let authority = Authority::new("one");
    let place = Place::start(folder(&authority.server(), TLS), Limits::default()).await;
    // The last of them would switch TLS off.
    for broken in [
        "tls_server_config: [\n",
        "tls_server_config:\n  cert_file: none\n",
        "",
    ] {
        place.write("web.yml", broken);
        place.until_success_is(0).await;
        assert!(
            place.ask(client(&authority, None)).await.is_ok(),
            "{broken}"
        );
        assert!(!place.answers_plainly().await, "{broken}");
        place.write("web.yml", TLS);
        place.until_success_is(1).await;
    }
}

#[tokio::test]
async fn tls_that_is_switched_on_ends_plain_connections() {
    let authority = Authority::new("one");
    let place = Place::start(folder(&authority.server(), ""), Limits::default()).await;
    let mut kept = place.plain().await;
    kept.write_all(KEEP.as_bytes()).await.unwrap();
    read_one(&mut kept).await.unwrap();
    place.write("web.yml", TLS);
    let tls = async {
        while place.ask(client(&authority, None)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, tls).await.unwrap();
    // The connection may end while this is written.
    let _ = kept.write_all(KEEP.as_bytes()).await;
    assert!(read_one(&mut kept).await.is_err());
}

#[tokio::test]
async fn a_silent_tls_client_keeps_nobody_out_and_is_sent_away() {
    let authority = Authority::new("one");
    let limits = Limits {
        header: Duration::from_millis(300),
        ..Limits::default()
    };
    let place = Place::start(folder(&authority.server(), TLS), limits).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut stream = place.plain().await;
        // The beginning of a handshake that does not go on.
        stream.write_all(&[22, 3, 1, 0, 200, 1]).await.unwrap();
        silent.push(stream);
    }
    assert!(place.ask(client(&authority, None)).await.is_ok());
    for mut stream in silent {
        let mut end = Vec::new();
        let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut end)).await;
        assert!(ended.is_ok(), "the connection stayed open");
    }
}

#[tokio::test]
async fn every_path_needs_a_password() {
    let authority = Authority::new("one");
    let hash = bcrypt::hash_with_salt("hunter2", 4, [7; 16])
        .unwrap()
        .to_string();
    let config = format!(
        "basic_auth_users:\n  alice: {hash}\nhttp_server_config:\n  headers:\n    X-Content-Type-Options: nosniff\n"
    );
    let place = Place::start(folder(&authority.server(), &config), Limits::default()).await;
    let ask = async |first: &str, credentials: Option<&str>| {
        let sent = credentials.map_or(String::new(), |credentials| {
            format!("Authorization: Basic {}\r\n", STANDARD.encode(credentials))
        });
        let request = format!("{first} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{sent}\r\n");
        let answer = exchange(place.plain().await, &request).await.unwrap();
        assert!(
            answer.contains("x-content-type-options: nosniff"),
            "{answer}"
        );
        answer
    };
    for first in ["GET /quick", "GET /nothing", "POST /quick"] {
        for credentials in [
            None,
            Some("alice:wrong"),
            Some("carol:hunter2"),
            Some("alice"),
        ] {
            let answer = ask(first, credentials).await;
            assert!(
                answer.starts_with("HTTP/1.1 401"),
                "{first} {credentials:?}: {answer}"
            );
            assert!(
                answer.contains("www-authenticate: Basic realm="),
                "{answer}"
            );
        }
    }
    let right = Some("alice:hunter2");
    assert!(ask("GET /quick", right).await.ends_with("quick answer"));
    assert!(ask("GET /nothing", right).await.starts_with("HTTP/1.1 404"));
    let head = ask("HEAD /quick", None).await;
    assert!(
        head.starts_with("HTTP/1.1 401") && head.ends_with("\r\n\r\n"),
        "{head}"
    );

    // A new password counts at once, on connections that are open as well.
    let changed = bcrypt::hash_with_salt("open sesame", 4, [8; 16])
        .unwrap()
        .to_string();
    place.write("web.yml", &config.replace(&hash, &changed));
    let refused = async {
        while !ask("GET /quick", right).await.starts_with("HTTP/1.1 401") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, refused).await.unwrap();
    let answer = ask("GET /quick", Some("alice:open sesame")).await;
    assert!(answer.ends_with("quick answer"), "{answer}");
}
