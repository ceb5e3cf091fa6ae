//! Clients and the one wrapper around every call that is not a watch.

use std::future::Future;
use std::time::Duration;

use kube::{Client, Config};

/// How long any call that is not a watch may take.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

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
        let watch = Client::try_from(config.clone()).map_err(ConnectError::Build)?;
        let mut acting = config;
        acting.default_retry = false;
        let act = Client::try_from(acting).map_err(ConnectError::Build)?;
        Ok(Self { watch, act })
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
