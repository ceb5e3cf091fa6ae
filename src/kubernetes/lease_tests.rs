//! Proof of [`super::lease`], against an API server in memory and on a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::http::{Method, Request, Response};
use kube::client::{Body, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lease::{Leadership, LeaseSettings, SettingsError, campaign};

/// How the API server looks from one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Up,
    /// Every call is refused at once.
    Refused,
    /// No call is ever answered, or reaches the server.
    Silent,
    /// The next write is obeyed, but its answer is lost.
    LosesOneAnswer,
}

/// The Lease as the API server holds it.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
}

impl Server {
    fn answer(&mut self, method: &Method, body: &[u8]) -> (u16, Value) {
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let sent_version = &sent["metadata"]["resourceVersion"];
        match (method, &self.lease) {
            (&Method::GET, Some(lease)) => (200, lease.clone()),
            (&Method::POST, Some(_)) => refusal(409, "AlreadyExists"),
            (&Method::POST, None) => (201, self.store(sent)),
            (&Method::PUT, Some(l)) if *sent_version == l["metadata"]["resourceVersion"] => {
                (200, self.store(sent))
            }
            (&Method::PUT, Some(_)) => refusal(409, "Conflict"),
            _ => refusal(404, "NotFound"),
        }
    }

    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }
}

fn refusal(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": reason,
    });
    (code, status)
}

type Shared = Arc<Mutex<Server>>;

/// One process that campaigns.
struct Process {
    leadership: Leadership,
    line: Arc<Mutex<Line>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

fn settings(identity: &str) -> LeaseSettings {
    LeaseSettings {
        namespace: "ns".into(),
        name: "gpu-remediator".into(),
        identity: identity.into(),
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

fn client(server: &Shared, line: &Arc<Mutex<Line>>) -> Client {
    let (server, line) = (server.clone(), line.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, line) = (server.clone(), line.clone());
        async move {
            let now = *line.lock().unwrap();
            if now == Line::Silent {
                std::future::pending::<()>().await;
            }
            let method = request.method().clone();
            let body = request.into_body().collect().await?.to_bytes();
            let (mut code, mut value) = if now == Line::Refused {
                refusal(503, "ServiceUnavailable")
            } else {
                server.lock().unwrap().answer(&method, &body)
            };
            if now == Line::LosesOneAnswer && method != Method::GET && code < 300 {
                *line.lock().unwrap() = Line::Up;
                (code, value) = refusal(504, "Timeout");
            }
            let body = Body::from(serde_json::to_vec(&value).unwrap());
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "ns")
}

impl Process {
    fn start(server: &Shared, identity: &str, line: Line) -> Self {
        let line = Arc::new(Mutex::new(line));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let client = client(server, &line);
        let leadership = campaign(
            client,
            settings(identity),
            crate::clock::Clock::system(),
            stop.clone(),
            &tasks,
        )
        .unwrap();
        Self {
            leadership,
            line,
            stop,
            tasks,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.check().is_ok()
    }

    fn set(&self, line: Line) {
        *self.line.lock().unwrap() = line;
    }
}

fn held_by(server: &Shared, holder: &str) {
    server.lock().unwrap().store(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "gpu-remediator", "namespace": "ns"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 7,
            "renewTime": "2001-01-01T00:00:00.000000Z", "acquireTime": "2001-01-01T00:00:00.000000Z",
        },
    }));
}

fn spec(server: &Shared, field: &str) -> Value {
    let server = server.lock().unwrap();
    server
        .lease
        .as_ref()
        .map_or(Value::Null, |l| l["spec"][field].clone())
}

/// Waits until it holds, and says how long that took; fails after `limit` seconds.
async fn until(limit: u64, holds: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(limit),
            "not within {limit} s"
        );
        sleep(Duration::from_millis(50)).await;
    }
    began.elapsed()
}

