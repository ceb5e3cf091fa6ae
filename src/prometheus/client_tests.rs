#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write as _;

use wiremock::matchers::{body_string_contains, header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::guards::condition::Condition;
use crate::guards::truth::Truth;
use crate::prometheus::condition::ask;
use crate::rules::answer::{Unknown, UnknownReason};

const ONE: &str = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1700000000,"1"]}]}}"#;
const NONE: &str = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;

fn at() -> Timestamp {
    Timestamp::from_millisecond(1_700_000_000_250).unwrap()
}

fn client(server: &MockServer) -> Client {
    let mut options = Options::new(server.uri());
    options.timeout = Duration::from_millis(500);
    options.most_bytes = 10_000;
    Client::new(options).unwrap()
}

async fn answering(status: u16, body: &str) -> (MockServer, Result<Answer, QueryError>) {
    let server = MockServer::start().await;
    Mock::given(path("/api/v1/query"))
        .respond_with(ResponseTemplate::new(status).set_body_string(body))
        .mount(&server)
        .await;
    let answer = client(&server).query("up", at()).await;
    (server, answer)
}

#[tokio::test]
async fn posts_the_query_with_its_time_and_asks_for_complete_answers() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/prefix/api/v1/query"))
        .and(body_string_contains("query=up%7Bnode%3D%22a%22%7D"))
        .and(body_string_contains("time=1700000000.250"))
        .and(body_string_contains("partial_response=false"))
        .and(body_string_contains("dedup=true"))
        .and(body_string_contains("deny_partial_response=1"))
        .respond_with(ResponseTemplate::new(200).set_body_string(ONE))
        .expect(1)
        .mount(&server)
        .await;
    let client = Client::new(Options::new(format!("{}/prefix/", server.uri()))).unwrap();
    let answer = client.query(r#"up{node="a"}"#, at()).await.unwrap();
    assert_eq!(answer.samples[0].labels["node"], "a");
}

