//! Asking the kubelet. Each asking has a connection of its own: a kubelet that was restarted has another socket under the
//! same path, and an idle connection would hold buffers for nothing.

use super::answer::{AnswerError, PodDevices, decode};
use hyper::body::Buf;
use hyper::client::conn::http2;
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};

const LIST: PathAndQuery = PathAndQuery::from_static("/v1.PodResourcesLister/List");
/// The largest answer that the kubelet's own clients take (`defaultPodResourcesMaxSize`).
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// The kubelet of this node.
#[derive(Debug)]
pub struct PodResources {
    /// Its socket, `/var/lib/kubelet/pod-resources/kubelet.sock` by default.
    pub socket: PathBuf,
    /// How long an asking may take, with everything that belongs to it.
    pub deadline: Duration,
}

/// Why the kubelet gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no socket.
    #[error("there is no socket")]
    NoSocket,
    /// The socket cannot be connected to.
    #[error("cannot connect to the socket: {0}")]
    Connect(#[source] io::Error),
    /// What listens there does not speak HTTP/2.
    #[error("no HTTP/2 connection: {0}")]
    Handshake(#[source] hyper::Error),
    /// The deadline passed.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The call failed.
    #[error("the call failed with {:?}: {}", .0.code(), .0.message())]
    Call(Box<Status>),
    /// The answer is of no use.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl AskError {
    /// A short name, for a label: one of a closed list.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSocket => "no_socket",
            Self::Connect(_) | Self::Handshake(_) => "connection",
            Self::Deadline(_) => "deadline_exceeded",
            Self::Call(status) => call_code(status.code()),
            Self::Answer(_) => "bad_answer",
        }
    }
}

/// The names that gRPC has for its status codes.
fn call_code(code: Code) -> &'static str {
    match code {
        Code::Ok | Code::Unknown => "unknown",
        Code::Cancelled => "cancelled",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

impl PodResources {
    /// The pods that may hold GPUs now.
    ///
    /// # Errors
    ///
    /// See [`AskError`].
    pub async fn list(&self) -> Result<Vec<PodDevices>, AskError> {
        match tokio::time::timeout(self.deadline, self.ask()).await {
            Ok(answer) => answer,
            Err(_) => Err(AskError::Deadline(self.deadline)),
        }
    }

    async fn ask(&self) -> Result<Vec<PodDevices>, AskError> {
        let stream =
            UnixStream::connect(&self.socket)
                .await
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => AskError::NoSocket,
                    _ => AskError::Connect(error),
                })?;
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(AskError::Handshake)?;
        // What goes wrong with it is seen in the call.
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let service = tower::service_fn(move |request: Request<Body>| sender.send_request(request));
        let mut grpc = Grpc::with_origin(service, Uri::from_static("http://localhost"))
            .max_decoding_message_size(LARGEST_ANSWER);
        let mut request = tonic::Request::new(());
        request.set_timeout(self.deadline);
        let answer = grpc.unary(request, LIST, ListCodec).await;
        Ok(answer
            .map_err(|status| AskError::Call(Box::new(status)))?
            .into_inner()?)
    }
}

/// An empty request, and an answer that is taken apart as [`decode`] does it.
struct ListCodec;

impl Codec for ListCodec {
    type Encode = ();
    type Decode = Result<Vec<PodDevices>, AnswerError>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for ListCodec {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Decoder for ListCodec {
    type Item = Result<Vec<PodDevices>, AnswerError>;
    type Error = Status;

    fn decode(&mut self, answer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        // All of it is taken, however decoding ends: what is left would be read as the next message.
        Ok(Some(decode(answer.copy_to_bytes(answer.remaining()))))
    }
}