/// Watches for some seconds that it always holds.
async fn always(seconds: u64, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        assert!(holds(), "after {:?}", began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_makes_the_lease_and_keeps_it() {
    let server = Shared::default();
    let a = Process::start(&server, "a", Line::Up);
    assert!(!a.leads(), "before the server has said so");
    until(1, || a.leads()).await;
    always(120, || a.leads()).await;
    assert_eq!(spec(&server, "holderIdentity"), "a");
    assert_eq!(spec(&server, "leaseTransitions"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_back_is_taken_at_once() {
    let server = Shared::default();
    held_by(&server, "");
    let a = Process::start(&server, "a", Line::Up);
    until(1, || a.leads()).await;
    assert_eq!(spec(&server, "leaseTransitions"), 8);
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_waited_for_its_whole_duration() {
    let server = Shared::default();
    held_by(&server, "dead"); // whose renewTime is long past: wall clocks are not compared
    let a = Process::start(&server, "a", Line::Up);
    let waited = until(20, || a.leads()).await;
    assert!(waited >= Duration::from_secs(15), "{waited:?}");
    assert_eq!(spec(&server, "leaseTransitions"), 8);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_renews_is_never_replaced() {
    let server = Shared::default();
    held_by(&server, "other");
    let a = Process::start(&server, "a", Line::Up);
    for _ in 0..10 {
        always(10, || !a.leads()).await;
        held_by(&server, "other");
        let mut server = server.lock().unwrap();
        let version = server.version;
        server.lease.as_mut().unwrap()["spec"]["leaseTransitions"] = json!(version);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_one_leads() {
    let server = Shared::default();
    let a = Process::start(&server, "a", Line::Up);
    let b = Process::start(&server, "b", Line::Up);
    until(1, || a.leads() || b.leads()).await;
    let first = a.leads();
    always(120, || a.leads() == first && b.leads() != first).await;
}

#[tokio::test(start_paused = true)]
async fn promise_6_a_leader_that_cannot_renew_stops_before_the_next_begins() {
    for line in [Line::Refused, Line::Silent] {
        let server = Shared::default();
        let a = Process::start(&server, "a", Line::Up);
        until(1, || a.leads()).await;
        let b = Process::start(&server, "b", Line::Up);
        sleep(Duration::from_secs(31)).await;
        a.set(line);
        let (mut stopped, mut began) = (None, None);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(40) {
            assert!(!(a.leads() && b.leads()), "{line:?}: two leaders");
            if !a.leads() {
                stopped.get_or_insert(start.elapsed());
            }
            if b.leads() {
                began.get_or_insert(start.elapsed());
            }
            sleep(Duration::from_millis(20)).await;
        }
        let (stopped, began) = (stopped.unwrap(), began.unwrap());
        assert!(stopped <= Duration::from_secs(11), "{line:?}: {stopped:?}");
        let between = began - stopped;
        assert!(between >= Duration::from_secs(3), "{line:?}: {between:?}");
        assert!(began <= Duration::from_secs(20), "{line:?}: {began:?}");
        a.set(Line::Up);
        always(60, || b.leads() && !a.leads()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_minute_without_the_server_the_same_process_leads_again() {
    for line in [Line::Refused, Line::Silent] {
        let server = Shared::default();
        let mut a = Process::start(&server, "a", Line::Up);
        let term = a.leadership.acquired(&a.tasks).await.unwrap();
        a.set(line);
        until(11, || !a.leads()).await;
        term.cancelled().await;
        always(60, || !a.leads()).await;
        a.set(Line::Up);
        until(8, || a.leads()).await;
        let next = a.leadership.acquired(&a.tasks).await.unwrap();
        assert!(term.is_cancelled() && !next.is_cancelled());
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_does_not_end_the_term() {
    let server = Shared::default();
    let mut a = Process::start(&server, "a", Line::Up);
    let term = a.leadership.acquired(&a.tasks).await.unwrap();
    for _ in 0..10 {
        a.set(Line::LosesOneAnswer);
        always(7, || a.leads()).await;
        assert_eq!(*a.line.lock().unwrap(), Line::Up, "one was lost");
    }
    assert!(!term.is_cancelled());
    assert_eq!(spec(&server, "leaseTransitions"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_answer_was_lost_is_found_again() {
    let server = Shared::default();
    let a = Process::start(&server, "a", Line::LosesOneAnswer);
    let b = Process::start(&server, "b", Line::Up);
    let waited = until(10, || a.leads() || b.leads()).await;
    assert!(waited <= Duration::from_secs(3), "{waited:?}");
    always(60, || a.leads() != b.leads()).await;
}

#[tokio::test(start_paused = true)]
async fn two_processes_of_the_same_name_do_not_both_lead() {
    let server = Shared::default();
    let a = Process::start(&server, "twin", Line::Up);
    until(1, || a.leads()).await;
    let b = Process::start(&server, "twin", Line::Up);
    always(60, || a.leads() && !b.leads()).await;
    a.set(Line::Silent);
    let waited = until(30, || b.leads()).await;
    assert!(waited >= Duration::from_secs(10), "{waited:?}");
    a.set(Line::Up);
    always(60, || b.leads() && !a.leads()).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_away_ends_the_term() {
    let server = Shared::default();
    let mut a = Process::start(&server, "a", Line::Up);
    let term = a.leadership.acquired(&a.tasks).await.unwrap();
    held_by(&server, "other");
    until(3, || !a.leads()).await;
    term.cancelled().await;
    assert_eq!(spec(&server, "holderIdentity"), "other");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_stopped_gives_the_lease_back() {
    let server = Shared::default();
    let a = Process::start(&server, "a", Line::Up);
    until(1, || a.leads()).await;
    let b = Process::start(&server, "b", Line::Up);
    sleep(Duration::from_secs(5)).await;
    a.stop.cancel();
    a.tasks.close();
    a.tasks.wait().await;
    assert!(!a.leads());
    until(3, || b.leads()).await;
    assert_eq!(spec(&server, "holderIdentity"), "b");
}

#[test]
fn durations_that_contradict_each_other_are_refused() {
    assert!(settings("a").validate().is_ok());
    let mut short = settings("a");
    short.duration = Duration::from_millis(900);
    assert!(matches!(short.validate(), Err(SettingsError::TooShort(_))));
    let mut long = settings("a");
    long.renew_deadline = long.duration;
    assert!(matches!(
        long.validate(),
        Err(SettingsError::DeadlineTooLong { .. })
    ));
    let mut slow = settings("a");
    slow.retry_period = Duration::from_secs(5);
    assert!(matches!(
        slow.validate(),
        Err(SettingsError::PeriodTooLong { .. })
    ));
}
