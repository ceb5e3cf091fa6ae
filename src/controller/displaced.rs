//! Displaced pods: who may have taken their place, and whether their owners still want them.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::context::Context;
use super::observe::ObserveError;
use super::pod_watches::Scope;
use crate::api::fault_status::{DisplacedPod, OwnerRef, RescheduleOutcome};
use crate::kubernetes::views::PodView;
use crate::kubernetes::{owners, pods};
use crate::remediation::world::{Fault, World};

/// How long a displaced pod is awaited before its owner is asked whether it still wants it.
const ASK_OWNER_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// The root owner of an owner, looked up once.
pub(super) async fn root(
    owner: OwnerRef,
    namespace: &str,
    ctx: &Context,
) -> Result<OwnerRef, ObserveError> {
    if let Some(root) = ctx.memory.root(&owner.uid) {
        return Ok(root);
    }
    let uid = owner.uid.clone();
    let root = owners::root(&ctx.clients.act, namespace, owner)
        .await
        .map_err(ObserveError::Owner)?;
    ctx.memory.remember_root(&uid, root.clone());
    Ok(root)
}

/// The displaced pods whose replacement is awaited. Nobody replaces a pod without an owner: its namespace is not watched.
pub(super) fn awaited(fault: &Fault) -> impl Iterator<Item = &DisplacedPod> {
    let pods = fault.status.displaced_pods.iter();
    pods.filter(|d| {
        d.outcome == RescheduleOutcome::Awaited && d.evicted_at.is_some() && d.owner.is_some()
    })
}

/// Fills in who may be a replacement, who is one already, and what the owners want.
pub(super) async fn replacements(
    fault: &Fault,
    namespaces: &BTreeSet<String>,
    world: &mut World,
    now: Timestamp,
    ctx: &Context,
) -> Result<(), ObserveError> {
    let kinds: BTreeSet<_> = awaited(fault)
        .filter_map(|d| d.owner.as_ref())
        .map(|o| o.uid.clone())
        .collect();
    let mut candidates = Vec::new();
    for namespace in namespaces {
        let scope = Scope::Namespace(namespace.clone());
        let Some(found) = ctx.pods.pods(&scope, &fault.name) else {
            return Ok(());
        };
        for pod in found {
            // Owners are looked up only for pods that can matter: young ones.
            let Some(owner) = pods::controller(&pod) else {
                continue;
            };
            if !is_young(&pod, fault) {
                continue;
            }
            let root = root(owner, namespace, ctx).await?;
            if kinds.contains(&root.uid) {
                candidates.push(pods::candidate(&pod, Some(root)));
            }
        }
    }
    world.candidates = Some(candidates);
    for other in ctx.caches.all_faults() {
        if other.name_any() != fault.name
            && let Some(status) = &other.status
        {
            let replaced = status
                .displaced_pods
                .iter()
                .filter_map(|d| d.replacement.as_ref());
            world.taken.extend(replaced.map(|r| r.uid.clone()));
        }
    }
    for displaced in awaited(fault) {
        let Some(owner) = &displaced.owner else {
            continue;
        };
        let waited = displaced
            .evicted_at
            .map(|t| now.duration_since(t))
            .unwrap_or_default();
        if waited < ASK_OWNER_AFTER || world.owners.contains_key(&owner.uid) {
            continue;
        }
        let state = match ctx.memory.owner(&owner.uid, now, ASK_OWNER_AFTER) {
            Some(state) => state,
            None => {
                let namespace = &displaced.pod.namespace;
                let alive = alive(owner, namespace, &fault.name, ctx).await?;
                let state = owners::state(&ctx.clients.act, namespace, owner, alive)
                    .await
                    .map_err(ObserveError::Owner)?;
                ctx.memory.remember_owner(&owner.uid, state, now);
                state
            }
        };
        world.owners.insert(owner.uid.clone(), state);
    }
    Ok(())
}

