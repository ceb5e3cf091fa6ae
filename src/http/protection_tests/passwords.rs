//! Basic authentication.
#![allow(clippy::unwrap_used)]
use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

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
