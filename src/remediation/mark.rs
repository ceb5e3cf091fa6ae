//! Our mark on a node that we cordon: an annotation that says which faults need the cordon and whether it is ours.
//! We undo only what we did.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::world::NodeFacts;

/// The content of the annotation [`crate::api::names::CORDON_ANNOTATION`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CordonMark {
    /// The node was schedulable before the first fault marked it: the cordon is ours to undo.
    pub owned: bool,
    /// The faults that need the cordon: object name and UID.
    pub faults: BTreeMap<String, String>,
}

/// How a node must change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The new `spec.unschedulable`, if it changes.
    pub unschedulable: Option<bool>,
    /// The new mark; `None`: remove the annotation.
    pub mark: Option<CordonMark>,
}

impl CordonMark {
    /// The fault is among those that need the cordon.
    pub fn holds(&self, fault: &str, uid: &str) -> bool {
        self.faults.get(fault).is_some_and(|u| u == uid)
    }
}

/// How the node must change so that it is cordoned on behalf of the fault; `None`: it has been already.
pub fn cordon(node: &NodeFacts, fault: &str, uid: &str) -> Option<NodeChange> {
    let mut mark = node.mark.clone().unwrap_or_else(|| CordonMark {
        // A mark that someone made unreadable tells us nothing: then the cordon is not ours to undo.
        owned: !node.unschedulable && !node.mark_unreadable,
        faults: BTreeMap::new(),
    });
    if mark.holds(fault, uid) {
        // A schedulable node with this mark was uncordoned by a person, and is not cordoned again.
        return None;
    }
    // Whoever had cordoned the node before has uncordoned it: this cordon is ours, whatever the mark still says.
    mark.owned |= !node.unschedulable && !node.mark_unreadable;
    mark.faults.insert(fault.to_string(), uid.to_string());
    Some(NodeChange {
        unschedulable: (!node.unschedulable).then_some(true),
        mark: Some(mark),
    })
}

/// How the node must change so that the fault no longer holds it; `None`: it does not hold it.
pub fn uncordon(node: &NodeFacts, fault: &str, uid: &str) -> Option<NodeChange> {
    let mut mark = node.mark.clone().filter(|m| m.holds(fault, uid))?;
    mark.faults.remove(fault);
    if !mark.faults.is_empty() {
        return Some(NodeChange {
            unschedulable: None,
            mark: Some(mark),
        });
    }
    Some(NodeChange {
        unschedulable: (mark.owned && node.unschedulable).then_some(false),
        mark: None,
    })
}

/// A person has made the node schedulable again although our mark says that this fault needs it cordoned.
pub fn uncordoned_by_person(node: &NodeFacts) -> bool {
    !node.unschedulable
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn node(unschedulable: bool) -> NodeFacts {
        NodeFacts {
            name: "a".into(),
            uid: "node-uid".into(),
            unschedulable,
            ready: true,
            labels: BTreeMap::new(),
            mark: None,
            mark_unreadable: false,
        }
    }

    pub(crate) fn apply(node: &mut NodeFacts, change: NodeChange) {
        if let Some(unschedulable) = change.unschedulable {
            node.unschedulable = unschedulable;
        }
        node.mark = change.mark;
    }

    #[test]
    fn a_node_that_a_person_cordoned_stays_cordoned() {
        let mut n = node(true);
        let change = cordon(&n, "f", "1").unwrap();
        apply(&mut n, change);
        assert!(n.unschedulable && !n.mark.as_ref().unwrap().owned);
        let change = uncordon(&n, "f", "1").unwrap();
        apply(&mut n, change);
        assert!(n.unschedulable && n.mark.is_none());
    }

    #[test]
    fn the_last_of_two_faults_gives_the_node_back() {
        let mut n = node(false);
        for f in ["f", "g"] {
            let change = cordon(&n, f, "1").unwrap();
            apply(&mut n, change);
        }
        let change = uncordon(&n, "f", "1").unwrap();
        apply(&mut n, change);
        assert!(n.unschedulable);
        let change = uncordon(&n, "g", "1").unwrap();
        apply(&mut n, change);
        assert!(!n.unschedulable && n.mark.is_none());
    }

    #[test]
    fn an_unreadable_mark_makes_the_cordon_somebody_elses() {
        let mut n = node(false);
        n.mark_unreadable = true;
        assert!(!cordon(&n, "f", "1").unwrap().mark.unwrap().owned);
    }

    #[test]
    fn a_person_who_uncordons_is_obeyed() {
        let mut n = node(false);
        let change = cordon(&n, "f", "1").unwrap();
        apply(&mut n, change);
        n.unschedulable = false;
        assert_eq!(cordon(&n, "f", "1"), None);
    }

    #[test]
    fn a_cordon_after_the_persons_own_was_lifted_is_ours() {
        let mut n = node(true);
        let change = cordon(&n, "f", "1").unwrap();
        apply(&mut n, change);
        n.unschedulable = false;
        let change = cordon(&n, "g", "1").unwrap();
        apply(&mut n, change);
        assert!(n.unschedulable && n.mark.as_ref().unwrap().owned);
    }

    #[test]
    fn another_incarnation_of_the_fault_is_another_fault() {
        let mut n = node(false);
        let change = cordon(&n, "f", "1").unwrap();
        apply(&mut n, change);
        assert_eq!(uncordon(&n, "f", "2"), None);
    }

    proptest! {
        /// Whatever the order in which faults come and go, the node ends as it began.
        #[test]
        fn every_cordon_is_undone(before in any::<bool>(), order in Just((0..6u8).collect::<Vec<_>>()).prop_shuffle()) {
            let mut n = node(before);
            for i in 0..6u8 {
                if let Some(change) = cordon(&n, &format!("f{i}"), "u") { apply(&mut n, change); }
                prop_assert!(n.unschedulable);
                prop_assert_eq!(cordon(&n, &format!("f{i}"), "u"), None);
            }
            for i in order {
                prop_assert!(n.unschedulable);
                if let Some(change) = uncordon(&n, &format!("f{i}"), "u") { apply(&mut n, change); }
                prop_assert_eq!(uncordon(&n, &format!("f{i}"), "u"), None);
            }
            prop_assert_eq!(n.unschedulable, before);
            prop_assert!(n.mark.is_none());
        }
    }
}
