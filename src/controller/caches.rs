//! What the process remembers of the cluster. Memory is a cache: everything here is read from the API server again
//! after a restart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};

use crate::api::{GpuFault, GpuFaultRule, RemediationPolicy};
use crate::kubernetes::views::{BudgetView, NodeView};

/// Whether a first list has been read, for any number of waiters. A store's own `wait_until_ready` wakes only the one
/// that asked last, so that a probe of `/readyz` could leave the leader asleep for ever.
pub type FirstList = tokio::sync::watch::Receiver<bool>;

/// The watched objects.
pub struct Caches {
    /// Faults, as last seen by the watch.
    pub faults: Store<GpuFault>,
    /// Nodes.
    pub nodes: Store<NodeView>,
    /// Policies.
    pub policies: Store<RemediationPolicy>,
    /// Rules.
    pub rules: Store<GpuFaultRule>,
    /// PodDisruptionBudgets.
    pub budgets: Store<BudgetView>,
    first_lists: Vec<FirstList>,
    /// Faults as we last wrote them: the watch learns of our own writes a little later.
    written: Mutex<HashMap<String, GpuFault>>,
}

impl Caches {
    /// Caches over these stores.
    pub fn new(
        faults: Store<GpuFault>,
        nodes: Store<NodeView>,
        policies: Store<RemediationPolicy>,
        rules: Store<GpuFaultRule>,
        budgets: Store<BudgetView>,
        first_lists: Vec<FirstList>,
    ) -> Self {
        Self {
            faults,
            nodes,
            policies,
            rules,
            budgets,
            first_lists,
            written: Mutex::default(),
        }
    }

    /// Every first list has been read.
    pub fn are_ready(&self) -> bool {
        self.first_lists.iter().all(|list| *list.borrow())
    }

    /// Waits until every first list has been read.
    pub async fn ready(&self) {
        for list in &self.first_lists {
            // An error says that the watch is gone: the process is ending then.
            let _ = list.clone().wait_for(|read| *read).await;
        }
    }

    /// Remembers a fault as the API server answered our write.
    pub fn wrote(&self, fault: GpuFault) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(fault.name_any(), fault);
    }

    /// Forgets what we wrote: the object is gone, or ours is not the last word.
    pub fn forget(&self, name: &str) {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// The newer of what the watch shows and what we wrote.
    pub fn newest(&self, seen: Arc<GpuFault>) -> Arc<GpuFault> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match written.get(&seen.name_any()) {
            Some(ours) if ours.uid() == seen.uid() && version(ours) > version(&seen) => {
                Arc::new(ours.clone())
            }
            Some(_) => {
                written.remove(&seen.name_any());
                seen
            }
            None => seen,
        }
    }

    /// The fault of that name.
    pub fn fault(&self, name: &str) -> Option<Arc<GpuFault>> {
        self.faults
            .get(&ObjectRef::new(name))
            .map(|f| self.newest(f))
    }

    /// Shows every fault, in no order.
    pub fn each_fault(&self, mut look: impl FnMut(&GpuFault)) {
        for fault in self.faults.state() {
            look(&self.newest(fault));
        }
    }

    /// Every fault, sorted by name.
    pub fn all_faults(&self) -> Vec<Arc<GpuFault>> {
        in_order(&self.faults)
            .into_iter()
            .map(|f| self.newest(f))
            .collect()
    }
}

/// What a store holds, sorted by namespace and name. The store itself has another order in each process, and
/// what a process does must not depend on that.
pub fn in_order<K>(store: &Store<K>) -> Vec<Arc<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    let mut objects = store.state();
    objects.sort_by(|a, b| {
        let (a, b) = (a.meta(), b.meta());
        (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
    });
    objects
}

/// The API server's versions count upwards; clients may compare those of one resource (KEP-5504).
fn version(fault: &GpuFault) -> u64 {
    fault
        .resource_version()
        .and_then(|v| v.parse().ok())
        .unwrap_or(0)
}
