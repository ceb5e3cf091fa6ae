//! A kubelet that serves the PodResources API on a unix socket, well or badly. The framing of gRPC is written here by hand,
//! so that it need not be right, and the messages are those of a kubelet of today, with all that the exporter does not read.

use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, TE};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

/// How it answers.
#[derive(Clone)]
pub(crate) enum Answer {
    /// With these pods.
    Pods(Vec<Pod>),
    /// With these bytes as the message.
    Bytes(Vec<u8>),
    /// With these bytes for the frame of the message and all.
    Framed(Vec<u8>),
    /// With messages without end.
    Endless,
    /// With this status of gRPC and no message.
    Status(u8),
    /// With no word of gRPC.
    NoStatus,
    /// Never.
    Silence,
    /// With what is no HTTP/2.
    NoHttp,
}

pub(crate) struct Kubelet {
    socket: PathBuf,
    answer: Arc<Mutex<Answer>>,
    serving: JoinHandle<()>,
}

impl Kubelet {
    /// Listens where a kubelet before may have left its socket.
    pub(crate) fn listen(socket: &Path, answer: Answer) -> Self {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let answer = Arc::new(Mutex::new(answer));
        Self {
            socket: socket.to_owned(),
            serving: tokio::spawn(serve(listener, Arc::clone(&answer))),
            answer,
        }
    }

    pub(crate) fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Ends as a kubelet does that is killed: the socket stays, and nobody listens.
    pub(crate) fn kill(self) {
        self.serving.abort();
    }

    /// Ends, and takes its socket along.
    pub(crate) fn stop(self) {
        std::fs::remove_file(&self.socket).unwrap();
        self.serving.abort();
    }
}

async fn serve(listener: UnixListener, answer: Arc<Mutex<Answer>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = answer.lock().unwrap().clone();
        connections.spawn(connection(stream, answer));
    }
}

async fn connection(mut stream: UnixStream, answer: Answer) {
    if let Answer::NoHttp = answer {
        let _ = stream.write_all(b"220 ready when you are\r\n").await;
        return;
    }
    let service = service_fn(|request| respond(request, answer.clone()));
    let _ = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

async fn respond(request: Request<Incoming>, answer: Answer) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let sent = body.collect().await.unwrap().to_bytes();
    let header = |name| parts.headers.get(name).map(|value| value.as_bytes());
    let asked_well = header(CONTENT_TYPE) == Some(b"application/grpc")
        && header(TE) == Some(b"trailers")
        && sent == [0_u8; 5][..];
    if !asked_well || parts.uri.path() != "/v1.PodResourcesLister/List" {
        return Ok(response(vec![], Some(12)));
    }
    Ok(match answer {
        Answer::Pods(pods) => {
            let message = ListPodResourcesResponse { pods }.encode_to_vec();
            response(framed(&message), Some(0))
        }
        Answer::Bytes(message) => response(framed(&message), Some(0)),
        Answer::Framed(bytes) => response(bytes, Some(0)),
        Answer::Endless => {
            let again = || Some((Ok(Frame::data(framed(b"").into())), ()));
            let body = StreamBody::new(stream::unfold((), move |()| async move {
                tokio::task::yield_now().await;
                again()
            }));
            grpc(BodyExt::boxed_unsync(body))
        }
        Answer::Status(status) => response(vec![], Some(status)),
        Answer::NoStatus => response(vec![], None),
        Answer::Silence | Answer::NoHttp => std::future::pending().await,
    })
}

/// A message as gRPC writes it: not compressed, and its length.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], message].concat()
}

fn response(bytes: Vec<u8>, status: Option<u8>) -> Response<Body> {
    let mut frames = vec![Ok(Frame::data(bytes.into()))];
    if let Some(status) = status {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", u64::from(status).into());
        frames.push(Ok(Frame::trailers(trailers)));
    }
    grpc(BodyExt::boxed_unsync(StreamBody::new(stream::iter(frames))))
}

fn grpc(body: Body) -> Response<Body> {
    let response = Response::builder().header(CONTENT_TYPE, "application/grpc");
    response.body(body).unwrap()
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListPodResourcesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) pods: Vec<Pod>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Pod {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) namespace: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) containers: Vec<Container>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) devices: Vec<ContainerDevices>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) cpu_ids: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) memory: Vec<ContainerMemory>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) dynamic_resources: Vec<DynamicResource>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerDevices {
    #[prost(string, tag = "1")]
    pub(crate) resource_name: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) device_ids: Vec<String>,
    #[prost(message, optional, tag = "3")]
    pub(crate) topology: Option<TopologyInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerMemory {
    #[prost(string, tag = "1")]
    pub(crate) memory_type: String,
    #[prost(uint64, tag = "2")]
    pub(crate) size: u64,
    #[prost(message, optional, tag = "3")]
    pub(crate) topology: Option<TopologyInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TopologyInfo {
    #[prost(message, repeated, tag = "1")]
    pub(crate) nodes: Vec<NumaNode>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct NumaNode {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DynamicResource {
    #[prost(string, tag = "2")]
    pub(crate) claim_name: String,
    #[prost(string, tag = "3")]
    pub(crate) claim_namespace: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) claim_resources: Vec<ClaimResource>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ClaimResource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) cdi_devices: Vec<CdiDevice>,
    #[prost(string, tag = "2")]
    pub(crate) driver_name: String,
    #[prost(string, tag = "3")]
    pub(crate) pool_name: String,
    #[prost(string, tag = "4")]
    pub(crate) device_name: String,
    #[prost(string, optional, tag = "5")]
    pub(crate) share_id: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CdiDevice {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// A pod in the namespace `inference`, with one container `server`.
pub(crate) fn pod(name: &str, container: Container) -> Pod {
    Pod {
        name: name.to_owned(),
        namespace: "inference".to_owned(),
        containers: vec![Container {
            name: "server".to_owned(),
            cpu_ids: vec![0, 1, 300],
            memory: vec![ContainerMemory {
                memory_type: "hugepages-2Mi".to_owned(),
                size: 1 << 40,
                topology: topology(),
            }],
            ..container
        }],
    }
}

fn topology() -> Option<TopologyInfo> {
    Some(TopologyInfo {
        nodes: vec![NumaNode { id: 1 }],
    })
}

/// What a device plugin gave.
pub(crate) fn plugin(resource: &str, ids: &[&str]) -> Container {
    Container {
        devices: vec![ContainerDevices {
            resource_name: resource.to_owned(),
            device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            topology: topology(),
        }],
        ..Container::default()
    }
}

/// What NVIDIA's DRA driver gave.
pub(crate) fn claim(devices: &[&str]) -> Container {
    let cdi = |device: &&str| CdiDevice {
        name: format!("k8s.gpu.nvidia.com/device={device}"),
    };
    let resources = devices
        .iter()
        .enumerate()
        .map(|(at, device)| ClaimResource {
            // The kubelet names those of the devices before as well.
            cdi_devices: devices[..=at].iter().map(cdi).collect(),
            driver_name: "gpu.nvidia.com".to_owned(),
            pool_name: "node-1".to_owned(),
            device_name: (*device).to_owned(),
            share_id: Some("8d5a3c1e".to_owned()),
        });
    Container {
        dynamic_resources: vec![DynamicResource {
            claim_name: "llm-gpu-x7k2p".to_owned(),
            claim_namespace: "inference".to_owned(),
            claim_resources: resources.collect(),
        }],
        ..Container::default()
    }
}
