//! A seed gives the same faults each time, and only those that a server could give.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use hyper::Request;

use super::*;

fn asked(method: &str, address: &str) -> Asked {
    Asked::of(
        &Request::builder()
            .method(method)
            .uri(address)
            .body(())
            .unwrap(),
    )
}

fn spell(fault: CallFault, share: f64, seed: u64) -> Spell {
    Spell {
        from: Duration::from_secs(10),
        until: Duration::from_secs(20),
        fault: Fault::Call(fault),
        share,
        seed,
    }
}

#[test]
fn conflicts_and_gone_hit_only_verbs_that_know_them() {
    let get = asked("GET", "/api/v1/nodes/a");
    let evict = asked("POST", "/api/v1/namespaces/a/pods/p/eviction");
    let patch = asked("PATCH", "/api/v1/nodes/a");
    let watch = asked("GET", "/api/v1/nodes?watch=true");
    for (fault, hits) in [
        (CallFault::Conflict, [false, false, true, false]),
        (CallFault::Gone, [false, false, false, true]),
        (CallFault::CutAfter, [true, true, true, false]),
        (CallFault::Unavailable, [true; 4]),
    ] {
        assert_eq!(
            [&get, &evict, &patch, &watch].map(|a| fault.may_hit(a)),
            hits,
            "{fault:?}"
        );
    }
}

async fn hits(seed: u64) -> Vec<bool> {
    let injector = Injector::new(vec![spell(CallFault::Internal, 0.5, seed)], Vec::new());
    let get = asked("GET", "/api/v1/nodes/a");
    assert_eq!(injector.for_call("c", 1, &get), None, "before its time");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let hits = (0..64)
        .map(|n| injector.for_call("c", n, &get).is_some())
        .collect();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(injector.for_call("c", 1, &get), None, "after its time");
    hits
}

#[tokio::test(start_paused = true)]
async fn a_seed_hits_the_same_calls_each_time() {
    let first = hits(1).await;
    assert!(first.contains(&true) && first.contains(&false));
    assert_eq!(first, hits(1).await);
    assert_ne!(first, hits(2).await);
}

#[tokio::test(start_paused = true)]
async fn one_shots_hit_the_call_they_name() {
    let shot = OneShot {
        actor: "c".to_owned(),
        call: 3,
        fault: CallFault::CutAfter,
    };
    let injector = Injector::new(Vec::new(), vec![shot]);
    let get = asked("GET", "/api/v1/nodes/a");
    let hit: Vec<_> = (1..5).map(|n| injector.for_call("c", n, &get)).collect();
    assert_eq!(hit, [None, None, Some(CallFault::CutAfter), None]);
    assert_eq!(injector.for_call("d", 3, &get), None);
    assert_eq!(injector.injected(), 1);
}
