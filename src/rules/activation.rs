//! Since when a rule has been firing for a GPU, whatever becomes of the labels that do not name the GPU.
//!
//! An exporter that restarts comes back under another `instance`, and its series are other series; Prometheus sees one
//! alert end and another begin. For the GPU nothing new has happened: it must not look like another occurrence.

use std::collections::BTreeMap;

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
    /// Those whose fault is open, and for which object of their node, by its UID, as far as that was known.
    opened: BTreeMap<Activation, Option<String>>,
}

impl Activations {
    /// Takes note of what fires now. Answers, once for each subject whose fault has not been opened yet, the alert that
    /// has fired longest; its `active_at` is the beginning of the subject's activation, and it counts as seen, and when,
    /// if any of the subject's alerts was. On stale alerts alone nothing is opened.
    ///
    /// A node that has joined again is another, and what goes on firing is to be opened for it as well: `node_uid` tells
    /// the UID of a node's object, as far as it is known.
    pub fn firing(
        &mut self,
        firing: Vec<(Subject, Alert)>,
        node_uid: impl Fn(&str) -> Option<String>,
    ) -> Vec<(Activation, Subject, Alert)> {
        let mut longest: BTreeMap<Key, (Subject, Alert)> = BTreeMap::new();
        for (subject, alert) in firing {
            let entry = longest.entry(key(&subject));
            let (who, kept) = entry.or_insert_with(|| (subject.clone(), alert.clone()));
            let seen = kept.seen || alert.seen;
            let sample_time = kept.sample_time.max(alert.sample_time);
            let active_at = kept.active_at.min(alert.active_at);
            // What is told of it is of what was seen lately.
            if (alert.stale, alert.active_at) < (kept.stale, kept.active_at) {
                (*who, *kept) = (subject, alert);
            }
            (kept.seen, kept.sample_time, kept.active_at) = (seen, sample_time, active_at);
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
        self.opened
            .retain(|(key, at), _| since.get(key) == Some(at));
        let mut unopened = Vec::new();
        for (key, (subject, mut alert)) in longest {
            alert.active_at = self.since.get(&key).copied().unwrap_or(alert.active_at);
            let activation = (key, alert.active_at);
            let is_open = self.opened.get(&activation).is_some_and(|opened_for| {
                let (now, opened_for) = (node_uid(&subject.node), opened_for.as_ref());
                now.is_none() || opened_for.is_none() || now.as_ref() == opened_for
            });
            if !is_open && !alert.stale {
                unopened.push((activation, subject, alert));
            }
        }
        unopened
    }

    /// The fault of the activation is open, for the object of its node with this UID.
    pub fn opened(&mut self, activation: Activation, node_uid: Option<String>) {
        self.opened.insert(activation, node_uid);
    }
}

fn key(subject: &Subject) -> Key {
    // The PCI bus id first: the kernel log names it from the beginning, the UUID comes with the driver.
    let gpu = subject.pci_bus_id.clone().or_else(|| subject.uuid.clone());
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
            stale: false,
        };
        (subject, alert)
    }

    fn firing(
        activations: &mut Activations,
        alerts: Vec<(Subject, Alert)>,
    ) -> Vec<(Activation, Subject, Alert)> {
        activations.firing(alerts, |_| None)
    }

    #[test]
    fn an_exporter_that_comes_back_under_another_address_is_no_new_activation() {
        let mut activations = Activations::default();
        let first = firing(&mut activations, vec![alert("10.0.0.1", 5)]);
        assert_eq!(first.len(), 1);
        activations.opened(first[0].0.clone(), None);
        assert!(
            firing(
                &mut activations,
                vec![alert("10.0.0.1", 5), alert("10.0.0.2", 20)]
            )
            .is_empty()
        );
        assert!(firing(&mut activations, vec![alert("10.0.0.2", 20)]).is_empty());
    }

    #[test]
    fn one_opening_for_several_series_of_one_gpu_and_another_after_a_gap() {
        let mut activations = Activations::default();
        let first = firing(&mut activations, vec![alert("x", 7), alert("y", 5)]);
        assert_eq!((first.len(), first[0].2.active_at), (1, at(5)));
        activations.opened(first[0].0.clone(), None);
        assert!(firing(&mut activations, Vec::new()).is_empty());
        assert_eq!(
            firing(&mut activations, vec![alert("x", 30)])[0]
                .2
                .active_at,
            at(30)
        );
    }

    #[test]
    fn a_gpu_whose_uuid_becomes_known_later_is_the_same_gpu() {
        let mut activations = Activations::default();
        let (mut subject, first) = alert("x", 5);
        subject.pci_bus_id = Some("00000000:3B:00.0".into());
        let mut nameless = subject.clone();
        nameless.uuid = None;
        let opened = firing(&mut activations, vec![(nameless, first)]);
        activations.opened(opened[0].0.clone(), None);
        assert!(firing(&mut activations, vec![(subject, alert("x", 9).1)]).is_empty());
    }

    #[test]
    fn what_could_not_be_opened_is_asked_for_again() {
        let mut activations = Activations::default();
        assert_eq!(firing(&mut activations, vec![alert("x", 5)]).len(), 1);
        assert_eq!(firing(&mut activations, vec![alert("x", 5)]).len(), 1);
    }

    #[test]
    fn a_node_that_joined_again_is_another() {
        let mut activations = Activations::default();
        let on = |activations: &mut Activations, uid: Option<&str>| {
            let uid = uid.map(str::to_owned);
            let unopened = activations.firing(vec![alert("x", 5)], |_| uid.clone());
            unopened
                .into_iter()
                .next()
                .map(|(activation, _, _)| activation)
        };
        let first = on(&mut activations, Some("n1")).unwrap();
        activations.opened(first, Some("n1".to_owned()));
        assert_eq!(on(&mut activations, Some("n1")), None);
        assert_eq!(on(&mut activations, None), None, "it is gone, or not known");
        let again = on(&mut activations, Some("n2")).unwrap();
        activations.opened(again, Some("n2".to_owned()));
        assert_eq!(on(&mut activations, Some("n2")), None);
    }

    #[test]
    fn a_stale_alert_goes_on_and_opens_nothing_until_it_is_seen_again() {
        let mut activations = Activations::default();
        let (subject, mut stale) = alert("x", 5);
        (stale.seen, stale.stale) = (false, true);
        assert_eq!(
            firing(&mut activations, vec![(subject.clone(), stale.clone())]),
            []
        );
        let fresh = alert("y", 50);
        let opened = firing(&mut activations, vec![(subject, stale), fresh]);
        let (_, _, alert) = &opened[0];
        assert_eq!(alert.active_at, at(5), "it is the same activation");
        assert_eq!(alert.labels["instance"], "y", "told as it was seen lately");
    }

    #[test]
    fn what_is_seen_under_other_labels_is_seen() {
        let mut activations = Activations::default();
        let (subject, mut old) = alert("x", 5);
        old.seen = false;
        let new = alert("y", 20);
        for alerts in [
            vec![(subject.clone(), old.clone()), new.clone()],
            vec![new, (subject, old)],
        ] {
            let (_, _, alert) = firing(&mut activations, alerts).remove(0);
            assert!(alert.seen);
            assert_eq!((alert.active_at, alert.sample_time), (at(5), at(20)));
        }
    }
}
