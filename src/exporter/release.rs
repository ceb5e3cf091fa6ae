//! Letting the driver go on request, so that a GPU can be reset: a reset is refused while anybody holds the device open.

use super::sampler::{Shared, lock};
use crate::http::{Parts, Response, Router, StatusCode, text};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the driver is let go where the request does not say.
pub(super) const DEFAULT: Duration = Duration::from_secs(600);
/// A node whose GPUs nobody watches for longer is one that was forgotten.
const LONGEST: Duration = Duration::from_secs(6 * 3600);
/// How long a request waits for the driver to be let go. Answers may take ten seconds.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often it is looked whether that has happened.
const LOOK: Duration = Duration::from_millis(10);

/// Whether the driver is let go.
#[derive(Debug, Default)]
pub(super) struct Release {
    wanted: Mutex<Option<Wanted>>,
}

#[derive(Debug, Clone, Copy)]
struct Wanted {
    until: Instant,
    /// Nobody holds the driver any more.
    done: bool,
}

impl Release {
    /// How long the driver is still to be left alone at a moment; `None`: it is to be asked.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let mut wanted = lock(&self.wanted);
        let left = wanted
            .map(|wanted| wanted.until.saturating_duration_since(now))
            .filter(|left| !left.is_zero());
        if left.is_none() {
            *wanted = None;
        }
        left
    }

    /// Nobody holds the driver any more.
    pub(super) fn done(&self) {
        if let Some(wanted) = lock(&self.wanted).as_mut() {
            wanted.done = true;
        }
    }

    /// Whether nobody holds the driver any more, and nobody is to take it.
    pub(super) fn is_done(&self) -> bool {
        lock(&self.wanted).is_some_and(|wanted| wanted.done)
    }

    /// Lets the driver go until then, or takes it again. What is let go already stays so.
    fn want(&self, until: Option<Instant>) {
        let mut wanted = lock(&self.wanted);
        let done = wanted.is_some_and(|wanted| wanted.done);
        *wanted = until.map(|until| Wanted { until, done });
    }
}

/// Lets the driver go for a time, or takes it again at once where that is nothing.
pub(super) fn release(shared: &Shared, time: Duration) {
    let until = (!time.is_zero()).then(|| Instant::now() + time);
    match until {
        Some(_) => tracing::info!(seconds = time.as_secs(), "letting the driver go on request"),
        None => tracing::info!("taking the driver again on request"),
    }
    shared.release.want(until);
    shared.call();
}

/// The routes of the listener for requests of this machine alone.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    let asked = Arc::clone(&shared);
    Router::new()
        .post("/release", move |parts: Parts| {
            let shared = Arc::clone(&shared);
            async move { answer(&shared, parts.uri.query().unwrap_or_default()).await }
        })
        .get("/release", move |_| {
            let left = asked.release.left(Instant::now());
            let said = state(left, asked.release.is_done());
            async move { text(StatusCode::OK, said) }
        })
}

fn state(left: Option<Duration>, done: bool) -> String {
    match left {
        Some(left) if done => format!("released for another {} s\n", left.as_secs()),
        Some(_) => "to be released; a driver call has not ended yet\n".to_owned(),
        None => "not released\n".to_owned(),
    }
}

async fn answer(shared: &Shared, query: &str) -> Response {
    let time = match requested(query) {
        Ok(time) => time,
        Err(message) => return text(StatusCode::BAD_REQUEST, message),
    };
    release(shared, time);
    if time.is_zero() {
        return text(StatusCode::OK, "taken again\n");
    }
    let since = Instant::now();
    while !shared.release.is_done() {
        if since.elapsed() > PATIENCE {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "a driver call has not ended yet, so the driver is still held; it is let go when that call ends. Ask again, or \
                 restart the node\n",
            );
        }
        tokio::time::sleep(LOOK).await;
    }
    text(
        StatusCode::OK,
        format!("released for {} s\n", time.as_secs()),
    )
}

/// The time that a request asks for.
fn requested(query: &str) -> Result<Duration, String> {
    let mut time = DEFAULT;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "for" {
            return Err(format!(
                "there is no parameter {name:?}; write /release?for=10m, or for=0s to take the driver again\n"
            ));
        }
        let parsed: Option<jiff::SignedDuration> = value.parse().ok();
        time = parsed
            .and_then(|time| Duration::try_from(time).ok())
            .filter(|time| *time <= LONGEST)
            .ok_or_else(|| {
                format!("for={value} is no time from 0s to 6h, such as 10m or 1h30m\n")
            })?;
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_that_can_be_asked_for() {
        assert_eq!(requested(""), Ok(DEFAULT));
        assert_eq!(requested("for=10m"), Ok(Duration::from_secs(600)));
        assert_eq!(requested("for=0s"), Ok(Duration::ZERO));
        assert_eq!(requested("for=90s"), Ok(Duration::from_secs(90)));
        for query in ["for=", "for=soon", "for=-1s", "for=7h", "for", "since=1m"] {
            assert!(requested(query).is_err(), "{query}");
        }
        assert!(requested("for=7h").unwrap_err().contains("from 0s to 6h"));
    }

    #[test]
    fn it_ends_by_itself() {
        let (release, now) = (Release::default(), Instant::now());
        assert_eq!(release.left(now), None);
        let ten = Duration::from_secs(10);
        release.want(Some(now + ten));
        assert_eq!(release.left(now), Some(ten));
        assert!(!release.is_done());
        release.done();
        // Asked for once more while it is let go: it stays so.
        release.want(Some(now + 2 * ten));
        assert!(release.is_done());
        assert_eq!(release.left(now + 2 * ten), None);
        assert!(!release.is_done());
    }
}
