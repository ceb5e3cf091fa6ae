#![allow(clippy::unwrap_used)]
use super::*;
use crate::http::pki_tests::Authority;
use std::path::Path;
use tempfile::TempDir;

/// bcrypt of `hunter2` at the lowest cost.
fn hash() -> String {
    bcrypt::hash_with_salt("hunter2", 4, [7; 16])
        .unwrap()
        .to_string()
}

/// A folder with a server's files and a client CA.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("one");
    let server = authority.server();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("cert.pem", &server.certificate);
    write("key.pem", &server.key);
    write("other.pem", &authority.server().key);
    write("ca.pem", &authority.pem);
    write("junk.pem", "hunter2");
    folder
}

fn open(folder: &Path, text: &str) -> Result<WebConfig, WebConfigError> {
    let path = folder.join("web.yml");
    std::fs::write(&path, text).unwrap();
    WebConfig::open(path)
}

const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

#[test]
fn what_can_be_honoured_is_taken() {
    let folder = folder();
    for more in [
        "",
        "  client_auth_type: NoClientCert\n",
        "  client_auth_type: RequestClientCert\n",
        "  client_auth_type: RequireClientCert\n",
        "  client_auth_type: RequireAnyClientCert\n  client_allowed_sans: [a]\n",
        "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n",
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n",
        "  min_version: TLS13\n",
        "  min_version: TLS12\n  max_version: TLS12\n  prefer_server_cipher_suites: false\n",
        "  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]\n",
        "  curve_preferences: [CurveP384, X25519, CurveP256]\n",
        "http_server_config: {http2: true}\n",
        "http_server_config: {http2: false, headers: {X-Frame-Options: deny, X-XSS-Protection: ''}}\n",
    ] {
        let config = open(folder.path(), &format!("{TLS}{more}"));
        let config = config.unwrap_or_else(|error| panic!("{more}: {error:?}"));
        assert!(config.current().tls().is_some());
    }
    let users = format!("basic_auth_users:\n  alice: {}\n", hash());
    assert!(
        !open(folder.path(), &users)
            .unwrap()
            .current()
            .users
            .is_empty()
    );
    for nothing in ["", "tls_server_config: {}\n", "basic_auth_users: {}\n"] {
        let current = open(folder.path(), nothing).unwrap().current();
        assert!(current.tls().is_none() && current.users.is_empty());
    }
}

#[test]
fn a_certificate_may_stand_in_the_file_itself() {
    let folder = folder();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let indented = |name: &str| read(name).replace('\n', "\n    ");
    let text = format!(
        "tls_server_config:\n  cert: |\n    {}\n  key: |\n    {}\n  client_ca: |\n    {}\n  client_auth_type: RequireAndVerifyClientCert\n",
        indented("cert.pem"),
        indented("key.pem"),
        indented("ca.pem")
    );
    assert!(
        open(folder.path(), &text)
            .unwrap()
            .current()
            .tls()
            .is_some()
    );
    let both = text.replacen("  cert: |", "  cert_file: cert.pem\n  cert: |", 1);
    let told = open(folder.path(), &both).unwrap_err().to_string();
    assert!(told.contains("tls_server_config.cert: tls_server_config.cert_file is set as well"));
    let bad = "tls_server_config:\n  cert_file: cert.pem\n  key: hunter2\n";
    let told = open(folder.path(), bad).unwrap_err();
    assert!(
        told.to_string()
            .contains("web.yml:3:8: tls_server_config.key: the text holds no")
    );
    assert!(!format!("{told:?}").contains("hunter2"));
}

/// What is wrong, with its causes.
fn refused(folder: &Path, text: &str) -> String {
    let error = open(folder, text).unwrap_err();
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        told.push_str(&format!(": {next}"));
        cause = next.source();
    }
    for shown in [&told, &format!("{error:?}")] {
        assert!(
            !shown.contains("hunter2") && !shown.contains("$2"),
            "{shown}"
        );
    }
    told
}

