//! What the API does not show: what Prometheus answered and what the hardware is like.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

/// The labels of one series.
pub type Series = BTreeMap<String, String>;

/// What a query came back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The whole truth: these series have a number. (`count` answers of 0 and results of `bool` comparisons included.)
    Sound(Vec<Series>),
    /// An error, a timeout, a partial answer, NaN: nothing may be concluded.
    Unsound,
}

/// How long answers are kept: longer than any proof takes.
const KEPT: SignedDuration = SignedDuration::from_hours(2);

/// What a fault is opened on was seen within this: the shipped rules keep firing for up to five minutes after the last
/// sample, and the line to the API server is cut for up to five in random worlds.
const LATELY: SignedDuration = SignedDuration::from_mins(15);

/// Answers to one query.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// When, and whether it was sound and had series.
    pub lately: VecDeque<(Timestamp, Option<bool>)>,
    /// Every series that a sound answer ever had, and when the last one had it.
    pub seen: BTreeMap<Series, Timestamp>,
}

/// All notes.
#[derive(Debug, Default)]
pub(super) struct Notes {
    answers: BTreeMap<String, Answers>,
    /// GPUs that are broken, by node, and since when.
    broken: BTreeMap<String, BTreeMap<String, Timestamp>>,
}

impl Notes {
    pub fn evidence(&mut self, at: Timestamp, _actor: &str, query: &str, answer: Answer) {
        let answers = self.answers.entry(query.to_owned()).or_default();
        let outcome = match answer {
            Answer::Unsound => None,
            Answer::Sound(series) => {
                let some = !series.is_empty();
                for mut one in series {
                    one.remove("__name__");
                    answers.seen.insert(one, at);
                }
                Some(some)
            }
        };
        answers.lately.push_back((at, outcome));
        while let Some((first, _)) = answers.lately.front()
            && at.duration_since(*first) > KEPT
        {
            answers.lately.pop_front();
        }
    }

    /// These are the GPUs of a node now, and whether each is healthy. One that is no longer there is nobody's concern.
    pub fn hardware(&mut self, at: Timestamp, node: &str, gpus: &[(String, bool)]) {
        let before = self.broken.remove(node).unwrap_or_default();
        let broken = gpus.iter().filter(|(_, healthy)| !healthy);
        let since = |gpu: &String| before.get(gpu).copied().unwrap_or(at);
        let broken = broken.map(|(gpu, _)| (gpu.clone(), since(gpu))).collect();
        self.broken.insert(node.to_owned(), broken);
    }

    pub fn answers(&self, query: &str) -> Option<&Answers> {
        self.answers.get(query)
    }

    /// The series that a sound answer to the query had a short while ago, and when it last had them.
    pub fn seen_lately(
        &self,
        query: &str,
        at: Timestamp,
    ) -> impl Iterator<Item = (&Series, Timestamp)> {
        let all = self.answers.get(query).into_iter().flat_map(|a| &a.seen);
        let all = all.map(|(series, seen)| (series, *seen));
        all.filter(move |(_, seen)| at.duration_since(*seen) <= LATELY)
    }

    /// A GPU of the node that has been broken all the time since then.
    pub fn broken_since(&self, node: &str, since: Timestamp) -> Option<&str> {
        let broken = self.broken.get(node).into_iter().flatten();
        let mut long = broken.filter(|(_, from)| **from < since);
        long.next().map(|(gpu, _)| gpu.as_str())
    }
}