#[tokio::test]
async fn every_failure_has_its_own_error() {
    let api =
        |kind: &str| format!(r#"{{"status":"error","errorType":"{kind}","error":"message"}}"#);
    for (status, body, reason) in [
        (400, api("bad_data"), UnknownReason::BadQuery),
        (422, api("execution"), UnknownReason::ExecutionFailed),
        (401, String::new(), UnknownReason::Refused),
        (403, "<html>no</html>".into(), UnknownReason::Refused),
        (503, "Service Unavailable".into(), UnknownReason::Unavailable),
        (503, api("timeout"), UnknownReason::Unavailable),
        (500, api("internal"), UnknownReason::Unavailable),
        (502, "<html>bad gateway</html>".into(), UnknownReason::Unavailable),
        (429, "too many outstanding requests".into(), UnknownReason::Unavailable),
        (404, "404 page not found".into(), UnknownReason::BadAnswer),
        (302, String::new(), UnknownReason::BadAnswer),
        (200, "<html>login</html>".into(), UnknownReason::BadAnswer),
        (200, r#"{"status":"success","data":{"resultType":"string","result":[1,"x"]}}"#.into(), UnknownReason::WrongResultType),
        (200, r#"{"status":"success","warnings":["store s1 missing"],"data":{"resultType":"vector","result":[]}}"#.into(), UnknownReason::Partial),
        (200, r#"{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}"#.into(), UnknownReason::Partial),
        (200, format!("{ONE}{}", " ".repeat(10_001)), UnknownReason::TooLarge),
    ] {
        let (_server, answer) = answering(status, &body).await;
        let error = answer.unwrap_err();
        assert_eq!(error.reason(), reason, "{status} {body:.60}: {error}");
    }
    let (_server, answer) = answering(200, r#"{"status":"success","warnings":["store s1 missing"],"data":{"resultType":"vector","result":[]}}"#).await;
    assert!(answer.unwrap_err().to_string().contains("store s1 missing"));
}

#[tokio::test]
async fn a_slow_server_times_out_and_a_closed_port_is_unreachable() {
    let server = MockServer::start().await;
    Mock::given(path("/api/v1/query"))
        .respond_with(
            ResponseTemplate::new(200)
                .set_body_string(ONE)
                .set_delay(Duration::from_secs(30)),
        )
        .mount(&server)
        .await;
    let error = client(&server).query("up", at()).await.unwrap_err();
    assert!(matches!(error, QueryError::TimedOut(_)), "{error}");
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let client = Client::new(Options::new(format!(
        "http://user:hunter2@127.0.0.1:{port}"
    )))
    .unwrap();
    let error = client.query("up", at()).await.unwrap_err();
    assert!(matches!(error, QueryError::Unreachable { .. }), "{error}");
    let shown = format!(
        "{error} {error:?} {client:?} {:?}",
        Unknown::from(error_of(&client).await)
    );
    assert!(
        !shown.contains("hunter2") && !shown.contains("user"),
        "{shown}"
    );
}

async fn error_of(client: &Client) -> QueryError {
    client.query("up", at()).await.unwrap_err()
}

#[tokio::test]
async fn user_info_is_sent_as_basic_authentication() {
    let server = MockServer::start().await;
    Mock::given(header("authorization", "Basic dXNlcjpwQHNz"))
        .respond_with(ResponseTemplate::new(200).set_body_string(NONE))
        .expect(1)
        .mount(&server)
        .await;
    let address = server.uri().replace("http://", "http://user:p%40ss@");
    Client::new(Options::new(address))
        .unwrap()
        .query("up", at())
        .await
        .unwrap();
}

#[tokio::test]
async fn the_bearer_token_is_read_at_every_request() {
    let server = MockServer::start().await;
    for token in ["first", "second"] {
        Mock::given(header("authorization", format!("Bearer {token}")))
            .respond_with(ResponseTemplate::new(200).set_body_string(NONE))
            .expect(1)
            .mount(&server)
            .await;
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut options = Options::new(server.uri());
    options.bearer_token_file = Some(file.path().to_owned());
    let client = Client::new(options).unwrap();
    assert!(matches!(
        error_of(&client).await,
        QueryError::Credentials(_)
    ));
    writeln!(file, "first").unwrap();
    client.query("up", at()).await.unwrap();
    std::fs::write(file.path(), "second\n").unwrap();
    client.query("up", at()).await.unwrap();
}

#[tokio::test]
async fn falls_back_to_get_where_post_is_not_allowed() {
    for status in [403, 405, 501] {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .respond_with(ResponseTemplate::new(status))
            .expect(1)
            .mount(&server)
            .await;
        Mock::given(method("GET"))
            .and(query_param("query", "up"))
            .and(query_param("partial_response", "false"))
            .respond_with(ResponseTemplate::new(200).set_body_string(ONE))
            .expect(1)
            .mount(&server)
            .await;
        assert_eq!(
            client(&server)
                .query("up", at())
                .await
                .unwrap()
                .samples
                .len(),
            1
        );
    }
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect() {
    let elsewhere = MockServer::start().await;
    Mock::given(path("/api/v1/query"))
        .respond_with(ResponseTemplate::new(200).set_body_string(ONE))
        .expect(0)
        .mount(&elsewhere)
        .await;
    let server = MockServer::start().await;
    Mock::given(path("/api/v1/query"))
        .respond_with(
            ResponseTemplate::new(307)
                .insert_header("location", format!("{}/api/v1/query", elsewhere.uri())),
        )
        .mount(&server)
        .await;
    assert!(matches!(
        client(&server).query("up", at()).await,
        Err(QueryError::BadAnswer(_))
    ));
}

#[tokio::test]
async fn range_queries_return_series() {
    let server = MockServer::start().await;
    Mock::given(path("/api/v1/query_range"))
        .and(body_string_contains("step=15"))
        .respond_with(ResponseTemplate::new(200).set_body_string(
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"node":"a"},"values":[[10,"1"],[25,"0"]]}]}}"#,
        ))
        .mount(&server)
        .await;
    let series = client(&server)
        .query_range("up", at(), at(), Duration::from_secs(15))
        .await
        .unwrap();
    assert_eq!(series[0].points.len(), 2);
}

#[tokio::test]
async fn extra_parameters_replace_the_defaults() {
    let server = MockServer::start().await;
    Mock::given(body_string_contains("tenant=a"))
        .respond_with(ResponseTemplate::new(200).set_body_string(NONE))
        .mount(&server)
        .await;
    let mut options = Options::new(server.uri());
    options.parameters = Some(vec![("tenant".into(), "a".into())]);
    Client::new(options)
        .unwrap()
        .query("up", at())
        .await
        .unwrap();
    let requests = server.received_requests().await.unwrap();
    assert!(!String::from_utf8_lossy(&requests[0].body).contains("dedup"));
}

#[tokio::test]
async fn a_condition_asks_everything_at_the_same_time() {
    let server = MockServer::start().await;
    for (query, body) in [
        ("query=x+%3E+1&", NONE),
        ("query=x&", ONE),
        ("query=count%28x%29&", ONE),
    ] {
        Mock::given(body_string_contains(query))
            .and(body_string_contains("time=1700000000.250"))
            .respond_with(ResponseTemplate::new(200).set_body_string(body))
            .expect(1)
            .mount(&server)
            .await;
    }
    let verdict = ask(&client(&server), &Condition::guard("x > 1"), at()).await;
    assert_eq!(verdict.truth, Truth::False, "{verdict:?}");
}

#[test]
fn addresses_that_are_not_http_are_refused_without_being_repeated() {
    for address in ["localhost:9090", "ftp://secret@host", "", "http://"] {
        let error = Client::new(Options::new(address)).unwrap_err();
        assert!(!error.to_string().contains("secret"));
    }
}
