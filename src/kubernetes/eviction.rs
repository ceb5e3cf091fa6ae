//! The Eviction API, `policy/v1`, always with the pod's UID as precondition.

use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::core::Status;

use super::clients::{ApiError, call};
use super::views::PodView;
use crate::api::fault_status::PodRef;

/// The API server's answer to one eviction.
#[derive(Debug)]
pub enum EvictionAnswer {
    /// Accepted: the pod is ending.
    Accepted,
    /// That pod is gone, or another one has its name by now.
    Gone,
    /// A PodDisruptionBudget lets no further pod go now (429). The seconds are the server's hint, 0 for none.
    Blocked {
        /// The server's sentence; it names the budget.
        message: String,
        /// When to ask again.
        retry_after_seconds: u32,
    },
    /// Refused for good: more than one PodDisruptionBudget selects the pod (500), or it may not be evicted (403).
    Refused {
        /// The server's sentence.
        message: String,
    },
    /// No usable answer; asking again is safe, because the UID is a precondition.
    Unclear(ApiError),
}

/// Asks for the eviction of one pod, once.
pub async fn evict(client: &Client, pod: &PodRef) -> EvictionAnswer {
    let api: Api<PodView> = Api::namespaced(client.clone(), &pod.namespace);
    let eviction = Eviction {
        metadata: ObjectMeta {
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            ..Default::default()
        },
        delete_options: Some(DeleteOptions {
            preconditions: Some(Preconditions {
                uid: Some(pod.uid.clone()),
                ..Default::default()
            }),
            ..Default::default()
        }),
    };
    let parameters = PostParams::default();
    let request =
        api.create_subresource::<_, Status>("eviction", &pod.name, &parameters, &eviction);
    match call("evicting a pod", request).await {
        Ok(_) => EvictionAnswer::Accepted,
        Err(error) => classify(error),
    }
}

fn classify(error: ApiError) -> EvictionAnswer {
    let ApiError::Failed { source, .. } = &error else {
        return EvictionAnswer::Unclear(error);
    };
    let kube::Error::Api(status) = source.as_ref() else {
        return EvictionAnswer::Unclear(error);
    };
    let causes = status
        .details
        .as_ref()
        .map(|d| d.causes.as_slice())
        .unwrap_or_default();
    let named = |reason: &str| causes.iter().any(|c| c.reason == reason);
    let mut message = status.message.clone();
    for cause in causes {
        if !cause.message.is_empty() {
            message = format!("{message} {}", cause.message);
        }
    }
    match status.code {
        404 | 409 => EvictionAnswer::Gone,
        // Priority and fairness answers 429 as well, but without this cause: that is load, not a budget.
        429 if named("DisruptionBudget") => EvictionAnswer::Blocked {
            message,
            retry_after_seconds: status.details.as_ref().map_or(0, |d| d.retry_after_seconds),
        },
        500 if status.message.contains("more than one PodDisruptionBudget") => {
            EvictionAnswer::Refused { message }
        }
        // A namespace that is terminating deletes its pods itself.
        403 if named("NamespaceTerminating") => EvictionAnswer::Unclear(error),
        403 => EvictionAnswer::Refused { message },
        _ => EvictionAnswer::Unclear(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use kube::core::response::{StatusCause, StatusDetails};

    fn answer(code: u16, message: &str, cause: Option<&str>) -> EvictionAnswer {
        let status = Status {
            code,
            message: message.into(),
            details: cause.map(|reason| StatusDetails {
                name: String::new(),
                group: String::new(),
                kind: String::new(),
                uid: String::new(),
                causes: vec![StatusCause {
                    reason: reason.into(),
                    message: "The disruption budget llm needs 2 healthy pods and has 2 currently"
                        .into(),
                    field: String::new(),
                }],
                retry_after_seconds: 10,
            }),
            ..Default::default()
        };
        classify(ApiError::Failed {
            what: "evicting a pod",
            source: Box::new(kube::Error::Api(status.boxed())),
        })
    }

    #[test]
    fn a_budget_blocks_and_load_does_not() {
        match answer(429, "Cannot evict pod", Some("DisruptionBudget")) {
            EvictionAnswer::Blocked {
                message,
                retry_after_seconds,
            } => {
                assert!(message.contains("disruption budget llm"), "{message}");
                assert_eq!(retry_after_seconds, 10);
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            answer(429, "too many requests", None),
            EvictionAnswer::Unclear(_)
        ));
    }

    /// Only the sentence about two budgets is a refusal; a server in trouble, which answers 500 as well, is not.
    #[test]
    fn c7_two_budgets_are_a_refusal_and_a_server_in_trouble_is_not() {
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        match answer(500, two, None) {
            EvictionAnswer::Refused { message } => assert_eq!(message, two),
            other => panic!("{other:?}"),
        }
        for (code, message) in [
            (500, "etcdserver: request timed out"),
            (500, ""),
            (503, "more than one PodDisruptionBudget"),
            (504, "timeout"),
        ] {
            let other = answer(code, message, None);
            assert!(
                matches!(other, EvictionAnswer::Unclear(_)),
                "{code}: {other:?}"
            );
        }
    }

    #[test]
    fn gone_refused_and_unclear() {
        assert!(matches!(
            answer(404, "not found", None),
            EvictionAnswer::Gone
        ));
        assert!(matches!(answer(409, "uid", None), EvictionAnswer::Gone));
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert!(matches!(
            answer(500, two, None),
            EvictionAnswer::Refused { .. }
        ));
        assert!(matches!(
            answer(500, "etcd", None),
            EvictionAnswer::Unclear(_)
        ));
        assert!(matches!(
            answer(403, "no", None),
            EvictionAnswer::Refused { .. }
        ));
        assert!(matches!(
            answer(403, "no", Some("NamespaceTerminating")),
            EvictionAnswer::Unclear(_)
        ));
        assert!(matches!(
            classify(ApiError::TimedOut {
                what: "x",
                after: std::time::Duration::ZERO
            }),
            EvictionAnswer::Unclear(_)
        ));
    }
}
