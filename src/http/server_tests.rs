#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::http::{Response, StatusCode, text};
use http_body_util::Full;
use hyper::body::Bytes;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

const SOON: Duration = Duration::from_secs(30);
/// Bytes of a page that the buffers of the system do not take.
const LARGE: usize = 16 << 20;

fn free() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let router = Router::new()
        .get("/quick", |_| async { text(StatusCode::OK, "quick answer") })
        .post("/act", |_| async { text(StatusCode::OK, "done") })
        .get("/never", |_| std::future::pending());
    serve(limits, router).await
}

async fn serve(limits: Limits, router: Router) -> Running {
    let server = Server::bind(free(), limits).await.unwrap();
    let address = server.local_address().unwrap();
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
    let mut answer = Vec::new();
    // Where the server leaves something unread, a reset follows its answer.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
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

#[tokio::test]
async fn head_is_answered_like_get_without_the_body() {
    let running = start(Limits::default()).await;
    for path in ["/quick", "/nothing", "/act"] {
        let ask = async |method: &str| {
            let request =
                format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            exchange(running.address, &request).await
        };
        let (get, head) = (ask("GET").await, ask("HEAD").await);
        let (get_head, body) = get.split_once("\r\n\r\n").unwrap();
        let without_date = |head: &str| {
            let lines = head.lines().filter(|line| !line.starts_with("date:"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let (head_head, nothing) = head.split_once("\r\n\r\n").unwrap();
        assert_eq!(without_date(head_head), without_date(get_head));
        assert!(nothing.is_empty() && !body.is_empty(), "{path}: {head}");
        assert!(head_head.contains(&format!("content-length: {}", body.len())));
    }
}

#[tokio::test]
async fn what_is_no_request_is_told_so() {
    let running = start(Limits::default()).await;
    for (said, expected) in [
        ("what is this\r\n\r\n".to_owned(), "400"),
        ("GET /quick HTTP/1.1\r\nno header\r\n\r\n".to_owned(), "400"),
        (
            "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            "404",
        ),
        (
            "PUT /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            "405",
        ),
        // One header that is too long, and too many short ones.
        (
            format!("GET /quick HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(20_000)),
            "431",
        ),
        (
            format!("GET /quick HTTP/1.1\r\n{}\r\n", "X: a\r\n".repeat(65)),
            "431",
        ),
    ] {
        let answer = exchange(running.address, &said).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected}")),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_not_read() {
    let limits = Limits {
        body: 1000,
        ..Limits::default()
    };
    let running = start(limits).await;
    for (method, path) in [("POST", "/act"), ("GET", "/quick"), ("PUT", "/nothing")] {
        // Told beforehand: nothing of it has to be sent.
        let told = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n");
        let answer = exchange(running.address, &told).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        assert!(
            answer.ends_with("the body of a request may have 1000 bytes\n"),
            "{answer}"
        );
        // Not told: it is found out on the way.
        let chunk = format!("1f4\r\n{}\r\n", "a".repeat(500));
        let chunked = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            chunk.repeat(3)
        );
        let answer = exchange(running.address, &chunked).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_is_short_enough_is_passed_over() {
    let running = start(Limits::default()).await;
    let act = format!(
        "POST /act HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n{}",
        "a".repeat(60_000)
    );
    let more = "GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    // What follows it on the connection is the next request.
    let answer = exchange(running.address, &format!("{act}{more}")).await;
    assert!(answer.contains("\r\n\r\ndoneHTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("quick answer"), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up_and_keeps_nobody_out() {
    let limits = Limits {
        connections: 4,
        ..Limits::default()
    };
    let running = start(limits).await;
    let slow = "POST /act HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\na";
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(slow.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let ask = "GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let asked = exchange(running.address, ask);
    let answer = tokio::time::timeout(limits.request / 2, asked).await;
    assert!(answer.unwrap().ends_with("quick answer"));

    let impatient = start(Limits {
        request: Duration::from_millis(50),
        ..Limits::default()
    });
    let answer = exchange(impatient.await.address, slow).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

/// Bytes that tell when nobody holds them any more.
struct Held(Vec<u8>, #[allow(dead_code)] oneshot::Sender<()>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_let_go() {
    let (told, gone) = oneshot::channel();
    // More than the buffers of the system take.
    let page = Bytes::from_owner(Held(vec![b'a'; 64 << 20], told));
    let page = Mutex::new(Some(page));
    let router = Router::new().get("/large", move |_| {
        let page = page.lock().unwrap().take().unwrap();
        async move { Response::new(Full::new(page)) }
    });
    let limits = Limits {
        request: Duration::from_secs(1),
        ..Limits::default()
    };
    let running = serve(limits, router).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let ask = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(ask).await.unwrap();
    // The sender ends with the page.
    let ended = tokio::time::timeout(SOON, gone).await;
    assert!(ended.unwrap().is_err());
}

/// A server whose only page is more than the buffers of the system take, and how often it was asked for that.
async fn with_large_page(limits: Limits) -> (Running, Arc<AtomicUsize>) {
    let page = Bytes::from(vec![b'a'; LARGE]);
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let router = Router::new().get("/large", move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        let page = page.clone();
        async move { Response::new(Full::new(page)) }
    });
    (serve(limits, router).await, asked)
}

/// Sends requests, and sees that the first answer begins.
async fn begin(address: SocketAddr, requests: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(requests.as_bytes()).await.unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).await.unwrap();
    stream
}

#[tokio::test]
async fn who_takes_no_answer_is_given_no_other() {
    let limits = Limits {
        unsent: 2 * LARGE,
        ..Limits::default()
    };
    let (running, asked) = with_large_page(limits).await;
    let keep = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
    let close = "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut stream = begin(running.address, &format!("{keep}{keep}{close}")).await;
    // What others ask comes after what this one has asked.
    let nothing = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for _ in 0..3 {
        exchange(running.address, nothing).await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert!(rest.len() > 3 * LARGE);
}

#[tokio::test]
async fn the_answer_that_was_not_taken_for_longest_makes_room() {
    let limits = Limits {
        unsent: 2 * LARGE + LARGE / 2,
        ..Limits::default()
    };
    let (running, _) = with_large_page(limits).await;
    let ask = "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(begin(running.address, ask).await);
    }
    let mut taken = Vec::new();
    for mut stream in streams {
        let mut rest = Vec::new();
        // What is cut may end with a reset.
        let _ = stream.read_to_end(&mut rest).await;
        taken.push(rest.len() > LARGE);
    }
    assert_eq!(taken, [false, true, true]);
}
