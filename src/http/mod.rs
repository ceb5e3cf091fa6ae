//! The endpoints: a small HTTP/1 server with TLS and basic authentication, a table of routes, and the formats of
//! `/metrics`. Used by the exporter and the controller.

mod compressed;
mod connections;
mod exchange;
mod exposition;
mod landing;
mod negotiation;
mod router;
mod server;
mod web_config;
mod write_deadline;

#[cfg(test)]
mod pki_tests;
#[cfg(test)]
mod protection_tests;

pub use hyper::StatusCode;
pub use hyper::http::request::Parts;

pub use exposition::Exposition;
pub use landing::landing;
pub use negotiation::Format;
pub use router::{Body, Handler, Response, Router, text};
pub use server::{BindError, Limits, Server};
pub use web_config::{WebConfig, WebConfigError};
