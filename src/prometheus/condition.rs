//! Asking a condition: every query of its plan, all at the same evaluation time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use jiff::Timestamp;

use super::client::Client;
use crate::guards::condition::{Answers, Condition};
use crate::guards::truth::Verdict;
use crate::rules::answer::Unknown;

/// As many conditions are kept taken apart; one process has a handful for each policy and each open fault.
const MOST_KEPT: usize = 1000;

/// Conditions that have been taken apart. Reading PromQL takes longer than most answers, and the same few conditions are
/// asked again and again.
#[derive(Debug, Default)]
pub struct Conditions {
    known: Mutex<HashMap<(Kind, String), Arc<Condition>>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Kind {
    Guard,
    Proof,
}

impl Conditions {
    /// As [`Condition::guard`].
    pub fn guard(&self, expr: &str) -> Arc<Condition> {
        self.known(Kind::Guard, expr, Condition::guard)
    }

    /// As [`Condition::proof`].
    pub fn proof(&self, expr: &str) -> Arc<Condition> {
        self.known(Kind::Proof, expr, Condition::proof)
    }

    fn known(
        &self,
        kind: Kind,
        expr: &str,
        read: impl FnOnce(&str) -> Condition,
    ) -> Arc<Condition> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, expr.to_owned());
        if let Some(condition) = known.get(&key) {
            return Arc::clone(condition);
        }
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        let condition = Arc::new(read(expr));
        known.insert(key, Arc::clone(&condition));
        condition
    }
}

/// Asks Prometheus whether the condition holds at `at`.
pub async fn ask(client: &Client, condition: &Condition, at: Timestamp) -> Verdict {
    let answers: Answers = join_all(condition.queries().into_iter().map(async |query| {
        let answer = client.query(query, at).await.map_err(Unknown::from);
        (query.to_owned(), answer)
    }))
    .await
    .into_iter()
    .collect();
    condition.judge(&answers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_read_once_and_a_guard_is_no_proof() {
        let conditions = Conditions::default();
        let proof = conditions.proof("up == 1");
        assert!(Arc::ptr_eq(&proof, &conditions.proof("up == 1")));
        assert_eq!(*proof, Condition::proof("up == 1"));
        assert_eq!(*conditions.guard("up == 1"), Condition::guard("up == 1"));
        for number in 0..2 * MOST_KEPT {
            conditions.proof(&format!("up == {number}"));
        }
        assert!(conditions.known.lock().unwrap().len() <= MOST_KEPT);
    }
}
