//! What a changed file changes while the server runs.
#![allow(clippy::unwrap_used)]
use super::*;

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
