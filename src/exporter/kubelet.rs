//! Asking the kubelet, in the background, who holds the GPUs, and what it last said.

use super::sampler::lock;
use super::state::State;
use crate::kubernetes::pod_resources::{AskError, PodDevices, PodResources};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// What the kubelet last said.
#[derive(Debug, Clone)]
pub(super) struct Kubelet {
    /// An answer that is older says nothing any more: a pod in it may have ended and its GPU be another's.
    fresh: Duration,
    answer: Option<(Instant, Vec<PodDevices>)>,
    /// Whether the last asking succeeded, and how long it took.
    asked: Option<(bool, Duration)>,
    /// When an asking last succeeded.
    pub(super) last_success: Option<Timestamp>,
    /// Failed askings by their code.
    pub(super) failures: BTreeMap<&'static str, u64>,
}

impl Kubelet {
    pub(super) fn new(interval: Duration, deadline: Duration) -> Self {
        Self {
            fresh: interval * 2 + deadline,
            answer: None,
            asked: None,
            last_success: None,
            failures: BTreeMap::new(),
        }
    }

    /// An asking ended.
    pub(super) fn answered(
        &mut self,
        answer: Result<Vec<PodDevices>, &'static str>,
        took: Duration,
        now: Instant,
        at: Timestamp,
    ) {
        self.asked = Some((answer.is_ok(), took));
        match answer {
            Ok(pods) => {
                self.answer = Some((now, pods));
                self.last_success = Some(at);
            }
            Err(code) => *self.failures.entry(code).or_default() += 1,
        }
    }

    /// The pods that hold GPUs, as far as that is still true.
    pub(super) fn pods(&self, now: Instant) -> &[PodDevices] {
        match &self.answer {
            Some((at, pods)) if now.duration_since(*at) <= self.fresh => pods,
            _ => &[],
        }
    }

    /// Whether the last asking succeeded and is not too old; `None` before the first has ended.
    pub(super) fn success(&self, now: Instant) -> Option<bool> {
        let (succeeded, _) = self.asked?;
        let fresh = |(at, _): &(Instant, _)| now.duration_since(*at) <= self.fresh;
        Some(succeeded && self.answer.as_ref().is_some_and(fresh))
    }

    /// How long the last asking took.
    pub(super) fn took(&self) -> Option<Duration> {
        self.asked.map(|(_, took)| took)
    }
}

/// Asks at an interval until it is told to stop. It never ends for another reason, and each asking has a deadline.
pub(super) async fn ask(
    kubelet: PodResources,
    interval: Duration,
    state: Arc<Mutex<State>>,
    stop: CancellationToken,
) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = None;
    let asking = async {
        loop {
            ticks.tick().await;
            let since = Instant::now();
            let answer = kubelet.list().await;
            let now = Instant::now();
            if is_news(&mut said, answer.as_ref().err().map(AskError::code)) {
                say(&kubelet, &answer);
            }
            if let Some(kubelet) = &mut lock(&state).kubelet {
                let answer = answer.map_err(|error| error.code());
                kubelet.answered(answer, now.duration_since(since), now, Timestamp::now());
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = asking => {}
    }
}

/// Whether the code of a failure is another than that of the asking before; each is said once, and so is its end.
fn is_news(said: &mut Option<&'static str>, code: Option<&'static str>) -> bool {
    std::mem::replace(said, code) != code
}

fn say(kubelet: &PodResources, answer: &Result<Vec<PodDevices>, AskError>) {
    let socket = kubelet.socket.display();
    match answer {
        Ok(_) => tracing::info!(%socket, "the kubelet says which pods hold GPUs"),
        // A node that is not of Kubernetes has none.
        Err(AskError::NoSocket) => {
            tracing::info!(%socket, "no socket of the kubelet: which pods hold GPUs is not known; looking again");
        }
        Err(error) => {
            tracing::warn!(%socket, %error, "the kubelet does not say which pods hold GPUs; asking again");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);
    const DEADLINE: Duration = Duration::from_secs(5);

    fn pod(name: &str) -> PodDevices {
        PodDevices {
            namespace: "inference".to_owned(),
            name: name.to_owned(),
            containers: Vec::new(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn before_the_first_answer_nothing_is_known() {
        let kubelet = Kubelet::new(INTERVAL, DEADLINE);
        let now = Instant::now();
        assert_eq!(kubelet.success(now), None);
        assert_eq!(kubelet.took(), None);
        assert!(kubelet.pods(now).is_empty() && kubelet.last_success.is_none());
    }

    #[test]
    fn an_answer_outlives_failures_for_two_intervals_and_a_deadline_and_no_longer() {
        let mut kubelet = Kubelet::new(INTERVAL, DEADLINE);
        let start = Instant::now();
        kubelet.answered(
            Ok(vec![pod("llm-0")]),
            Duration::from_millis(3),
            start,
            at(0),
        );
        assert_eq!(kubelet.success(start), Some(true));
        assert_eq!(kubelet.took(), Some(Duration::from_millis(3)));
        kubelet.answered(Err("deadline_exceeded"), DEADLINE, start + INTERVAL, at(15));
        let still = start + 2 * INTERVAL + DEADLINE;
        assert_eq!(kubelet.success(still), Some(false));
        assert_eq!(kubelet.took(), Some(DEADLINE));
        assert_eq!(kubelet.pods(still), [pod("llm-0")]);
        let too_late = still + Duration::from_millis(1);
        assert!(kubelet.pods(too_late).is_empty());
        assert_eq!(kubelet.last_success, Some(at(0)));
        assert_eq!(kubelet.failures, BTreeMap::from([("deadline_exceeded", 1)]));
    }

    #[test]
    fn what_the_next_answer_does_not_have_is_gone_at_once() {
        let mut kubelet = Kubelet::new(INTERVAL, DEADLINE);
        let start = Instant::now();
        kubelet.answered(Ok(vec![pod("a"), pod("b")]), DEADLINE, start, at(0));
        kubelet.answered(Ok(vec![pod("b")]), DEADLINE, start + INTERVAL, at(10));
        assert_eq!(kubelet.pods(start + INTERVAL), [pod("b")]);
        kubelet.answered(Ok(Vec::new()), DEADLINE, start + 2 * INTERVAL, at(20));
        assert!(kubelet.pods(start + 2 * INTERVAL).is_empty());
        assert_eq!(kubelet.success(start + 2 * INTERVAL), Some(true));
    }

    #[test]
    fn a_failure_is_news_once_and_so_is_its_end() {
        let said = &mut None;
        let codes = [
            None,
            Some("no_socket"),
            Some("no_socket"),
            Some("internal"),
            None,
            None,
        ];
        let news = codes.map(|code| is_news(said, code));
        assert_eq!(news, [false, true, false, true, true, false]);
    }
}
