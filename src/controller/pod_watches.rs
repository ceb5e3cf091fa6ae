//! Watches on pods, only where and while a fault needs them: the node that is being drained, the namespaces in which
//! replacements are awaited. Pods of the whole cluster are never cached.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{FutureExt, StreamExt, TryStreamExt};
use kube::Client;
use kube::api::Api;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::AbortHandle;

use super::nudges::Nudges;
use crate::api::fault_status::PodRef;
use crate::kubernetes::views::PodView;
use crate::kubernetes::watch_backoff::WatchBackoff;

/// Which pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// All pods on a node.
    Node(String),
    /// All pods of a namespace.
    Namespace(String),
}

/// The watches that are open.
pub struct PodWatches {
    client: Client,
    nudges: Nudges,
    open: Mutex<HashMap<Scope, Watch>>,
}

struct Watch {
    pods: Store<PodView>,
    subscribers: Arc<Mutex<BTreeSet<String>>>,
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodWatches {
    /// None open yet.
    pub fn new(client: Client, nudges: Nudges) -> Self {
        Self {
            client,
            nudges,
            open: Mutex::default(),
        }
    }

    /// The pods of the scope; `None` until they have been listed, which nudges the fault. From then on every change
    /// does.
    pub fn pods(&self, scope: &Scope, fault: &str) -> Option<Vec<Arc<PodView>>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = open
            .entry(scope.clone())
            .or_insert_with(|| self.start(scope));
        watch
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(fault.to_string());
        if !is_ready(&watch.pods) {
            return None;
        }
        let mut pods = watch.pods.state();
        pods.sort_by(|a, b| {
            a.metadata
                .creation_timestamp
                .cmp(&b.metadata.creation_timestamp)
                .then_with(|| a.metadata.name.cmp(&b.metadata.name))
        });
        Some(pods)
    }

    /// The pod, as an open watch on its node shows it. The watches on namespaces keep less of each.
    pub fn find(&self, pod: &PodRef) -> Option<Arc<PodView>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = ObjectRef::new(&pod.name).within(&pod.namespace);
        let on_nodes = open.iter().filter(|(s, _)| matches!(s, Scope::Node(_)));
        on_nodes.map(|(_, watch)| watch).find_map(|w| {
            w.pods
                .get(&key)
                .filter(|p| p.metadata.uid.as_deref() == Some(&pod.uid))
        })
    }

    /// The fault needs these scopes and no others; a watch that nobody needs any more ends.
    pub fn retain(&self, fault: &str, needed: &BTreeSet<Scope>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|scope, watch| {
            let mut subscribers = watch
                .subscribers
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if !needed.contains(scope) {
                subscribers.remove(fault);
            }
            !subscribers.is_empty()
        });
    }

    fn start(&self, scope: &Scope) -> Watch {
        let (api, config): (Api<PodView>, _) = match scope {
            Scope::Node(node) => (
                Api::all(self.client.clone()),
                watcher::Config::default().fields(&format!("spec.nodeName={node}")),
            ),
            Scope::Namespace(namespace) => (
                Api::namespaced(self.client.clone(), namespace),
                watcher::Config::default(),
            ),
        };
        let (pods, writer) = reflector::store();
        let subscribers = Arc::new(Mutex::new(BTreeSet::<String>::new()));
        let (nudges, told, ready) = (self.nudges.clone(), Arc::clone(&subscribers), pods.clone());
        let trim = match scope {
            Scope::Node(_) => PodView::trim,
            Scope::Namespace(_) => PodView::trim_for_following,
        };
        // Of the pods that nobody owns none is a replacement.
        let wants_unowned = matches!(scope, Scope::Node(_));
        let stream = watcher(api, config)
            .modify(trim)
            .try_filter_map(move |event| async move {
                Ok(match event {
                    Event::InitApply(pod) if !wants_unowned && !pod.is_owned() => None,
                    // It may have been owned before.
                    Event::Apply(pod) if !wants_unowned && !pod.is_owned() => {
                        Some(Event::Delete(pod))
                    }
                    event => Some(event),
                })
            })
            .backoff(WatchBackoff::default())
            .reflect(writer);
        let scope = scope.clone();
        let task = tokio::spawn(async move {
            let mut stream = Box::pin(stream);
            while let Some(event) = stream.next().await {
                if let Err(error) = &event {
                    tracing::warn!(
                        error = error as &dyn std::error::Error,
                        ?scope,
                        "watching pods"
                    );
                }
                // During the first list the store is not to be trusted yet; its end is an event of its own.
                if is_ready(&ready) {
                    for fault in told.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                        nudges.nudge(fault);
                    }
                }
            }
        });
        Watch {
            pods,
            subscribers,
            task: task.abort_handle(),
        }
    }
}

/// The first list has been read.
fn is_ready(pods: &Store<PodView>) -> bool {
    pods.wait_until_ready()
        .now_or_never()
        .is_some_and(|ready| ready.is_ok())
}
