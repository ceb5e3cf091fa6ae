//! The client: one request per question, no retries. A question that fails is Unknown until the next tick.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};

use super::clocks;
use super::error::QueryError;
use super::response::{self, Series};
use crate::clock::Clock;
use crate::rules::answer::Answer;

/// Thanos and VictoriaMetrics then fail instead of leaving out data; Prometheus ignores all three.
const COMPLETE_ANSWERS: [(&str, &str); 3] = [
    ("partial_response", "false"),
    ("dedup", "true"),
    ("deny_partial_response", "1"),
];

/// Where Prometheus is and how it is asked.
#[derive(Clone, Debug)]
pub struct Options {
    /// The base address; `/api/v1/query` is added to its path. User and password in it are sent as basic authentication
    /// and appear nowhere else.
    pub url: String,
    /// The time allowed for one question, the connection included.
    pub timeout: Duration,
    /// The largest answer that is read, in bytes.
    pub most_bytes: usize,
    /// A file with a bearer token, read at every request, so that a rotated token is picked up.
    pub bearer_token_file: Option<PathBuf>,
    /// Form parameters added to every request. `None` asks for complete answers in the dialects of Thanos and VictoriaMetrics.
    pub parameters: Option<Vec<(String, String)>>,
}

impl Options {
    /// The defaults for a server: 10 s, 32 MiB, no credentials.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            timeout: Duration::from_secs(10),
            most_bytes: 32 << 20,
            bearer_token_file: None,
            parameters: None,
        }
    }
}

/// Why a client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not an HTTP address. It is not repeated, because it may hold a password.
    #[error("the address of Prometheus is not an http:// or https:// address")]
    Address,
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
}

/// Another way to a server than a connection, for a server that lives in the same process.
pub trait Exchange: Send + Sync {
    /// Answers one request. An error says, in a few words, why there is no answer.
    fn exchange(
        &self,
        request: reqwest::Request,
    ) -> BoxFuture<'_, Result<hyper::Response<Vec<u8>>, String>>;
}

