//! TLS and basic authentication from a file of the form that the Prometheus exporters share, read again when it changes.

mod client_certificate;
mod error;
mod file;
mod source;
mod tls;
mod users;

pub use error::WebConfigError;
pub(super) use users::Admission;

use file::Headers;
use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS, X_XSS_PROTECTION,
};
use prometheus_client::metrics::gauge::Gauge;
use rustls::crypto::ring;
use source::Source;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tls::TlsSide;
use users::Users;

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_secs(5);

/// What protects a server at a moment.
#[derive(Debug)]
pub(super) struct Protection {
    tls: Option<TlsSide>,
    users: Users,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Protection {
    /// Nothing does.
    pub(super) fn none() -> Self {
        Self {
            tls: None,
            users: Users::none(),
            headers: Vec::new(),
        }
    }

    fn build(source: &Source) -> Result<Self, WebConfigError> {
        let tls = match &source.file.tls_server_config {
            Some(section) if !section.is_empty() => Some(tls::build(section, source)?),
            _ => None,
        };
        let mut key = [0; 32];
        // The system has random bytes, or TLS could not be either.
        ring::default_provider()
            .secure_random
            .fill(&mut key)
            .map_err(|_| WebConfigError::Random)?;
        let mut users = Users::with_key(key);
        for (name, hash) in source.file.basic_auth_users.iter().flatten() {
            users.add(name, &hash.value.0).map_err(|bad| {
                let problem = format!("user `{name}`: {bad}");
                source.value(Some(hash.referenced), "basic_auth_users", problem)
            })?;
        }
        let http = source.file.http_server_config.as_ref();
        let headers = http.and_then(|http| http.headers.as_ref());
        Ok(Self {
            tls,
            users,
            headers: headers.map_or(Ok(Vec::new()), |headers| header_values(headers, source))?,
        })
    }

    /// The TLS side, if only TLS is served.
    pub(super) fn tls(&self) -> Option<&Arc<rustls::ServerConfig>> {
        self.tls.as_ref().map(|tls| &tls.config)
    }

    /// Whether whoever sent these headers from this address may ask.
    pub(super) async fn admits(&self, headers: &hyper::HeaderMap, from: IpAddr) -> Admission {
        self.users.admit(headers, from).await
    }

    /// The headers that every answer has.
    pub(super) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// What another one would no longer ask for.
    fn weaker(&self, than: &Self) -> Option<&'static str> {
        let (new, old) = (self.tls.as_ref(), than.tls.as_ref());
        let lost = |asks: fn(&TlsSide) -> bool| old.is_some_and(asks) && !new.is_some_and(asks);
        if lost(|_| true) {
            Some("TLS")
        } else if self.users.is_empty() && !than.users.is_empty() {
            Some("basic authentication")
        } else if lost(|tls| tls.requires_certificate) || lost(|tls| tls.verifies_certificate) {
            Some("a check of client certificates")
        } else {
            None
        }
    }
}

fn header_values(
    headers: &Headers,
    source: &Source,
) -> Result<Vec<(HeaderName, HeaderValue)>, WebConfigError> {
    const FIELD: &str = "http_server_config.headers";
    let any: &[&str] = &[];
    let mut values = Vec::new();
    for (name, text, allowed) in [
        (
            CONTENT_SECURITY_POLICY,
            &headers.content_security_policy,
            any,
        ),
        (
            X_FRAME_OPTIONS,
            &headers.x_frame_options,
            &["deny", "sameorigin"],
        ),
        (
            X_CONTENT_TYPE_OPTIONS,
            &headers.x_content_type_options,
            &["nosniff"],
        ),
        (X_XSS_PROTECTION, &headers.x_xss_protection, any),
        (
            STRICT_TRANSPORT_SECURITY,
            &headers.strict_transport_security,
            any,
        ),
    ] {
        // Empty is not set.
        let Some(text) = text.as_ref().filter(|text| !text.value.is_empty()) else {
            continue;
        };
        let refuse = |problem: String| source.value(Some(text.referenced), FIELD, problem);
        if !allowed.is_empty() && !allowed.contains(&text.value.as_str()) {
            let known = allowed.join(", ");
            return Err(refuse(format!(
                "{name}: `{}` is not one of {known}",
                text.value
            )));
        }
        let value = HeaderValue::from_str(&text.value)
            .map_err(|_| refuse(format!("{name}: no header can have this value")))?;
        values.push((name, value));
    }
    Ok(values)
}

/// A web configuration in use.
#[derive(Debug)]
pub struct WebConfig {
    path: PathBuf,
    current: RwLock<Arc<Protection>>,
    /// Of what is in use or was refused last.
    seen: [u8; 32],
    success: Gauge,
    period: Duration,
}

impl WebConfig {
    /// Reads the file and those that it names. This blocks.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or asks for what cannot be honoured.
    pub fn open(path: PathBuf) -> Result<Self, WebConfigError> {
        let source = Source::read(&path)?;
        let protection = Protection::build(&source)?;
        let success = Gauge::default();
        success.set(1);
        Ok(Self {
            path,
            current: RwLock::new(Arc::new(protection)),
            seen: source.fingerprint,
            success,
            period: PERIOD,
        })
    }

    /// Looks at the files so often, instead of every 5 seconds.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Whether the files were good when they were last looked at: 1 they were, 0 older ones are still used.
    #[must_use]
    pub fn reload_success(&self) -> Gauge {
        self.success.clone()
    }

    pub(super) fn current(&self) -> Arc<Protection> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// Reads the files again whenever they have changed. Does not end.
    pub(super) async fn follow(&self) {
        let mut seen = Seen {
            fingerprint: Some(self.seen),
            problem: None,
        };
        loop {
            tokio::time::sleep(self.period).await;
            self.look(&mut seen).await;
        }
    }

    async fn look(&self, seen: &mut Seen) {
        let (path, known) = (self.path.clone(), seen.fingerprint);
        let read = tokio::task::spawn_blocking(move || {
            let source = Source::read(&path)?;
            if known == Some(source.fingerprint) {
                return Ok(None);
            }
            Ok(Some((source.fingerprint, Protection::build(&source))))
        });
        let problem = match read.await {
            // Not read, for reasons that are none of the file's.
            Err(_) | Ok(Ok(None)) => return,
            Ok(Ok(Some((fingerprint, built)))) => {
                seen.fingerprint = Some(fingerprint);
                built.and_then(|built| self.replace(built)).err()
            }
            Ok(Err(error)) => {
                // Whatever is there afterwards is news, also what was there before.
                seen.fingerprint = None;
                Some(error)
            }
        };
        self.success.set(i64::from(problem.is_none()));
        let Some(error) = problem else {
            seen.problem = None;
            tracing::info!(path = %self.path.display(), "the web configuration was read again");
            return;
        };
        // Told once, not at every look.
        let problem = format!("{error:?}");
        if seen.problem.as_ref() != Some(&problem) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the web configuration stays as it was");
            seen.problem = Some(problem);
        }
    }

    fn replace(&self, mut new: Protection) -> Result<(), WebConfigError> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(what) = new.weaker(&current) {
            return Err(WebConfigError::Weaker {
                path: self.path.clone(),
                what,
            });
        }
        new.users.remember_from(&current.users);
        *current = Arc::new(new);
        Ok(())
    }
}

/// What was seen at the last look.
#[derive(Debug)]
struct Seen {
    fingerprint: Option<[u8; 32]>,
    problem: Option<String>,
}

#[cfg(test)]
mod tests;
