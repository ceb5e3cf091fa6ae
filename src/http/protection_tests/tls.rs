//! Who is served over TLS.
#![allow(clippy::unwrap_used)]
use super::*;
use rcgen::SanType;

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
async fn a_silent_tls_client_keeps_nobody_out_and_is_sent_away() {
    let authority = Authority::new("one");
    let limits = Limits {
        header: Duration::from_secs(2),
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