/// A client of one Prometheus, or of anything that speaks its query API.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    exchange: Option<Arc<dyn Exchange>>,
    clock: Option<Clock>,
    base: Url,
    basic: Option<(String, Option<String>)>,
    options: Options,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the address is not an HTTP address, or the system's TLS roots cannot be used.
    pub fn new(mut options: Options) -> Result<Self, ClientError> {
        // An error only says that the process has a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut base = Url::parse(&options.url).map_err(|_| ClientError::Address)?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(ClientError::Address);
        }
        let basic = (!base.username().is_empty() || base.password().is_some()).then(|| {
            (
                percent_decoded(base.username()),
                base.password().map(percent_decoded),
            )
        });
        // Both setters fail only for addresses without a host, which were refused above.
        let _ = base.set_username("");
        let _ = base.set_password(None);
        base.set_query(None);
        base.set_fragment(None);
        options.url = base.to_string();
        let http = reqwest::Client::builder()
            .user_agent(concat!("gpu-remediator/", env!("CARGO_PKG_VERSION")))
            // A redirect would turn the POST into something else, or carry the credentials to another host.
            .redirect(reqwest::redirect::Policy::none())
            .timeout(options.timeout)
            .build()
            .map_err(ClientError::Setup)?;
        Ok(Self {
            http,
            exchange: None,
            clock: None,
            base,
            basic,
            options,
        })
    }

    /// The same client, with every request handed to `exchange` instead of being sent.
    #[must_use]
    pub fn with_exchange(mut self, exchange: Arc<dyn Exchange>) -> Self {
        self.exchange = Some(exchange);
        self
    }

    /// The same client, which takes no answer of a server that shows another time than this clock: what it would say is not
    /// about now.
    #[must_use]
    pub fn comparing_clocks(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The address without credentials.
    pub fn address(&self) -> &str {
        self.base.as_str()
    }

    /// Evaluates an expression at one time.
    ///
    /// # Errors
    ///
    /// One variant for each way in which there is no complete answer.
    pub async fn query(&self, expr: &str, at: Timestamp) -> Result<Answer, QueryError> {
        let form = [
            ("query", expr.to_owned()),
            ("time", seconds(at)),
            ("timeout", format!("{}ms", self.options.timeout.as_millis())),
        ];
        response::instant(&self.ask("api/v1/query", &form).await?)
    }

    /// Evaluates an expression at every step between two times.
    ///
    /// # Errors
    ///
    /// One variant for each way in which there is no complete answer.
    pub async fn query_range(
        &self,
        expr: &str,
        start: Timestamp,
        end: Timestamp,
        step: Duration,
    ) -> Result<Vec<Series>, QueryError> {
        let form = [
            ("query", expr.to_owned()),
            ("start", seconds(start)),
            ("end", seconds(end)),
            ("step", format!("{}", step.as_secs_f64())),
            ("timeout", format!("{}ms", self.options.timeout.as_millis())),
        ];
        response::range(&self.ask("api/v1/query_range", &form).await?)
    }

    /// Whether the server understands an expression, without evaluating it where the server can do that.
    ///
    /// # Errors
    ///
    /// [`QueryError::BadData`] when it does not, and the other variants when it could not be asked.
    pub async fn parse(&self, expr: &str, at: Timestamp) -> Result<(), QueryError> {
        let form = [("query", expr.to_owned())];
        match self.ask("api/v1/parse_query", &form).await {
            Ok(_) => Ok(()),
            // Older and other servers have no such path: a query shows the same.
            Err(QueryError::BadAnswer(_)) => match self.query(expr, at).await {
                Ok(_) | Err(QueryError::Execution(_) | QueryError::Partial(_)) => Ok(()),
                Err(QueryError::WrongResultType(kind)) => Err(QueryError::BadData(format!(
                    "the result is a {kind}; a rule needs a vector or scalar"
                ))),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn ask(&self, path: &str, form: &[(&str, String)]) -> Result<Vec<u8>, QueryError> {
        let mut parameters: Vec<(&str, &str)> = form
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        match &self.options.parameters {
            None => parameters.extend(COMPLETE_ANSWERS),
            Some(extra) => parameters.extend(
                extra
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str())),
            ),
        }
        // One deadline for both tries, so that a question never takes longer than it is allowed to.
        let question = async {
            let first = self.send(Method::POST, path, &parameters).await?;
            if matches!(
                first.status(),
                StatusCode::FORBIDDEN
                    | StatusCode::METHOD_NOT_ALLOWED
                    | StatusCode::NOT_IMPLEMENTED
            ) {
                // Some gateways allow only GET; the reference client falls back in the same three cases.
                let second = self.send(Method::GET, path, &parameters).await?;
                return self.read(second).await;
            }
            self.read(first).await
        };
        tokio::time::timeout(self.options.timeout, question)
            .await
            .unwrap_or(Err(QueryError::TimedOut(self.options.timeout)))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Response, QueryError> {
        let mut address = self.base.clone();
        address.set_path(&format!(
            "{}/{path}",
            self.base.path().trim_end_matches('/')
        ));
        let request = if method == Method::GET {
            self.http.get(address).query(parameters)
        } else {
            self.http.post(address).form(parameters)
        };
        let request = match (&self.options.bearer_token_file, &self.basic) {
            (Some(path), _) => {
                let token = tokio::fs::read_to_string(path)
                    .await
                    .map_err(QueryError::Credentials)?;
                if token.trim().is_empty() {
                    // Asking without credentials would only hide what is wrong.
                    return Err(QueryError::Credentials(std::io::Error::new(
                        std::io::ErrorKind::InvalidData,
                        "the file is empty",
                    )));
                }
                request.bearer_auth(token.trim())
            }
            (None, Some((user, password))) => request.basic_auth(user, password.as_ref()),
            (None, None) => request,
        };
        let sent = self.clock.as_ref().map(Clock::now);
        let response = self.exchange(request).await?;
        if let (Some(clock), Some(sent)) = (&self.clock, sent) {
            clocks::compare(response.headers(), sent, clock.now())?;
        }
        Ok(response)
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<Response, QueryError> {
        let Some(exchange) = &self.exchange else {
            return request.send().await.map_err(|error| self.sending(&error));
        };
        let request = request.build().map_err(|error| self.sending(&error))?;
        let answer = exchange.exchange(request).await;
        answer
            .map(Response::from)
            .map_err(|message| QueryError::Unreachable {
                address: self.base.to_string(),
                message,
            })
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, QueryError> {
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.sending(&error))?
        {
            if body.len() + chunk.len() > self.options.most_bytes {
                return Err(QueryError::TooLarge(self.options.most_bytes));
            }
            body.extend_from_slice(&chunk);
        }
        if status == StatusCode::OK {
            Ok(body)
        } else {
            Err(response::failure(status.as_u16(), &body))
        }
    }

    fn sending(&self, error: &reqwest::Error) -> QueryError {
        if error.is_timeout() {
            return QueryError::TimedOut(self.options.timeout);
        }
        // The outer messages repeat the address; the innermost one says what happened.
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let message = if std::ptr::eq(cause, error as &dyn std::error::Error) {
            "the request could not be sent".to_owned()
        } else {
            cause.to_string()
        };
        QueryError::Unreachable {
            address: self.base.to_string(),
            message,
        }
    }
}

/// Seconds since 1970 with milliseconds, which is the precision of Prometheus.
fn seconds(at: Timestamp) -> String {
    let milliseconds = at.as_millisecond();
    format!(
        "{}.{:03}",
        milliseconds.div_euclid(1000),
        milliseconds.rem_euclid(1000)
    )
}

/// User-info in an address is percent-encoded; a header is not.
fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