#[test]
fn what_cannot_be_honoured_is_refused_with_its_place() {
    let folder = folder();
    for (text, expected) in [
        (
            "tls_server_config: {key_file: key.pem}\n",
            "web.yml: tls_server_config.cert_file: the certificate is missing",
        ),
        (
            "tls_server_config: {cert_file: cert.pem}\n",
            "tls_server_config.key_file: the private key is missing",
        ),
        (
            "tls_server_config: {min_version: TLS13}\n",
            "the certificate is missing",
        ),
        (
            "tls_server_config:\n  cert_file: none.pem\n  key_file: key.pem\n",
            "web.yml:2:14: tls_server_config.cert_file: cannot read",
        ),
        (
            "tls_server_config:\n  cert_file: junk.pem\n  key_file: key.pem\n",
            "junk.pem holds no certificate in PEM form",
        ),
        (
            "tls_server_config:\n  cert_file: cert.pem\n  key_file: junk.pem\n",
            "web.yml:3:13: tls_server_config.key_file: ",
        ),
        (
            "tls_server_config:\n  cert_file: cert.pem\n  key_file: other.pem\n",
            "web.yml:3:13: tls_server_config: this cannot be served: ",
        ),
    ] {
        let told = refused(folder.path(), text);
        assert!(told.contains(expected), "{told}");
    }
    for (more, expected) in [
        (
            "min_version: TLS10",
            "web.yml:4:16: tls_server_config.min_version: TLS10 is broken",
        ),
        ("max_version: TLS11", "max_version: TLS11 is broken"),
        ("min_version: SSL3", "`SSL3` is not one of TLS12, TLS13"),
        (
            "min_version: TLS13\n  max_version: TLS12",
            "web.yml:5:16: tls_server_config.max_version: it is below",
        ),
        (
            "cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]",
            "web.yml:4:19: tls_server_config.cipher_suites: `TLS_RSA_WITH_AES_128_CBC_SHA` is not one of TLS_ECDHE_ECDSA",
        ),
        (
            "curve_preferences: [CurveP521]",
            "`CurveP521` is not one of X25519",
        ),
        (
            "client_auth_type: Perhaps",
            "`Perhaps` is not one of NoClientCert",
        ),
        (
            "client_ca_file: ca.pem",
            "there is a client CA, but no certificate is asked for",
        ),
        (
            "client_auth_type: RequireAndVerifyClientCert",
            "name client_ca_file",
        ),
        (
            "client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: junk.pem",
            "web.yml:5:19: tls_server_config.client_ca_file: ",
        ),
        (
            "client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n  client_allowed_sans: [a]",
            "a client without a certificate would be let in",
        ),
    ] {
        let told = refused(folder.path(), &format!("{TLS}  {more}\n"));
        assert!(told.contains(expected), "{told}");
    }
    for (text, expected) in [
        (
            "basic_auth_users:\n  alice: hunter2\n",
            "web.yml:2:10: basic_auth_users: user `alice`: this is no bcrypt hash",
        ),
        (
            "http_server_config:\n  headers:\n    X-Frame-Options: allow\n",
            "x-frame-options: `allow` is not one of deny, sameorigin",
        ),
    ] {
        let told = refused(folder.path(), text);
        assert!(told.contains(expected), "{told}");
    }
    let costly = hash().replacen("$04$", "$31$", 1);
    let told = refused(
        folder.path(),
        &format!("basic_auth_users: {{alice: {costly}}}\n"),
    );
    assert!(
        told.contains("the cost is 31; it may be from 4 to 16"),
        "{told}"
    );
    let missing = WebConfig::open(folder.path().join("none.yml"))
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("cannot read the web configuration"),
        "{missing}"
    );
}

#[test]
fn a_change_that_protects_less_is_refused() {
    let folder = folder();
    let load = |text: &str| open(folder.path(), text).unwrap().current();
    let client = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    let users = format!("basic_auth_users: {{alice: {}}}\n", hash());
    let all = load(&format!("{TLS}{client}{users}"));
    for (less, lost) in [
        (String::new(), Some("TLS")),
        (format!("{TLS}{client}"), Some("basic authentication")),
        (
            format!("{TLS}{users}"),
            Some("a check of client certificates"),
        ),
        (
            format!("{TLS}  client_auth_type: RequireAnyClientCert\n{users}"),
            Some("a check of client certificates"),
        ),
        (format!("{TLS}{client}{users}"), None),
    ] {
        assert_eq!(load(&less).weaker(&all), lost, "{less}");
    }
    assert_eq!(all.weaker(&load("")), None);
}

#[tokio::test]
async fn each_change_is_looked_at_once() {
    let folder = folder();
    let config = open(folder.path(), TLS).unwrap();
    let (first, success) = (config.current(), config.reload_success());
    let mut seen = Seen {
        fingerprint: Some(config.seen),
        problem: None,
    };
    config.look(&mut seen).await;
    assert!(Arc::ptr_eq(&config.current(), &first), "nothing changed");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let good = std::fs::read_to_string(folder.path().join("cert.pem")).unwrap();

    for broken in ["", "junk"] {
        write("cert.pem", broken);
        config.look(&mut seen).await;
        assert_eq!(success.get(), 0);
        config.look(&mut seen).await;
        assert_eq!(success.get(), 0, "it is as broken as before");
        assert!(Arc::ptr_eq(&config.current(), &first));
    }
    std::fs::remove_file(folder.path().join("cert.pem")).unwrap();
    config.look(&mut seen).await;
    assert_eq!(success.get(), 0);
    assert!(seen.problem.as_ref().unwrap().contains("cert.pem"));

    write("cert.pem", &good);
    config.look(&mut seen).await;
    assert_eq!(success.get(), 1);
    assert_eq!(seen.problem, None);
    let back = config.current();
    config.look(&mut seen).await;
    assert!(Arc::ptr_eq(&config.current(), &back));

    write("web.yml", "# TLS is gone\n");
    config.look(&mut seen).await;
    assert_eq!(success.get(), 0);
    assert!(Arc::ptr_eq(&config.current(), &back));
}
