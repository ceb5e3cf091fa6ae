//! Asking a condition: every query of its plan, all at the same evaluation time.

use futures::future::join_all;
use jiff::Timestamp;

use super::client::Client;
use crate::guards::condition::{Answers, Condition};
use crate::guards::truth::Verdict;
use crate::rules::answer::Unknown;

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
