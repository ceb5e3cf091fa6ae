//! Cases that happened to others, named after their ids in `docs/failure-cases.md`: pods that do not go, and pods that come
//! back.

use proptest::prelude::*;

use super::simulated::*;
use crate::api::conditions;
use crate::api::fault_status::Phase;
use crate::remediation::decision::{Effect, Observation};
use crate::remediation::drain;

fn eviction_calls(sim: &Sim) -> usize {
    let asked = sim.effects.iter().map(|e| match e {
        Effect::Evict(pods) => pods.len(),
        _ => 0,
    });
    asked.sum()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("llm-{i}")).collect()
}

fn with_pods(count: usize) -> Sim {
    let names = names(count);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    Sim::new(&names)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The budget allows nobody. A pod that is Ready is not even asked for. One that crashes is no business of the budget's
    /// by our count, but by the API server's: it is asked for, refused, and asked for again after a while.
    #[test]
    fn c1_a_budget_that_allows_nobody_is_waited_for_and_never_passed_over(
        ready in prop::collection::vec(any::<bool>(), 1..5),
        until in 20i64..290,
        let_go in any::<bool>(),
    ) {
        let mut sim = with_pods(ready.len());
        for (pod, ready) in sim.pods.iter_mut().zip(&ready) {
            pod.ready = *ready;
        }
        sim.set_allowed(0);
        sim.run(until);
        let crashing = ready.iter().filter(|r| !**r).count();
        let tries = usize::try_from(until).unwrap() / 5 + 2;
        prop_assert!(eviction_calls(&sim) <= crashing * tries, "{} calls", eviction_calls(&sim));
        prop_assert!(crashing == 0 || eviction_calls(&sim) > crashing, "asked for once only");
        prop_assert_eq!((sim.phase(), sim.reason()), (Phase::Processing, "BlockedByDisruptionBudget"));
        prop_assert!(sim.fault.status.message.contains("ml/llm"));
        let held = |o: &&Observation| matches!(o, Observation::Held(_));
        let holds = sim.observations.iter().filter(held).count();
        prop_assert!(holds <= 2, "counted when it begins, not every second: {holds}");
        prop_assert!(sim.evicted.is_empty() && sim.pods.iter().all(|p| !p.terminating));
        if let_go {
            sim.set_allowed(9);
            sim.run(8);
            sim.end_pods();
            sim.run(1);
            prop_assert!(sim.fault.status.timeline.drained_at.is_some());
        } else {
            sim.run(300);
            prop_assert_eq!((sim.phase(), sim.reason()), (Phase::Failed, "EvictionTimedOut"));
            prop_assert_eq!(drain::stayed(&sim.fault.status).len(), ready.len());
            prop_assert!(sim.evicted.is_empty() && sim.is_cordoned());
        }
    }

    /// A StatefulSet makes its pod again under the same name, elsewhere, nowhere yet, or on the same node.
    #[test]
    fn c2_a_pod_that_is_made_again_under_the_same_name_is_another_pod(
        count in 1usize..4,
        comes_back in prop::collection::vec(any::<bool>(), 1..4),
    ) {
        let mut sim = with_pods(count);
        sim.run(1);
        prop_assert_eq!(sim.evicted.len(), count);
        sim.end_pods();
        sim.now += seconds(10);
        for (n, back) in comes_back.iter().enumerate() {
            if *back {
                // It tolerates the cordon: bound to the same node again.
                let mut again = pod(&format!("again-{n}"));
                again.pod.name = format!("llm-{n}");
                again.created = sim.now;
                sim.pods.push(again);
            }
        }
        sim.run(60);
        for effect in &sim.effects {
            if let Effect::Evict(pods) = effect {
                prop_assert!(pods.iter().all(|p| !p.uid.starts_with("again")), "{pods:?}");
            }
        }
        prop_assert_eq!(eviction_calls(&sim), count);
        if comes_back.contains(&true) {
            prop_assert_eq!((sim.phase(), sim.reason()), (Phase::Failed, "PodsIgnoreCordon"));
        } else {
            prop_assert!(sim.fault.status.timeline.drained_at.is_some());
        }
    }

    /// Ending or not Ready, evicted by us or ended by others: a pod holds its GPU until it is gone.
    #[test]
    fn c4_a_node_is_drained_only_when_the_last_gpu_pod_is_gone(
        pods in prop::collection::vec((any::<bool>(), any::<bool>()), 1..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 6),
    ) {
        let mut sim = with_pods(pods.len());
        for (pod, (ready, terminating)) in sim.pods.iter_mut().zip(&pods) {
            (pod.ready, pod.terminating) = (*ready, *terminating);
        }
        sim.verify = Some(true);
        for index in order.iter().take(pods.len()) {
            sim.run(10);
            prop_assert!(!sim.pods.is_empty() && sim.fault.status.timeline.drained_at.is_none());
            prop_assert_eq!(sim.phase(), Phase::Processing);
            prop_assert!(sim.fault.status.timeline.handled_at.is_none());
            prop_assert_eq!(sim.condition(conditions::DRAINED).unwrap().0, "False");
            let gone = index.index(sim.pods.len());
            sim.pods.remove(gone);
        }
        sim.run(1);
        prop_assert!(sim.fault.status.timeline.drained_at.is_some());
    }

    /// However long the pods take to end, one call for each is enough.
    #[test]
    fn c5_a_pod_that_takes_long_to_end_is_asked_for_once(
        ends in prop::collection::vec(1i64..295, 1..6),
        watch_is_late in any::<bool>(),
    ) {
        let mut sim = with_pods(ends.len());
        for second in 1..=300 {
            sim.run(1);
            if watch_is_late && second < 20 {
                sim.pods.iter_mut().for_each(|p| p.terminating = false);
            }
            let ended: Vec<_> = ends.iter().enumerate().filter(|(_, at)| **at <= second).map(|(i, _)| format!("llm-{i}")).collect();
            sim.pods.retain(|p| !ended.contains(&p.pod.name));
        }
        prop_assert_eq!(eviction_calls(&sim), ends.len());
        prop_assert!(sim.fault.status.timeline.drained_at.is_some());
    }

    /// With two budgets over one pod the API server refuses for good.
    #[test]
    fn c7_a_pod_under_two_budgets_is_reported_and_not_tried_again(
        double in prop::collection::vec(any::<bool>(), 1..5),
        which in any::<prop::sample::Index>(),
    ) {
        let mut double = double;
        let one = which.index(double.len());
        double[one] = true;
        let mut sim = with_pods(double.len());
        for (pod, double) in sim.pods.iter_mut().zip(&double) {
            if *double {
                pod.budgets.push("ml/other".into());
            }
        }
        sim.run(200);
        prop_assert_eq!((sim.phase(), sim.reason()), (Phase::Failed, "EvictionRefused"));
        prop_assert!(sim.fault.status.message.contains("more than one PodDisruptionBudget"));
        prop_assert_eq!(eviction_calls(&sim), double.len(), "one call for each pod");
        prop_assert!(sim.is_cordoned());
    }
}
