//! Asking the kubelet, in the background, who holds the GPUs, and what it last said.

use super::outcome::Outcome;
use super::sampler::lock;
use super::schedule::fresh;
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
    /// How the last asking went; `None` before the first has ended.
    pub(super) asked: Option<Outcome>,
    /// Failed askings by their code.
    pub(super) failures: BTreeMap<&'static str, u64>,
}

impl Kubelet {
    pub(super) fn new(interval: Duration, deadline: Duration) -> Self {
        Self {
            fresh: fresh(interval, deadline),
            answer: None,
            asked: None,
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
        self.asked = Some(Outcome::after(self.asked, answer.is_ok(), took, now, at));
        match answer {
            Ok(pods) => self.answer = Some((now, pods)),
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
        assert_eq!(kubelet.asked, None);
        assert!(kubelet.pods(now).is_empty());
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
        let success =
            |kubelet: &Kubelet, now| kubelet.asked.unwrap().success(INTERVAL, DEADLINE, now);
        assert!(success(&kubelet, start));
        assert_eq!(kubelet.asked.unwrap().took, Duration::from_millis(3));
        kubelet.answered(Err("deadline_exceeded"), DEADLINE, start + INTERVAL, at(15));
        let still = start + 2 * INTERVAL + DEADLINE;
        assert!(!success(&kubelet, still));
        assert_eq!(kubelet.asked.unwrap().took, DEADLINE);
        assert_eq!(kubelet.pods(still), [pod("llm-0")]);
        let too_late = still + Duration::from_millis(1);
        assert!(kubelet.pods(too_late).is_empty());
        assert_eq!(kubelet.asked.unwrap().last_success, Some(at(0)));
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
