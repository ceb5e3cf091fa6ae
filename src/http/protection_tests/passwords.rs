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

/// A request with these credentials, on a connection of its own.
async fn begin(place: &Place, credentials: &str) -> TcpStream {
    let mut stream = place.plain().await;
    let credentials = STANDARD.encode(credentials);
    let request = format!(
        "GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Basic {credentials}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// What is answered; nothing where the connection was closed.
async fn answer(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(SOON, read).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn whose_password_is_being_checked_is_not_pushed_out_and_whoever_guesses_more_is_sent_away() {
    // Costly enough to take longer than what happens meanwhile.
    let hash = bcrypt::hash_with_salt("hunter2", 10, [7; 16]).unwrap();
    let config = format!("basic_auth_users:\n  alice: {hash}\n");
    let limits = Limits {
        connections: 8,
        ..Limits::default()
    };
    let folder = folder(&Authority::new("one").server(), &config);
    let place = Place::start(folder, limits).await;
    let right = begin(&place, "alice:hunter2").await;
    // What this asks comes after what that one has asked.
    for _ in 0..3 {
        let answer = exchange(place.plain().await, ONCE).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    let mut guesses = Vec::new();
    for guess in 0..5 {
        guesses.push(begin(&place, &format!("alice:{guess}")).await);
    }
    let mut idle = Vec::new();
    for _ in 0..limits.connections * 2 {
        idle.push(place.plain().await);
    }
    let told = answer(right).await;
    assert!(told.ends_with("quick answer"), "{told}");
    let mut sent_away = 0;
    for guess in guesses {
        sent_away += usize::from(answer(guess).await.starts_with("HTTP/1.1 429"));
    }
    assert!(sent_away > 0);
}
