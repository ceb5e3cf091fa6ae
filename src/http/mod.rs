//! The endpoints: a small HTTP/1 server, a table of routes, and the formats of `/metrics`. Used by the exporter and the
//! controller.

mod connections;
mod exposition;
mod router;
mod server;

pub use hyper::StatusCode;
pub use hyper::http::request::Parts;

pub use exposition::{Format, metrics};
pub use router::{Body, Handler, Response, Router, text};
pub use server::{BindError, Limits, Server};
