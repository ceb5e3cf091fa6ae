//! The events of a watch on a bad line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::pending;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tower::BoxError;

use super::calls::LOSS_IS_NOTICED_WITHIN;
use super::gate::Gate;
use super::injector::Injector;
use super::kinds::FrameFault;
use crate::sim::api_server::{AnswerBody, Frames, Refusal};

/// How long an event waits for another to change places with.
const WAITS_FOR_NEIGHBOUR: Duration = Duration::from_secs(1);

struct Line {
    inner: Frames,
    actor: Arc<str>,
    gate: Gate,
    injector: Injector,
    /// What is to be answered next.
    ready: VecDeque<Bytes>,
    /// When the client is told that it has missed something.
    told_at: Option<Instant>,
    over: bool,
}

enum Next {
    Frame(Result<Bytes, BoxError>),
    Ended,
    Missed,
    Apart,
}

pub(super) fn faulty(
    inner: Frames,
    actor: &Arc<str>,
    gate: Gate,
    injector: Injector,
) -> AnswerBody {
    let line = Line {
        inner,
        actor: actor.clone(),
        gate,
        injector,
        ready: VecDeque::new(),
        told_at: None,
        over: false,
    };
    AnswerBody::frames(futures::stream::unfold(line, |mut line| async move {
        let next = line.next().await?;
        line.over |= next.is_err();
        Some((next, line))
    }))
}

impl Line {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if self.gate.is_cut() {
                return pending().await;
            }
            if let Some(frame) = self.ready.pop_front() {
                return Some(Ok(frame));
            }
            if self.over {
                return None;
            }
            match self.wait(None).await {
                Next::Frame(Ok(frame)) => {
                    if let Err(cut) = self.hit(frame).await {
                        return Some(Err(cut));
                    }
                }
                Next::Frame(Err(error)) => return Some(Err(error)),
                Next::Ended => return None,
                Next::Missed => {
                    self.over = true;
                    return Some(Ok(expired()));
                }
                // Nothing comes through this connection any more, and nobody tells the client so.
                Next::Apart => return pending().await,
            }
        }
    }

    async fn wait(&mut self, until: Option<Instant>) -> Next {
        let told_at = self.told_at;
        let missed = async {
            match told_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        let late = async {
            match until {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.gate.until_cut() => pending().await,
            () = self.gate.until_partitioned() => Next::Apart,
            () = missed => Next::Missed,
            frame = self.inner.next() => frame.map_or(Next::Ended, Next::Frame),
            () = late => Next::Ended,
        }
    }

    /// Lets a fault hit a frame, and puts into `ready` what comes of it. An error cuts the connection.
    async fn hit(&mut self, frame: Bytes) -> Result<(), BoxError> {
        if object(&frame).is_none() {
            self.ready.push_back(frame);
            return Ok(());
        }
        match self.injector.for_frame(&self.actor) {
            None => self.ready.push_back(frame),
            Some(FrameFault::Drop) => {
                let most = LOSS_IS_NOTICED_WITHIN
                    .as_millis()
                    .try_into()
                    .unwrap_or(60_000);
                let within = Duration::from_millis(self.injector.choose(1..most));
                let at = Instant::now() + within;
                self.told_at = Some(self.told_at.map_or(at, |earlier| earlier.min(at)));
            }
            Some(FrameFault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                self.ready.push_back(frame);
            }
            Some(FrameFault::Duplicate) => self.ready.extend([frame.clone(), frame]),
            Some(FrameFault::Cut) => return Err("connection reset by peer".into()),
            Some(FrameFault::Reorder) => {
                let until = Instant::now() + WAITS_FOR_NEIGHBOUR;
                match self.wait(Some(until)).await {
                    Next::Frame(Ok(other)) => {
                        let (this, that) = (object(&frame), object(&other));
                        if that.is_some() && this != that {
                            self.ready.extend([other, frame]);
                        } else {
                            self.ready.extend([frame, other]);
                        }
                    }
                    Next::Frame(Err(error)) => {
                        self.ready.push_back(frame);
                        return Err(error);
                    }
                    Next::Missed => {
                        self.ready.extend([frame, expired()]);
                        self.over = true;
                    }
                    Next::Apart => return pending().await,
                    Next::Ended => self.ready.push_back(frame),
                }
            }
        }
        Ok(())
    }
}

/// Which object an event is about; `None` for bookmarks and errors, which nothing hits.
fn object(frame: &Bytes) -> Option<(String, String)> {
    let event: Value = serde_json::from_slice(frame).ok()?;
    if !matches!(event["type"].as_str()?, "ADDED" | "MODIFIED" | "DELETED") {
        return None;
    }
    let metadata = &event["object"]["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    Some((text("namespace"), text("name")))
}

fn expired() -> Bytes {
    let status = Refusal::expired(0, 0).status();
    Bytes::from(format!(
        "{}\n",
        serde_json::json!({"type": "ERROR", "object": status})
    ))
}
