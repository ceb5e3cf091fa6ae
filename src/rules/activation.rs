//! Since when a rule has been firing for a GPU, whatever becomes of the labels that do not name the GPU.
//!
//! An exporter that restarts comes back under another `instance`, and its series are other series; Prometheus sees one
//! alert end and another begin. For the GPU nothing new has happened: it must not look like another occurrence.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::alert::Alert;
use super::subject::Subject;

/// What makes two alerts of one rule alerts about the same thing.
type Key = (String, Option<String>, Option<u32>);

/// An activation: what it is about, and since when.
pub type Activation = (Key, Timestamp);

/// The activations of one rule.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    since: BTreeMap<Key, Timestamp>,
    opened: BTreeSet<Activation>,
}

impl Activations {
    /// Takes note of what fires now. Answers, once for each subject whose fault has not been opened yet, the alert that
    /// has fired longest; its `active_at` is the beginning of the subject's activation.
    pub fn firing(&mut self, firing: Vec<(Subject, Alert)>) -> Vec<(Activation, Subject, Alert)> {
        let mut longest: BTreeMap<Key, (Subject, Alert)> = BTreeMap::new();
        for (subject, alert) in firing {
            let entry = longest.entry(key(&subject));
            let (_, kept) = entry.or_insert_with(|| (subject, alert.clone()));
            if alert.active_at < kept.active_at {
                *kept = alert;
            }
        }
        self.since = longest
            .iter()
            .map(|(key, (_, alert))| {
                let before = self.since.get(key).copied();
                let since = before.map_or(alert.active_at, |b| b.min(alert.active_at));
                (key.clone(), since)
            })
            .collect();
        let since = &self.since;
        self.opened.retain(|(key, at)| since.get(key) == Some(at));
        let mut unopened = Vec::new();
        for (key, (subject, mut alert)) in longest {
            alert.active_at = self.since.get(&key).copied().unwrap_or(alert.active_at);
            let activation = (key, alert.active_at);
            if !self.opened.contains(&activation) {
                unopened.push((activation, subject, alert));
            }
        }
        unopened
    }

    /// The fault of the activation is open.
    pub fn opened(&mut self, activation: Activation) {
        self.opened.insert(activation);
    }
}

fn key(subject: &Subject) -> Key {
    let gpu = subject.uuid.clone().or_else(|| subject.pci_bus_id.clone());
    (subject.node.clone(), gpu, subject.xid)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn alert(instance: &str, active: i64) -> (Subject, Alert) {
        let subject = Subject {
            node: "a".into(),
            uuid: Some("GPU-1".into()),
            ..Subject::default()
        };
        let alert = Alert {
            labels: [("instance".to_string(), instance.to_string())].into(),
            value: 1.0,
            active_at: at(active),
            sample_time: at(active),
            seen: true,
        };
        (subject, alert)
    }

    #[test]
    fn an_exporter_that_comes_back_under_another_address_is_no_new_activation() {
        let mut activations = Activations::default();
        let first = activations.firing(vec![alert("10.0.0.1", 5)]);
        assert_eq!(first.len(), 1);
        activations.opened(first[0].0.clone());
        assert!(
            activations
                .firing(vec![alert("10.0.0.1", 5), alert("10.0.0.2", 20)])
                .is_empty()
        );
        assert!(activations.firing(vec![alert("10.0.0.2", 20)]).is_empty());
    }

    #[test]
    fn one_opening_for_several_series_of_one_gpu_and_another_after_a_gap() {
        let mut activations = Activations::default();
        let first = activations.firing(vec![alert("x", 7), alert("y", 5)]);
        assert_eq!((first.len(), first[0].2.active_at), (1, at(5)));
        activations.opened(first[0].0.clone());
        assert!(activations.firing(Vec::new()).is_empty());
        assert_eq!(
            activations.firing(vec![alert("x", 30)])[0].2.active_at,
            at(30)
        );
    }

    #[test]
    fn what_could_not_be_opened_is_asked_for_again() {
        let mut activations = Activations::default();
        assert_eq!(activations.firing(vec![alert("x", 5)]).len(), 1);
        assert_eq!(activations.firing(vec![alert("x", 5)]).len(), 1);
    }
}
