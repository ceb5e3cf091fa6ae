//! PodDisruptionBudgets: which select a pod, and how many disruptions each has left, so that no eviction is asked for
//! only to be refused.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use super::views::{BudgetView, PodView};

/// What we have spent of each budget since we last saw it change.
#[derive(Debug, Default)]
pub struct Spent {
    by_uid: Mutex<HashMap<String, (String, i32)>>,
}

/// The budget's name as it stands in messages: `namespace/name`.
pub fn name(budget: &BudgetView) -> String {
    format!(
        "{}/{}",
        budget.namespace().unwrap_or_default(),
        budget.name_any()
    )
}

/// The budgets that select the pod.
pub fn covering<'a>(
    pod: &PodView,
    budgets: &'a [std::sync::Arc<BudgetView>],
) -> Vec<&'a BudgetView> {
    budgets
        .iter()
        .map(AsRef::as_ref)
        .filter(|b| b.namespace() == pod.namespace() && selects(b, pod))
        .collect()
}

fn selects(budget: &BudgetView, pod: &PodView) -> bool {
    // An absent selector selects nothing; an empty one selects every pod of the namespace.
    let Some(selector) = budget.spec.selector.clone() else {
        return false;
    };
    // A selector that we cannot read: the API server is asked, and says what it thinks.
    Selector::try_from(selector).is_ok_and(|s| s.matches(pod.labels()))
}

impl Spent {
    /// How many disruptions each budget allows, less what we have spent since it was last seen to change: the API
    /// server counts an eviction at once, our watch learns of it a little later.
    pub fn allowed<'a>(
        &self,
        budgets: impl Iterator<Item = &'a BudgetView>,
    ) -> BTreeMap<String, i32> {
        let mut spent = self
            .by_uid
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        budgets
            .map(|budget| {
                let uid = budget.uid().unwrap_or_default();
                let version = budget.resource_version().unwrap_or_default();
                let used = match spent.get(&uid) {
                    Some((seen, used)) if *seen == version => *used,
                    _ => {
                        spent.insert(uid, (version, 0));
                        0
                    }
                };
                (name(budget), budget.status.disruptions_allowed - used)
            })
            .collect()
    }

    /// One disruption was spent, as far as this version of the budget knows.
    pub fn spend(&self, budget: &BudgetView) {
        let mut spent = self
            .by_uid
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (uid, version) = (
            budget.uid().unwrap_or_default(),
            budget.resource_version().unwrap_or_default(),
        );
        let entry = spent.entry(uid).or_insert((version.clone(), 0));
        if entry.0 != version {
            *entry = (version, 0);
        }
        entry.1 += 1;
    }

    /// Forgets budgets that no longer exist.
    pub fn retain(&self, uids: &std::collections::HashSet<String>) {
        self.by_uid
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .retain(|uid, _| uids.contains(uid));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn budget(version: &str, allowed: i32) -> BudgetView {
        serde_json::from_value(json!({
            "metadata": {"name": "b", "namespace": "ns", "uid": "1", "resourceVersion": version},
            "spec": {"selector": {"matchLabels": {"app": "llm"}}}, "status": {"disruptionsAllowed": allowed},
        }))
        .unwrap()
    }

    #[test]
    fn what_was_spent_counts_until_the_budget_is_seen_to_change() {
        let spent = Spent::default();
        let before = budget("7", 1);
        assert_eq!(spent.allowed([&before].into_iter())["ns/b"], 1);
        spent.spend(&before);
        assert_eq!(spent.allowed([&before].into_iter())["ns/b"], 0);
        assert_eq!(spent.allowed([&budget("8", 0)].into_iter())["ns/b"], 0);
        assert_eq!(spent.allowed([&budget("9", 1)].into_iter())["ns/b"], 1);
    }

    #[test]
    fn a_budget_covers_the_pods_of_its_own_namespace_that_it_selects() {
        let pod = |namespace: &str, app: &str| -> PodView {
            serde_json::from_value(
                json!({"metadata": {"name": "p", "namespace": namespace, "labels": {"app": app}}}),
            )
            .unwrap()
        };
        let budgets = [std::sync::Arc::new(budget("1", 1))];
        assert_eq!(covering(&pod("ns", "llm"), &budgets).len(), 1);
        assert_eq!(covering(&pod("other", "llm"), &budgets).len(), 0);
        assert_eq!(covering(&pod("ns", "web"), &budgets).len(), 0);
    }
}
