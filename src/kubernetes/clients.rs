//! Clients and the one wrapper around every call that is not a watch.

use std::future::Future;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;
use tower::{BoxError, Layer, Service};
use tower_http::timeout::ResponseBodyTimeoutLayer;

/// How long any call that is not a watch may take.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request waits for the first byte of its answer. Watches and their first lists know no other bound: without
/// it a request that is lost on the way leaves a cache as it was for ever, for kube's own idle timeout begins only with
/// the stream, and the client sets no read timeout.
pub const ANSWER_BEGINS_WITHIN: Duration = Duration::from_secs(30);

/// How long an answer may fall silent. The API server sends a bookmark on a quiet watch each minute; a connection that is
/// silent for longer is dead, whatever the operating system believes.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(90);

/// Two clients on the same configuration.
#[derive(Clone)]
pub struct Clients {
    /// For watches and lists; retries within the client.
    pub watch: Client,
    /// For everything that acts. It never retries by itself: a 429 of the Eviction API is an answer, not a hiccup, and
    /// the default would hide it for minutes.
    pub act: Client,
}

/// The clients could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a service account nor a kubeconfig.
    #[error("no way to the Kubernetes API: run inside a cluster, or set KUBECONFIG")]
    Infer(#[source] kube::config::InferConfigError),
    /// The service account of the pod is incomplete.
    #[error("the pod's service account cannot be used")]
    InCluster(#[source] kube::config::InClusterError),
    /// The configuration names something that cannot be used, for example a certificate that cannot be read.
    #[error("the Kubernetes client cannot be built from its configuration")]
    Build(#[source] kube::Error),
}

impl Clients {
    /// Reads the configuration: the pod's service account inside a cluster, else the kubeconfig.
    pub async fn connect() -> Result<Self, ConnectError> {
        let in_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let config = if in_cluster && std::env::var_os("KUBECONFIG").is_none() {
            Config::incluster().map_err(ConnectError::InCluster)?
        } else {
            Config::infer().await.map_err(ConnectError::Infer)?
        };
        let mut acting = config.clone();
        acting.default_retry = false;
        let client = |config: Config| {
            let builder = ClientBuilder::try_from(config).map_err(ConnectError::Build)?;
            let builder = builder.with_layer(&ResponseBodyTimeoutLayer::new(LONGEST_SILENCE));
            Ok(builder
                .with_layer(&TimeoutLayer::new(ANSWER_BEGINS_WITHIN))
                .build())
        };
        Ok(Self {
            watch: client(config)?,
            act: client(acting)?,
        })
    }

    /// Clients over a way to the API server of one's own, which are as impatient as the others.
    pub fn over<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = ResponseBodyTimeoutLayer::new(LONGEST_SILENCE).layer(service);
        let service = TimeoutLayer::new(ANSWER_BEGINS_WITHIN).layer(service);
        let client = Client::new(service, "default");
        Self {
            watch: client.clone(),
            act: client,
        }
    }
}

/// A call to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No answer in time. The effect may have happened.
    #[error("{what}: no answer within {after:?}")]
    TimedOut {
        /// What was attempted.
        what: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// An answer that says no, or none at all.
    #[error("{what} failed")]
    Failed {
        /// What was attempted.
        what: &'static str,
        /// The client's error.
        #[source]
        source: Box<kube::Error>,
    },
}

impl ApiError {
    /// The status code of the API server's answer, where there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Failed { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::TimedOut { .. } => None,
        }
    }

    /// The object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Somebody else changed the object first, or it exists already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// Makes a call with a deadline.
pub async fn call<T>(
    what: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(CALL_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(ApiError::Failed {
            what,
            source: Box::new(source),
        }),
        Err(_) => Err(ApiError::TimedOut {
            what,
            after: CALL_TIMEOUT,
        }),
    }
}