/// How many pods the owner has that are not ending.
async fn alive(
    owner: &OwnerRef,
    namespace: &str,
    fault: &str,
    ctx: &Context,
) -> Result<usize, ObserveError> {
    let scope = Scope::Namespace(namespace.to_owned());
    let mut count = 0;
    for pod in ctx.pods.pods(&scope, fault).unwrap_or_default() {
        let Some(direct) = pods::controller(&pod) else {
            continue;
        };
        // What an owner makes in between bears its name; nobody else's owners are looked up.
        let related =
            direct.uid == owner.uid || direct.name.starts_with(&format!("{}-", owner.name));
        if related && root(direct, namespace, ctx).await?.uid == owner.uid {
            count += usize::from(!pods::candidate(&pod, None).ending);
        }
    }
    Ok(count)
}

/// Made since the first eviction. Where the answer to that one was lost, its replacement may be as old as its attempt.
fn is_young(pod: &PodView, fault: &Fault) -> bool {
    let first = fault
        .status
        .displaced_pods
        .iter()
        .filter_map(|d| d.evicted_after.or(d.evicted_at))
        .min();
    let created = pod.creation_timestamp().map(|t| t.0);
    first
        .zip(created)
        .is_some_and(|(first, created)| created + SignedDuration::from_secs(5) >= first)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::GpuFault;
    use crate::controller::reconcile::fault;

    fn fault_with(displaced: serde_json::Value) -> Fault {
        let object: GpuFault = serde_json::from_value(json!({
            "apiVersion": "gpu-remediator.dev/v1alpha1",
            "kind": "GpuFault",
            "metadata": {"name": "f", "uid": "u"},
            "spec": {"nodeName": "a", "policyRef": {"name": "p"}},
            "status": {"displacedPods": [displaced]},
        }))
        .unwrap();
        fault(&object)
    }

    fn pod(created: &str) -> PodView {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "creationTimestamp": created}, "spec": {"containers": []},
        }))
        .unwrap()
    }

    fn evicted(after: Option<&str>) -> Fault {
        fault_with(json!({
            "pod": {"namespace": "n", "name": "old", "uid": "1"},
            "evictedAt": "2026-01-01T00:10:00Z", "evictedAfter": after,
        }))
    }

    #[test]
    fn a_replacement_is_no_older_than_the_eviction() {
        let fault = evicted(None);
        // Creation times have whole seconds, and come from another machine's clock.
        assert!(is_young(&pod("2026-01-01T00:09:56Z"), &fault));
        assert!(is_young(&pod("2026-01-01T00:11:00Z"), &fault));
        assert!(!is_young(&pod("2026-01-01T00:09:00Z"), &fault));
    }

    /// The leader died between an accepted eviction and its answer, and the next one found the pod gone much later.
    #[test]
    fn where_the_answer_was_lost_a_replacement_may_be_as_old_as_the_attempt() {
        let fault = evicted(Some("2026-01-01T00:08:00Z"));
        assert!(is_young(&pod("2026-01-01T00:08:01Z"), &fault));
        assert!(!is_young(&pod("2026-01-01T00:07:00Z"), &fault));
    }

    #[test]
    fn a_pod_without_an_owner_is_awaited_by_nobody() {
        assert_eq!(awaited(&evicted(None)).count(), 0);
        let owned = fault_with(json!({
            "pod": {"namespace": "n", "name": "old", "uid": "1"},
            "owner": {"kind": "Deployment", "name": "d", "uid": "2"},
            "evictedAt": "2026-01-01T00:10:00Z",
        }));
        assert_eq!(awaited(&owned).count(), 1);
    }

    #[test]
    fn nothing_evicted_has_no_replacement() {
        let intended = json!({"pod": {"namespace": "n", "name": "old", "uid": "1"}});
        assert!(!is_young(
            &pod("2026-01-01T00:11:00Z"),
            &fault_with(intended)
        ));
    }
}
