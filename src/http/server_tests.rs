#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn free() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let server = Server::bind(free(), limits).await.unwrap();
    let address = server.local_address().unwrap();
    let router = Router::new()
        .get("/quick", |_| async { text(StatusCode::OK, "quick answer") })
        .get("/never", |_| std::future::pending());
    let stop = CancellationToken::new();
    let task = tokio::spawn(server.serve(router, stop.clone()));
    Running {
        address,
        stop,
        task,
    }
}

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn head_tells_the_length_and_sends_nothing() {
    let running = start(Limits::default()).await;
    let answer = exchange(
        running.address,
        "HEAD /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("content-length: 12"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    let answer = exchange(
        running.address,
        "GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.ends_with("quick answer"), "{answer}");
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up() {
    let running = start(Limits {
        request: Duration::from_millis(50),
        ..Limits::default()
    })
    .await;
    let answer = exchange(
        running.address,
        "GET /never HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[tokio::test]
async fn a_client_that_says_nothing_is_sent_away() {
    let running = start(Limits {
        header: Duration::from_millis(50),
        ..Limits::default()
    })
    .await;
    for said in [
        "",
        "GET /quick HT",
        "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let ended =
            tokio::time::timeout(Duration::from_secs(10), exchange(running.address, said)).await;
        assert!(ended.is_ok(), "the connection stayed open after {said:?}");
    }
}

#[tokio::test]
async fn silent_clients_keep_nobody_else_out() {
    let running = start(Limits::default()).await;
    let mut silent = Vec::new();
    for _ in 0..Limits::default().connections + 72 {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    let asked = exchange(
        running.address,
        "GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    // Far less than the time after which a silent client is sent away.
    let answer = tokio::time::timeout(Limits::default().header / 3, asked).await;
    assert!(answer.unwrap().ends_with("quick answer"));
    let mut end = [0; 1];
    let first = silent[0].read(&mut end).await;
    assert!(
        matches!(first, Ok(0) | Err(_)),
        "who has been idle longest makes room"
    );
}

#[tokio::test]
async fn it_ends_when_told_to_even_with_an_idle_connection() {
    let running = start(Limits::default()).await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let mut first = [0; 1];
    idle.read_exact(&mut first).await.unwrap();
    running.stop.cancel();
    tokio::time::timeout(Duration::from_secs(10), running.task)
        .await
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn a_port_in_use_is_said_so() {
    let first = Server::bind(free(), Limits::default()).await.unwrap();
    let address = first.local_address().unwrap();
    let error = Server::bind(address, Limits::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {address}: another process already uses this port")
    );
}
