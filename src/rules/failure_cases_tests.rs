//! Cases that happened to others, named after their ids in `docs/failure-cases.md`: what a rule makes of its series.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::activation::Activations;
use super::answer::{Answer, Labels, ResultType, Sample, SampleValue, Unknown, UnknownReason};
use super::state::RuleState;
use super::subject::{Subject, SubjectTemplates};
use crate::api::rule::{Remediation, Rule, RuleGroup};

const INTERVAL: i64 = 5;

fn state(hold_seconds: i64) -> RuleState {
    let rule: Rule = serde_json::from_value(serde_json::json!({
        "alert": "NvlinkDown", "expr": "x", "for": format!("{hold_seconds}s"),
        "remediation": {"policy": "p"},
    }))
    .unwrap();
    let group = RuleGroup {
        name: "g".into(),
        ..RuleGroup::default()
    };
    RuleState::new(&group, &rule, SignedDuration::from_secs(INTERVAL)).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn answer(nodes: impl IntoIterator<Item = String>, now: Timestamp) -> Result<Answer, Unknown> {
    let sample = |node: String| Sample {
        labels: [("node".to_owned(), node)].into(),
        value: SampleValue::Float(1.0),
        at: now,
    };
    Ok(Answer {
        result_type: ResultType::Vector,
        samples: nodes.into_iter().map(sample).collect(),
        infos: Vec::new(),
    })
}

proptest! {
    /// dcgm-exporter once renamed `Hostname` to `hostname`. Whatever a label that names the node becomes, nobody is taken for
    /// the node.
    #[test]
    fn a9_a_renamed_node_label_names_nobody(
        wanted in "[A-Za-z_][A-Za-z0-9_]{0,12}",
        renamed in "[A-Za-z_][A-Za-z0-9_]{0,12}",
        explicit in any::<bool>(),
        empty in any::<bool>(),
    ) {
        let wanted = if explicit { wanted } else { "node".to_owned() };
        prop_assume!(wanted != renamed);
        let templates = SubjectTemplates::new(&Remediation {
            policy: "p".into(),
            node: explicit.then(|| format!("{{{{ $labels.{wanted} }}}}")),
            ..Remediation::default()
        })
        .unwrap();
        let mut labels: Labels = [(wanted.clone(), "n1".to_owned()), ("gpu".to_owned(), "3".to_owned())].into();
        prop_assert_eq!(templates.resolve(&labels).unwrap().node, "n1");
        let value = labels.remove(&wanted).unwrap();
        labels.insert(renamed, value);
        if empty {
            labels.insert(wanted.clone(), " ".to_owned());
        }
        let refused = templates.resolve(&labels);
        prop_assert!(refused.is_err(), "{refused:?}");
        prop_assert!(refused.unwrap_err().to_string().contains(&wanted), "it says which label is missed");
    }

    /// Every node shows a link that is down for a sample or two after its boot. Nothing that lasts less long than `for` fires,
    /// on however many nodes and however often; what lasts does.
    #[test]
    fn a11_what_lasts_shorter_than_for_opens_nothing_on_any_node(
        blips in prop::collection::vec((0i64..400, 1i64..6, 0usize..214), 1..300),
        lasting in prop::option::of(0usize..214),
        unknown in prop::collection::btree_set(0i64..420, 0..20),
    ) {
        let mut state = state(6 * INTERVAL);
        // Samples at which a node's link is down. Two blips of a node with no answer between them would be one that lasts:
        // an error keeps what was known before it.
        let apart = |end: i64, start: i64| (end..start).any(|tick| !unknown.contains(&tick));
        let mut down: std::collections::BTreeMap<usize, Vec<(i64, i64)>> = Default::default();
        for (start, length, node) in blips {
            let known = down.entry(node).or_default();
            if known.iter().all(|(s, l)| apart(s + l, start) || apart(start + length, *s)) {
                known.push((start, length));
            }
        }
        let mut fired = Vec::new();
        for tick in 0..420 {
            let now = at(tick * INTERVAL);
            let nodes = down
                .iter()
                .filter(|(_, blips)| blips.iter().any(|(s, l)| (*s..s + l).contains(&tick)))
                .map(|(node, _)| *node)
                .chain(lasting)
                .collect::<std::collections::BTreeSet<_>>();
            let answer = if unknown.contains(&tick) {
                Err(Unknown::new(UnknownReason::TimedOut, "in a test"))
            } else {
                answer(nodes.iter().map(usize::to_string), now)
            };
            let evaluation = state.evaluate(now, &answer);
            fired.extend(evaluation.newly_firing.into_iter().map(|alert| alert.labels["node"].clone()));
        }
        prop_assert_eq!(fired, lasting.map(|node| node.to_string()).into_iter().collect::<Vec<_>>());
    }
}

/// Hundreds of thousands of samples that all say the same are one alert, one opening and one line of state.
#[test]
fn d18_a_hundred_thousand_identical_samples_are_one_alert() {
    let mut state = state(0);
    let mut activations = Activations::default();
    let (mut newly_firing, mut openings) = (0, 0);
    for tick in 0..100_000 {
        let now = at(tick * INTERVAL);
        let evaluation = state.evaluate(now, &answer(["n1".to_owned()], now));
        newly_firing += evaluation.newly_firing.len();
        let firing = evaluation.firing.into_iter().map(|alert| {
            let subject = Subject {
                node: alert.labels["node"].clone(),
                uuid: Some("GPU-1".into()),
                ..Subject::default()
            };
            (subject, alert)
        });
        for (activation, _, _) in activations.firing(firing.collect(), |_| None) {
            openings += 1;
            activations.opened(activation, None);
        }
    }
    assert_eq!((newly_firing, openings), (1, 1));
    assert_eq!(state.status().active.len(), 1);
}

/// A GPU that was replaced is another GPU, also in the same slot; a fault of the old one is not one of the new.
#[test]
fn d14_another_board_in_the_same_slot_is_another_gpu() {
    let slot = "00000000:3B:00.0";
    let fault = |uuid: &str| {
        serde_json::from_value::<crate::api::GpuFaultSpec>(serde_json::json!({
            "nodeName": "a", "nodeUid": "n", "xid": 79, "policyRef": {"name": "p"},
            "ruleRef": {"name": "r", "group": "g", "alert": "A"},
            "gpu": {"uuid": uuid, "pciBusId": slot},
        }))
        .unwrap()
    };
    let about = |uuid: &str| Subject {
        node: "a".into(),
        uuid: Some(uuid.into()),
        pci_bus_id: Some(slot.into()),
        xid: Some(79),
        ..Subject::default()
    };
    let rule = crate::api::fault::RuleRef {
        name: "r".into(),
        group: "g".into(),
        alert: "A".into(),
    };
    let known = fault("GPU-old");
    let is_same = |subject: &Subject| super::identity::is_same(&known, &rule, subject, "n");
    assert!(is_same(&about("GPU-old")));
    assert!(!is_same(&about("GPU-new")));
}
